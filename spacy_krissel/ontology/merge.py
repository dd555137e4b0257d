"""Merging ontologies, so that each concept is one entity."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from .cross_index import SAME_ID, CrossIndex, Place
from .entity import Entity
from .folding import fold_name
from .ids import canonical_id
from .store import OntologyStore


def merge(stores: Sequence[OntologyStore], *, counts: Counter | None = None) -> Iterator[Entity]:
    """The entities of `stores` in their order; an entity of a concept that an earlier store has is merged into that
    one.

    Two entities are the same concept when they share an id, or when one has an id of the other among its xrefs and
    they share a name, folded: with the xref alone it is often a narrower or wider concept. Entities of one store are
    never merged with each other. The first entity determines id, name, and, where it has them, definition, types, tree
    numbers and species; it gets the names, ids and xrefs of the others.

    counts: receives how many entities were "seen" and how many of them were "merged" into another.
    """
    counts = Counter() if counts is None else counts
    index = CrossIndex(stores)
    merged = [np.zeros(len(store), dtype=bool) for store in stores]
    for number, store in enumerate(stores):
        for row, entity in enumerate(store):
            counts["seen"] += 1
            if merged[number][row]:
                continue
            merged[number][row] = True
            owners = {number}
            # The ids and xrefs of each may lead to others.
            while (found := _same(index, entity, merged, owners)) is not None:
                (owner, other_row), other = found
                merged[owner][other_row] = True
                owners.add(owner)
                counts["merged"] += 1
                entity = _joined(entity, other)
            yield entity


def _same(index: CrossIndex, entity: Entity, merged: list[np.ndarray], owners: set[int]) -> tuple[Place, Entity] | None:
    """The strongest link to an entity of the same concept in a store that has not contributed one yet."""
    names = {fold_name(name) for name in entity.names}
    for strength, place, other in index.links(entity):
        if place[0] in owners or merged[place[0]][place[1]]:
            continue
        if strength == SAME_ID or not names.isdisjoint(fold_name(name) for name in other.names):
            return place, other
    return None


def _joined(entity: Entity, other: Entity) -> Entity:
    known = {canonical_id(id_) for id_ in (entity.id, *entity.alt_ids)}
    ids = tuple(id_ for id_ in dict.fromkeys((other.id, *other.alt_ids)) if canonical_id(id_) not in known)
    known.update(map(canonical_id, ids))
    xrefs = dict.fromkeys(id_ for id_ in (*entity.xrefs, *other.xrefs) if canonical_id(id_) not in known)
    return replace(
        entity,
        aliases=(*entity.aliases, *(name for name in other.names if name not in entity.names)),
        types=entity.types or other.types,
        tree_numbers=entity.tree_numbers or other.tree_numbers,
        definition=entity.definition or other.definition,
        species=entity.species or other.species,
        xrefs=tuple(xrefs),
        alt_ids=(*entity.alt_ids, *ids),
    )
