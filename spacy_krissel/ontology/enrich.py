"""Completing the entities of one ontology from others that have the same concepts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..errors import Errors, KrisselError
from .cross_index import BY_XREF, SAME_ID, CrossIndex
from .entity import Entity
from .ids import canonical_id
from .store import OntologyStore

FIELDS = ("definition", "tree_numbers", "parents", "types", "species", "xrefs", "aliases")
DEFAULT_FIELDS = ("definition", "tree_numbers", "parents", "types")


def enrich(
    entities: Iterable[Entity],
    others: Sequence[OntologyStore],
    *,
    fields: Sequence[str] = DEFAULT_FIELDS,
    counts: Counter[str] | None = None,
) -> Iterator[Entity]:
    """Add missing fields of entities from the same concepts in `others`.

    Two entities are the same concept when they share an id (primary or alternative), or when one has an id of the other
    among its xrefs; prefixes are normalised (`ids.canonical_id`). A third id that is an xref of both does not link
    them. The definition and species come from the strongest link that has one: shared ids before xrefs, then the order
    of `others`. If several entities of one store are linked by xref and some of them share a name, only these are used:
    the others are narrower or wider concepts. Tree numbers and types come from all entities with a shared id, or else
    from the strongest xref, parents, which are ids of the other ontology, from shared ids alone. Existing values stay;
    xrefs and aliases, when asked for, are added to them.

    fields: of "definition", "tree_numbers", "parents", "types", "species", "xrefs", "aliases". Names come only
        from entities that share an id: xrefs would bring the names of wider and narrower concepts too (MEDIC with the
        names of the Disease Ontology's xrefs links NCBI Disease's training split 2.7 points worse, by vectors alone).
    counts: receives the numbers of entities that were "seen", "linked", and given each field.
    Raises KrisselError K111 for an unknown field.
    """
    for field in fields:
        if field not in FIELDS:
            raise KrisselError(Errors.K111.format(found=field, expected=", ".join(FIELDS)))
    index, counts = CrossIndex(others), Counter() if counts is None else counts

    def enriched() -> Iterator[Entity]:
        for entity in entities:
            linked = [(strength, other) for strength, _, other in index.links(entity)]
            counts["seen"] += 1
            counts["linked"] += bool(linked)
            added = {field: added_value(entity, field, linked) for field in fields}
            changes = {field: new for field, new in added.items() if new != getattr(entity, field)}
            counts.update(changes.keys())
            yield replace(entity, **changes) if changes else entity

    return enriched()


def added_value(entity: Entity, field: str, linked: list[tuple[int, Entity]]) -> Any:
    """The field of an entity with the values of its `linked` entities, the strongest link first, as in `enrich`."""
    old = getattr(entity, field)
    if field == "aliases":
        names = dict.fromkeys(name for strength, other in linked if strength == SAME_ID for name in other.names)
        return (*old, *(name for name in names if name not in entity.names))
    if field == "xrefs":
        # The entity's own ids and xrefs are not repeated in another spelling.
        known = {canonical_id(id_) for id_ in (entity.id, *entity.alt_ids, *old)}
        found = dict.fromkeys(canonical_id(id_) for _, other in linked for id_ in (other.id, *other.xrefs))
        return (*old, *(id_ for id_ in found if id_ not in known))
    if field == "parents":
        linked = [(strength, other) for strength, other in linked if strength == SAME_ID]
    values = [(strength, value) for strength, other in linked if (value := getattr(other, field))]
    if old or not values:
        return old
    strength, first = values[0]
    if isinstance(first, str) or strength == BY_XREF:
        return first
    return tuple(dict.fromkeys(item for strength, value in values if strength == SAME_ID for item in value))
