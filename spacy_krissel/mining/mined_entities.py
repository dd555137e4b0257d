"""The entities of mined shards, by number, and which of their mentions are those of held-out names."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np

from ..ontology.held_out import HeldOut
from ..ontology.store import OntologyStore
from ..util.hashing import stable_hash
from ..views import View
from .shards import MentionShards

# Entities whose mentions are looked through at a time, and mentions of each: the first ones, which are a sample.
CHUNK, LOOKED_THROUGH = 4096, 256


class MinedEntities:
    """The entities of mined shards, numbered in the order of the shards.

    rows: of the entities in the ontology, (n,).
    starts: position of the first mention of each, and the end of the last, (n + 1,).
    Raises KrisselError K106 for an entity that the ontology does not have.
    """

    def __init__(self, shards: MentionShards, ontology: OntologyStore) -> None:
        self.shards, self.ontology = shards, ontology
        ids, self.starts = shards.groups()
        self.rows = ontology.rows(ids)

    def choose(
        self, numbers: np.ndarray, draw: Callable[[range], Sequence[int]], held_out: HeldOut, *, hidden: bool
    ) -> dict[int, list[int]]:
        """Of each of these entities, by number, those mentions that `draw` takes, given their positions, and whose
        name is held out (`hidden`) or is not."""
        edges = zip(self.starts[numbers].tolist(), self.starts[numbers + 1].tolist(), strict=True)
        drawn = [draw(range(start, end)) for start, end in edges]
        names = iter(self.shards.fields([place for places in drawn for place in places], "name")[0])
        found = {}
        for number, places in zip(numbers.tolist(), drawn, strict=True):
            named = list(zip(places, islice(names, len(places)), strict=True))
            row = int(self.rows[number])
            id_ = self.ontology.id_at(row)
            if out := {name for name in {name for _, name in named} if held_out.draws(id_, name)}:
                entity = self.ontology.entity_at(row)
                out = {name for name in out if held_out(entity, name)}
            found[number] = [place for place, name in named if (name in out) == hidden]
        return found

    def held_out(self, held_out: HeldOut) -> Iterator[tuple[str, list[int]]]:
        """Id, and positions of the mentions of held-out names, of each entity that has any; entities in the order of a
        seeded hash, so that the first ones are a sample, for which no more is read than is needed."""
        if not held_out.fraction:
            return
        ids = map(self.ontology.id_at, self.rows.tolist())
        order = np.argsort(
            np.fromiter((stable_hash(held_out.seed, id_) for id_ in ids), dtype=np.uint64), kind="stable"
        )
        for first in range(0, len(order), CHUNK):
            numbers = order[first : first + CHUNK]
            chosen = self.choose(numbers, lambda places: places[:LOOKED_THROUGH], held_out, hidden=True)
            for number, places in chosen.items():
                if places:
                    yield self.ontology.id_at(int(self.rows[number])), places

    def views(self, places: Sequence[int]) -> list[View]:
        """The mentions at these positions in their contexts."""
        return list(map(View, *self.shards.fields(places, "left", "mention", "right")))
