"""The candidates that a mention is compared with in training: its own entity and negatives."""

import random
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ...util.settings import Fraction, PositiveInt, checked


class Candidates(NamedTuple):
    """The candidates of a batch of q mentions, n in all.

    entities: rows of the ontology (n,).
    gold: the column of each mention's own entity (q,).
    negatives: which columns are negatives of each mention (q, n) bool.
    """

    entities: np.ndarray
    gold: np.ndarray
    negatives: np.ndarray

    def distinct(self) -> "Candidates":
        """The same with each entity once."""
        entities, column = np.unique(self.entities, return_inverse=True)
        negatives = np.zeros((len(self.gold), len(entities)), dtype=bool)
        mentions, columns = np.nonzero(self.negatives)
        negatives[mentions, column[columns]] = True
        return Candidates(entities, column[self.gold], negatives)


@checked
@dataclass(eq=False)
class Negatives:
    """Random negatives, uniform over the ontology, and hard ones among the nearest by the encoder (PEL §5.3.1: "random"
    and "mixed-p%").

    A mention's own entity and its `homonyms` are never its negatives.

    n_entities: rows to draw from.
    homonyms: rows of the entities that share a name with the one at a row.
    n_negatives: N. With `shared`, per batch: every mention is compared with all of them and with the entities of the
        other mentions, in the memory of N + q entities. Otherwise per mention as in the paper, in that of q(N + 1).
    hard_share: p, the fraction of N that are hard.
    shared: negatives are those of the batch.
    seed: of the random ones.
    """

    n_entities: int
    homonyms: dict[int, set[int]]
    n_negatives: PositiveInt
    hard_share: Fraction
    shared: bool
    seed: int = 0

    def __post_init__(self) -> None:
        self.n_hard = round(self.hard_share * self.n_negatives)
        self._rng = random.Random(f"negatives-{self.seed}")

    def n_nearest(self, n_mentions: int) -> int:
        """The number of nearest entities per mention that `draw` chooses from; 0 without hard negatives."""
        if not self.n_hard:
            return 0
        each = self.n_hard if not self.shared else 4 * -(-self.n_hard // n_mentions)
        # Some are excluded, or come with several mentions.
        return min(self.n_entities, each + 16)

    def draw(self, gold: Sequence[int], nearest: np.ndarray | None = None) -> Candidates:
        """The candidates of mentions whose entities have the rows `gold` (q,).

        nearest: rows of the nearest entities of each mention (q, k), nearest first, -1 for none. Random negatives fill
            up where there are too few hard ones.
        """
        ranked = [[row for row in rows if row >= 0] for rows in nearest.tolist()] if nearest is not None else []
        return self._shared(gold, ranked) if self.shared else self._own(gold, ranked)

    def _shared(self, gold: Sequence[int], ranked: list[list[int]]) -> Candidates:
        columns: dict[int, int] = {row: i for i, row in enumerate(dict.fromkeys(gold))}
        full = len(columns) + self.n_hard
        # By rank, so that each mention has its nearest before any has its second.
        for rank in range(max(map(len, ranked), default=0)):
            for row, own in zip(ranked, gold, strict=True):
                if len(columns) < full and rank < len(row) and row[rank] not in self._excluded(own):
                    columns.setdefault(row[rank], len(columns))
        full += self.n_negatives - self.n_hard
        for row in self._random(full - len(columns), columns):
            columns[row] = len(columns)
        entities = np.fromiter(columns, dtype=np.int64, count=len(columns))
        negatives = np.ones((len(gold), len(columns)), dtype=bool)
        for i, own in enumerate(gold):
            for row in self._excluded(own):
                if row in columns:
                    negatives[i, columns[row]] = False
        return Candidates(entities, np.array([columns[row] for row in gold], dtype=np.int64), negatives)

    def _own(self, gold: Sequence[int], ranked: list[list[int]]) -> Candidates:
        entities: list[int] = []
        owners: list[int] = []
        starts = []
        for i, own in enumerate(gold):
            excluded = self._excluded(own)
            hard = [row for row in (ranked[i] if ranked else ()) if row not in excluded][: self.n_hard]
            others = self._random(self.n_negatives - len(hard), {*excluded, *hard})
            starts.append(len(entities))
            entities += [own, *hard, *others]
            owners += [i] * (1 + len(hard) + len(others))
        negatives = np.array(owners)[None] == np.arange(len(gold))[:, None]
        negatives[np.arange(len(gold)), starts] = False
        return Candidates(np.array(entities, dtype=np.int64), np.array(starts, dtype=np.int64), negatives)

    def _excluded(self, own: int) -> set[int]:
        return {own, *self.homonyms.get(own, ())}

    def _random(self, count: int, without: Collection[int]) -> list[int]:
        """`count` different rows not in `without`, or all of them if there are fewer."""
        count = min(count, self.n_entities - len(without))
        if 2 * (count + len(without)) > self.n_entities:
            return self._rng.sample([row for row in range(self.n_entities) if row not in without], max(0, count))
        found: dict[int, Any] = {}
        while len(found) < count:
            row = self._rng.randrange(self.n_entities)
            if row not in without:
                found[row] = None
        return list(found)
