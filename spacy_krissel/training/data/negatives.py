"""Negatives of the mentions of a batch, and a search for the nearest entities as hard negatives."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from thinc.api import to_numpy

from ...distributed.processes import make_shared
from ...util.progress import progress_bar
from ...util.settings import Count, Fraction, PositiveInt, checked

# Number of searches between two refreshes, or one epoch of queries.
RefreshEvery = Count | Literal["epoch"]
# Entities encoded at a time.
BLOCK = 4096


@checked
@dataclass(eq=False)
class NearestEntities:
    """Index over the vectors of all entities, or of other rows, rebuilt at intervals (PEL §5.3.1,
    hard negative mining). In data-parallel training each process encodes a part of the rows.

    make_index: makes the vector index, such as that of `spacy-krissel.ExactIndex.v1`.
    n_rows: number of rows.
    refresh_every: number of searches between two refreshes; the first precedes the first search; 0
        never refreshes again. "epoch": `epoch` queries, the number in an epoch of training, for any
        batch size. Processes that train together search for the same queries, so all refresh at the
        same search.
    what: noun for the rows in the progress bar.
    """

    make_index: Callable[[], Any]
    n_rows: int
    refresh_every: RefreshEvery
    what: str = "entities"

    def __post_init__(self) -> None:
        self.epoch = 0
        # Searches or queries left until the next refresh.
        self._left = 0
        self._index: Any = None

    def search(self, encode: Callable[[range], Any], queries: Any, k: int) -> np.ndarray:
        """Return the rows of the k nearest entities of each query (q, d): (q, k), nearest first, -1
        for none. The result is the same in all processes, however ties are ordered.

        encode: rows to their vectors (n, d), for a refresh.
        """
        by_epoch = self.refresh_every == "epoch"
        period: Any = self.epoch if by_epoch else self.refresh_every
        if self._index is None or (period and self._left <= 0):
            self._refresh(encode)
            self._left += period
        self._left -= len(queries) if by_epoch else 1
        vectors = to_numpy(queries).astype(np.float32, copy=False)
        return make_shared(
            lambda own: self._index.search(vectors[own], k)[1], [[i] for i in range(len(vectors))]
        )

    def _refresh(self, encode: Callable[[range], Any]) -> None:
        blocks = [
            range(start, min(start + BLOCK, self.n_rows)) for start in range(0, self.n_rows, BLOCK)
        ]

        def encode_blocks(indices: list[int]) -> np.ndarray:
            settings: Any = {
                "desc": f"Vectors of all {self.what}",
                "unit": " blocks",
                "leave": False,
            }
            own = progress_bar([blocks[index] for index in indices], show=True, **settings)
            return np.concatenate(
                [to_numpy(encode(rows)).astype(np.float32, copy=False) for rows in own]
            )

        self._index = self.make_index()
        self._index.build(make_shared(encode_blocks, blocks))


class Candidates(NamedTuple):
    """Candidates of a batch of q mentions, n in all.

    entities: rows of the ontology (n,).
    gold: column of each mention's own entity (q,).
    negatives: mask of the columns that are negatives of each mention (q, n).
    """

    entities: np.ndarray
    gold: np.ndarray
    negatives: np.ndarray

    def distinct(self) -> "Candidates":
        """Return the same candidates with each entity once."""
        entities, column = np.unique(self.entities, return_inverse=True)
        negatives = np.zeros((len(self.gold), len(entities)), dtype=bool)
        mentions, columns = np.nonzero(self.negatives)
        negatives[mentions, column[columns]] = True
        return Candidates(entities, column[self.gold], negatives)


@checked
@dataclass(eq=False)
class Negatives:
    """Random negatives, uniform over the ontology, and hard ones among the nearest by the encoder
    (PEL §5.3.1: "random" and "mixed-p%").

    A mention's own entity and its `homonyms` are never its negatives.

    n_entities: number of rows to draw from.
    homonyms: rows of the entities that share a name with the one at a row.
    n_negatives: N. With `shared`, per batch: every mention is compared with all of them and with
        the entities of the other mentions, in the memory of N + q entities. Otherwise per mention
        as in the paper, in the memory of q(N + 1).
    hard_share: p, the fraction of N that are hard.
    shared: whether negatives belong to the batch.
    seed: seed of the random negatives.
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
        """Return the number of nearest entities per mention that `draw` chooses from; 0 without
        hard negatives."""
        if not self.n_hard:
            return 0
        each = self.n_hard if not self.shared else 4 * -(-self.n_hard // n_mentions)
        # Some are excluded, or nearest to several mentions.
        return min(self.n_entities, each + 16)

    def draw(self, gold: Sequence[int], nearest: np.ndarray | None = None) -> Candidates:
        """Return the candidates of mentions whose entities have the rows `gold` (q,).

        nearest: rows of the nearest entities of each mention (q, k), nearest first, -1 for none.
            Random negatives replace missing hard ones.
        """
        ranked = (
            [[row for row in rows if row >= 0] for rows in nearest.tolist()]
            if nearest is not None
            else []
        )
        return self._shared(gold, ranked) if self.shared else self._own(gold, ranked)

    def _shared(self, gold: Sequence[int], ranked: list[list[int]]) -> Candidates:
        columns: dict[int, int] = {row: i for i, row in enumerate(dict.fromkeys(gold))}
        full = len(columns) + self.n_hard
        # By rank, so that each mention gets its nearest before any gets its second.
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
        return Candidates(
            entities, np.array([columns[row] for row in gold], dtype=np.int64), negatives
        )

    def _own(self, gold: Sequence[int], ranked: list[list[int]]) -> Candidates:
        entities: list[int] = []
        owners: list[int] = []
        starts = []
        for i, own in enumerate(gold):
            excluded = self._excluded(own)
            hard = [row for row in (ranked[i] if ranked else ()) if row not in excluded][
                : self.n_hard
            ]
            others = self._random(self.n_negatives - len(hard), {*excluded, *hard})
            starts.append(len(entities))
            entities += [own, *hard, *others]
            owners += [i] * (1 + len(hard) + len(others))
        negatives = np.array(owners)[None] == np.arange(len(gold))[:, None]
        negatives[np.arange(len(gold)), starts] = False
        return Candidates(
            np.array(entities, dtype=np.int64), np.array(starts, dtype=np.int64), negatives
        )

    def _excluded(self, own: int) -> set[int]:
        return {own, *self.homonyms.get(own, ())}

    def _random(self, count: int, without: Collection[int]) -> list[int]:
        """Return `count` different rows not in `without`, or all of them if there are fewer."""
        count = min(count, self.n_entities - len(without))
        if 2 * (count + len(without)) > self.n_entities:
            return self._rng.sample(
                [row for row in range(self.n_entities) if row not in without], max(0, count)
            )
        found: dict[int, Any] = {}
        while len(found) < count:
            row = self._rng.randrange(self.n_entities)
            if row not in without:
                found[row] = None
        return list(found)
