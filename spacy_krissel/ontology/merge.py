"""Merging ontologies, so that each concept is one entity."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .cross_index import SAME_ID, CrossIndex, Place
from .enrich import FIELDS, added_value
from .entity import Entity
from .folding import canonical_name
from .ids import canonical_id
from .store import OntologyStore


def merge(stores: Sequence[OntologyStore], *, counts: Counter[str] | None = None) -> Iterator[Entity]:
    """The entities of `stores` in their order, each merged into that of an earlier store for the same concept.

    Two entities are the same concept when they share an id, or when one has an id of the other among its xrefs and
    they share a name, folded: with the xref alone it is often a narrower or wider concept. Entities of one store are
    never merged with each other. The first entity determines id, name, and, where it has them, definition, types, tree
    numbers, parents and species; it gets the names, ids and xrefs of the others.

    counts: receives how many entities were "seen" and how many of them were "merged" into another.
    """
    counts = Counter() if counts is None else counts
    index = CrossIndex(stores)
    merged: set[Place] = set()
    for number, store in enumerate(stores):
        for row, entity in enumerate(store):
            counts["seen"] += 1
            if (number, row) in merged:
                continue
            owners = set(range(number + 1))
            # The ids and xrefs of each may lead to others.
            while (found := _same(index, entity, merged, owners)) is not None:
                place, other = found
                merged.add(place)
                owners.add(place[0])
                counts["merged"] += 1
                entity = _joined(entity, other)
            yield entity


def _same(index: CrossIndex, entity: Entity, merged: set[Place], owners: set[int]) -> tuple[Place, Entity] | None:
    """The strongest link to an entity of the same concept outside the stores of `owners`."""
    names = {canonical_name(name) for name in entity.names}
    for strength, place, other in index.links(entity):
        if place[0] in owners or place in merged:
            continue
        if strength == SAME_ID or not names.isdisjoint(canonical_name(name) for name in other.names):
            return place, other
    return None


def _joined(entity: Entity, other: Entity) -> Entity:
    known = {canonical_id(id_) for id_ in (entity.id, *entity.alt_ids)}
    ids = tuple(id_ for id_ in dict.fromkeys((other.id, *other.alt_ids)) if canonical_id(id_) not in known)
    known.update(map(canonical_id, ids))
    xrefs = dict.fromkeys(id_ for id_ in (*entity.xrefs, *other.xrefs) if canonical_id(id_) not in known)
    added = {field: added_value(entity, field, [(SAME_ID, other)]) for field in FIELDS}
    return replace(entity, **{**added, "xrefs": tuple(xrefs), "alt_ids": (*entity.alt_ids, *ids)})
