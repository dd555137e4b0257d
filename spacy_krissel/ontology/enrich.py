"""Filling what one ontology lacks from others that speak of the same concepts."""

from array import array
from collections import Counter
from dataclasses import replace
from itertools import repeat
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

import numpy as np

from ..errors import Errors, KrisselError
from .entity import Entity
from .hashes import find_hash
from .ids import canonical_id
from .names import fold_name, hash_text
from .store import OntologyStore

FIELDS = ("definition", "tree_numbers", "types", "species", "xrefs", "aliases")
DEFAULT_FIELDS = ("definition", "tree_numbers", "types")
# How two entities are linked: the smaller, the stronger.
SAME_ID, BY_XREF = 0, 1


def enrich(
    entities: Iterable[Entity],
    others: Sequence[OntologyStore],
    *,
    fields: Sequence[str] = DEFAULT_FIELDS,
    counts: Optional[Counter] = None,
) -> Iterator[Entity]:
    """Give entities what they lack from the same concepts in `others`.

    Two entities are of one concept when they share an id (primary or alternative), or when one names an id of the other
    among its xrefs; all in one spelling of the prefixes (`ids.canonical_id`). A third id that both name as xref does
    not link them. The definition and species come from the strongest link that has one: shared ids before xrefs, then
    the order of `others`. Of several entities of one store that are linked by xref, those that share a name are taken,
    if there are any: the rest are narrower or wider concepts. Tree numbers and types are those of all shared ids, or
    else of the strongest xref. What an entity has already stays; xrefs and aliases, when asked for, are added to it.

    fields: of "definition", "tree_numbers", "types", "species", "xrefs", "aliases". Names come from entities that share
        an id alone: through xrefs the names of wider and narrower concepts would come too (MEDIC with the names of the
        Disease Ontology's xrefs links NCBI Disease's training split 2.7 points worse, by vectors alone).
    counts: receives how many entities were "seen", "linked", and given each field.
    Raises KrisselError K111 for an unknown field.
    """
    for field in fields:
        if field not in FIELDS:
            raise KrisselError(Errors.K111.format(found=field, expected=", ".join(FIELDS)))
    return _enrich(entities, _CrossIndex(others), fields, Counter() if counts is None else counts)


def _enrich(
    entities: Iterable[Entity], index: "_CrossIndex", fields: Sequence[str], counts: Counter
) -> Iterator[Entity]:
    for entity in entities:
        linked = index.linked(entity)
        counts["seen"] += 1
        counts["linked"] += bool(linked)
        changes: Dict[str, Any] = {}
        for field in fields:
            old = getattr(entity, field)
            new = _value(entity, field, linked)
            if new and new != old:
                changes[field] = new
                counts[field] += 1
        yield replace(entity, **changes) if changes else entity


def _value(entity: Entity, field: str, linked: List[Tuple[int, Entity]]) -> Any:
    old = getattr(entity, field)
    if field == "aliases":
        names = dict.fromkeys(name for strength, other in linked if strength == SAME_ID for name in other.names)
        return (*old, *(name for name in names if name not in entity.names))
    if field == "xrefs":
        # One spelling a concept: the entity's own ids and xrefs are not repeated in another's.
        known = {canonical_id(id_) for id_ in (entity.id, *entity.alt_ids, *old)}
        found = dict.fromkeys(canonical_id(id_) for _, other in linked for id_ in (other.id, *other.xrefs))
        return (*old, *(id_ for id_ in found if id_ not in known))
    if old:
        return old
    having = [(strength, getattr(other, field)) for strength, other in linked if getattr(other, field)]
    if not having:
        return old
    strength, first = having[0]
    if isinstance(first, str) or strength == BY_XREF:
        return first
    return tuple(dict.fromkeys(item for s, value in having if s == SAME_ID for item in value))


class _CrossIndex:
    """From an id, in its canonical spelling, to the entities of several stores that bear it or name it as xref."""

    def __init__(self, stores: Sequence[OntologyStore]) -> None:
        self._stores = stores
        hashes, owners, rows = array("Q"), array("I"), array("I")
        for owner, store in enumerate(stores):
            for row, entity in enumerate(store):
                for key, _ in _keys(entity):
                    hashes.append(hash_text(key))
                    owners.append(owner)
                    rows.append(row)
        order = np.lexsort((np.array(rows), np.array(owners), np.array(hashes, dtype=np.uint64)))
        self._hashes = np.array(hashes, dtype=np.uint64)[order]
        self._owners = np.array(owners, dtype=np.uint32)[order]
        self._rows = np.array(rows, dtype=np.uint32)[order]

    def linked(self, entity: Entity) -> List[Tuple[int, Entity]]:
        """The linked entities with the strength of their link, the strongest first."""
        found: Dict[Tuple[int, int], Tuple[int, Entity]] = {}
        own_keys = dict(reversed(_keys(entity)))
        for key, own_strength in own_keys.items():
            for entry in find_hash(self._hashes, key):
                place = int(self._owners[entry]), int(self._rows[entry])
                other = self._stores[place[0]].entity_at(place[1])
                # By its real ids, since different ids may have one hash.
                other_strength = dict(reversed(_keys(other))).get(key)
                if other_strength is None or own_strength == other_strength == BY_XREF:
                    continue
                strength = max(own_strength, other_strength)
                if place not in found or strength < found[place][0]:
                    found[place] = strength, other
        if len(found) < 2:
            return list(found.values())
        names = {fold_name(name) for name in entity.names}
        namesakes = {place for place in found if any(fold_name(name) in names for name in found[place][1].names)}
        # Where a store has a namesake, what else names this id as xref there is a narrower or wider concept.
        settled = {(found[place][0], place[0]) for place in namesakes if found[place][0] == BY_XREF}
        places = [place for place in found if place in namesakes or (found[place][0], place[0]) not in settled]
        places.sort(key=lambda place: (found[place][0], place[0], place not in namesakes, place[1]))
        return [found[place] for place in places]


def _keys(entity: Entity) -> List[Tuple[str, int]]:
    """Canonical ids and how strong a link each makes; read in reverse, the stronger reading of a key wins."""
    ids = map(canonical_id, (entity.id, *entity.alt_ids))
    return [*zip(ids, repeat(SAME_ID)), *zip(map(canonical_id, entity.xrefs), repeat(BY_XREF))]
