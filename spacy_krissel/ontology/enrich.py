"""Enrichment and merging of entities of several ontologies that are the same concept."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

from ..errors import Errors, KrisselError
from ..util.folding import canonical_name
from .entity import Entity, canonical_id
from .hash_index import HashIndexBuilder, find_hash, sort_by_hash
from .store import OntologyStore

# Strength of a link between two entities, strongest first.
SAME_ID, BY_XREF = 0, 1
# The number of a store, and one of its rows.
Location = tuple[int, int]


class _CrossIndex:
    """Index from canonical ids to the entities of several stores that have them as id or xref."""

    def __init__(self, stores: Sequence[OntologyStore]) -> None:
        self._stores = stores
        builder = HashIndexBuilder()
        for owner, store in enumerate(stores):
            for row, entity in enumerate(store):
                for key, _ in _keys(entity):
                    builder.add(key, row, owner)
        self._columns = builder.columns()
        sort_by_hash(self._columns)

    def links(self, entity: Entity) -> list[tuple[int, Location, Entity]]:
        """Return linked entities with the strength of their link, their store and row, strongest
        link first.

        If some entities linked by xref in one store share a name with `entity`, the others of that
        store are left out.
        """
        found: dict[Location, tuple[int, Entity]] = {}
        own_keys = dict(reversed(_keys(entity)))
        for key, own_strength in own_keys.items():
            for entry in find_hash(self._columns["hash"], key):
                location = int(self._columns["position"][entry]), int(self._columns["row"][entry])
                other = self._stores[location[0]].entity_at(location[1])
                # Compare the ids themselves, since different ids may share a hash.
                other_strength = dict(reversed(_keys(other))).get(key)
                if other_strength is None or own_strength == other_strength == BY_XREF:
                    continue
                strength = max(own_strength, other_strength)
                if location not in found or strength < found[location][0]:
                    found[location] = strength, other
        if len(found) < 2:
            return [(strength, location, other) for location, (strength, other) in found.items()]
        names = {canonical_name(name) for name in entity.names}
        namesakes = {
            location
            for location in found
            if any(canonical_name(name) in names for name in found[location][1].names)
        }
        # If a store has an entity with a shared name, its other entities with this xref are
        # narrower or wider concepts.
        settled = {
            (found[location][0], location[0])
            for location in namesakes
            if found[location][0] == BY_XREF
        }
        locations = [
            location
            for location in found
            if location in namesakes or (found[location][0], location[0]) not in settled
        ]
        locations.sort(
            key=lambda location: (
                found[location][0],
                location[0],
                location not in namesakes,
                location[1],
            )
        )
        return [(found[location][0], location, found[location][1]) for location in locations]


def _keys(entity: Entity) -> list[tuple[str, int]]:
    """Return canonical ids and the strength of the link that each makes; read in reverse, the
    stronger one of a key wins.
    """
    ids = map(canonical_id, (entity.id, *entity.alt_ids))
    return [*zip(ids, repeat(SAME_ID)), *zip(map(canonical_id, entity.xrefs), repeat(BY_XREF))]


FIELDS = ("definition", "tree_numbers", "parents", "types", "species", "xrefs", "aliases")
DEFAULT_FIELDS = ("definition", "tree_numbers", "parents", "types")


def enrich(
    entities: Iterable[Entity],
    others: Sequence[OntologyStore],
    *,
    fields: Sequence[str] = DEFAULT_FIELDS,
    counts: Counter[str] | None = None,
) -> Iterator[Entity]:
    """Add missing fields to entities from the same concepts in `others`.

    Two entities are the same concept if they share an id (primary or alternative), or if one has an
    id of the other among its xrefs; prefixes are normalised (`ids.canonical_id`). A third id that
    is an xref of both does not link them. The definition and species come from the strongest link
    that has one: shared ids before xrefs, then the order of `others`. If several entities of one
    store are linked by xref and some of them share a name, only these are used: the others are
    narrower or wider concepts. Tree numbers and types come from all entities with a shared id, or
    else from the strongest xref. Parents, which are ids of the other ontology, come from shared ids
    only. Existing values stay; requested xrefs and aliases are added to them.

    fields: of "definition", "tree_numbers", "parents", "types", "species", "xrefs", "aliases".
        Names come only from entities that share an id: xrefs would add the names of wider and
        narrower concepts (MEDIC with the names of the Disease Ontology's xrefs links NCBI Disease's
        training split 2.7 points worse, by vectors alone).
    counts: receives the numbers of entities that were "seen", "linked", and given each field.

    Raises KrisselError K111 for an unknown field.
    """
    for field in fields:
        if field not in FIELDS:
            raise KrisselError(Errors.K111.format(found=field, expected=", ".join(FIELDS)))
    index, counts = _CrossIndex(others), Counter() if counts is None else counts

    def enriched() -> Iterator[Entity]:
        for entity in entities:
            linked = [(strength, other) for strength, _, other in index.links(entity)]
            counts["seen"] += 1
            counts["linked"] += bool(linked)
            added = {field: _added_value(entity, field, linked) for field in fields}
            changes = {field: new for field, new in added.items() if new != getattr(entity, field)}
            counts.update(changes.keys())
            yield replace(entity, **changes) if changes else entity

    return enriched()


def _added_value(entity: Entity, field: str, linked: list[tuple[int, Entity]]) -> Any:
    """Return the field of an entity with the values of its `linked` entities, strongest link first,
    as in `enrich`.
    """
    old = getattr(entity, field)
    if field == "aliases":
        names = dict.fromkeys(
            name for strength, other in linked if strength == SAME_ID for name in other.names
        )
        return (*old, *(name for name in names if name not in entity.names))
    if field == "xrefs":
        # Ids and xrefs of the entity are not repeated in another spelling.
        known = {canonical_id(id_) for id_ in (entity.id, *entity.alt_ids, *old)}
        found = dict.fromkeys(
            canonical_id(id_) for _, other in linked for id_ in (other.id, *other.xrefs)
        )
        return (*old, *(id_ for id_ in found if id_ not in known))
    if field == "parents":
        linked = [(strength, other) for strength, other in linked if strength == SAME_ID]
    values = [(strength, value) for strength, other in linked if (value := getattr(other, field))]
    if old or not values:
        return old
    strength, first = values[0]
    if isinstance(first, str) or strength == BY_XREF:
        return first
    return tuple(
        dict.fromkeys(item for strength, value in values if strength == SAME_ID for item in value)
    )


def merge(
    stores: Sequence[OntologyStore], *, counts: Counter[str] | None = None
) -> Iterator[Entity]:
    """Yield the entities of `stores` in order, each merged into an earlier store's entity for the
    same concept.

    Two entities are the same concept if they share an id, or if one has an id of the other among
    its xrefs and they share a folded name: with the xref alone it is often a narrower or wider
    concept. Entities of one store are never merged with each other. The first entity determines id,
    name and, if present, definition, types, tree numbers, parents and species; it gets the names,
    ids and xrefs of the others.

    counts: receives how many entities were "seen" and how many of them were "merged" into another.
    """
    counts = Counter() if counts is None else counts
    index = _CrossIndex(stores)
    merged: set[Location] = set()
    for number, store in enumerate(stores):
        for row, entity in enumerate(store):
            counts["seen"] += 1
            if (number, row) in merged:
                continue
            owners = set(range(number + 1))
            # The ids and xrefs of each merged entity may lead to others.
            while (found := _same(index, entity, merged, owners)) is not None:
                location, other = found
                merged.add(location)
                owners.add(location[0])
                counts["merged"] += 1
                entity = _merge_pair(entity, other)
            yield entity


def _same(
    index: _CrossIndex, entity: Entity, merged: set[Location], owners: set[int]
) -> tuple[Location, Entity] | None:
    """Return the strongest link to an entity of the same concept outside the stores of `owners`."""
    names = {canonical_name(name) for name in entity.names}
    for strength, location, other in index.links(entity):
        if location[0] in owners or location in merged:
            continue
        if strength == SAME_ID or not names.isdisjoint(
            canonical_name(name) for name in other.names
        ):
            return location, other
    return None


def _merge_pair(entity: Entity, other: Entity) -> Entity:
    known = {canonical_id(id_) for id_ in (entity.id, *entity.alt_ids)}
    ids = tuple(
        id_ for id_ in dict.fromkeys((other.id, *other.alt_ids)) if canonical_id(id_) not in known
    )
    known.update(map(canonical_id, ids))
    xrefs = dict.fromkeys(
        id_ for id_ in (*entity.xrefs, *other.xrefs) if canonical_id(id_) not in known
    )
    added = {field: _added_value(entity, field, [(SAME_ID, other)]) for field in FIELDS}
    return replace(entity, **{**added, "xrefs": tuple(xrefs), "alt_ids": (*entity.alt_ids, *ids)})
