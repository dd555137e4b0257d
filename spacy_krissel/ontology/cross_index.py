"""Entities of several stores that are the same concept, by their ids and xrefs."""

from collections.abc import Sequence
from itertools import repeat

from .entity import Entity
from .folding import canonical_name
from .hash_index import HashIndexBuilder, find_hash, sort_by_hash
from .ids import canonical_id
from .store import OntologyStore

# How two entities are linked, the strongest link first.
SAME_ID, BY_XREF = 0, 1
# A store's number and a row of it.
Place = tuple[int, int]


class CrossIndex:
    """From a canonical id to the entities of several stores that have it as id or xref."""

    def __init__(self, stores: Sequence[OntologyStore]) -> None:
        self._stores = stores
        builder = HashIndexBuilder()
        for owner, store in enumerate(stores):
            for row, entity in enumerate(store):
                for key, _ in _keys(entity):
                    builder.add(key, row, owner)
        self._columns = builder.columns()
        sort_by_hash(self._columns)

    def links(self, entity: Entity) -> list[tuple[int, Place, Entity]]:
        """The linked entities with the strength of their link, their store and row, the strongest link first.

        If some of those that one store links by xref share a name with `entity`, the others are left out.
        """
        found: dict[Place, tuple[int, Entity]] = {}
        own_keys = dict(reversed(_keys(entity)))
        for key, own_strength in own_keys.items():
            for entry in find_hash(self._columns["hash"], key):
                place = int(self._columns["position"][entry]), int(self._columns["row"][entry])
                other = self._stores[place[0]].entity_at(place[1])
                # By its real ids, since different ids may have one hash.
                other_strength = dict(reversed(_keys(other))).get(key)
                if other_strength is None or own_strength == other_strength == BY_XREF:
                    continue
                strength = max(own_strength, other_strength)
                if place not in found or strength < found[place][0]:
                    found[place] = strength, other
        if len(found) < 2:
            return [(strength, place, other) for place, (strength, other) in found.items()]
        names = {canonical_name(name) for name in entity.names}
        namesakes = {place for place in found if any(canonical_name(name) in names for name in found[place][1].names)}
        # Where a store has a namesake, its other entities with this xref are narrower or wider concepts.
        settled = {(found[place][0], place[0]) for place in namesakes if found[place][0] == BY_XREF}
        places = [place for place in found if place in namesakes or (found[place][0], place[0]) not in settled]
        places.sort(key=lambda place: (found[place][0], place[0], place not in namesakes, place[1]))
        return [(found[place][0], place, found[place][1]) for place in places]


def _keys(entity: Entity) -> list[tuple[str, int]]:
    """Canonical ids and how strong a link each makes; read in reverse, the stronger reading of a key wins."""
    ids = map(canonical_id, (entity.id, *entity.alt_ids))
    return [*zip(ids, repeat(SAME_ID)), *zip(map(canonical_id, entity.xrefs), repeat(BY_XREF))]
