"""An index over the vectors of all entities by the encoder in training, to find hard negatives."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from thinc.api import to_numpy

from ...distributed.processes import make_shared
from ...util.progress import progress_bar
from ...util.settings import Count, checked

# Searches between two refreshes, or as many queries as an epoch has.
RefreshEvery = Count | Literal["epoch"]
# Entities encoded at a time.
BLOCK = 4096


@checked
@dataclass(eq=False)
class NearestEntities:
    """An index over the vectors of all entities, or of other rows, rebuilt at intervals (PEL §5.3.1, hard negative
    mining). In data-parallel training each process encodes a part of the rows.

    make_index: makes the vector index, such as that of `spacy-krissel.ExactIndex.v1`.
    n_rows: number of rows.
    refresh_every: searches between two refreshes, the first before the first search; 0 for the first alone. "epoch":
        `epoch` queries, as many as an epoch of training has, whatever its batches are. Processes that train together
        search for the same queries, so that all of them refresh at the same search.
    what: what the rows are, for the progress bar.
    """

    make_index: Callable[[], Any]
    n_rows: int
    refresh_every: RefreshEvery
    what: str = "entities"

    def __post_init__(self) -> None:
        self.epoch = 0
        # Until the next refresh.
        self._left = 0
        self._index: Any = None

    def search(self, encode: Callable[[range], Any], queries: Any, k: int) -> np.ndarray:
        """The rows of the k nearest entities of each query (q, d): (q, k), nearest first, -1 for none. The same in all
        processes, whichever way ties are broken.

        encode: rows to their vectors (n, d), for a refresh.
        """
        by_epoch = self.refresh_every == "epoch"
        period: Any = self.epoch if by_epoch else self.refresh_every
        if self._index is None or (period and self._left <= 0):
            self._refresh(encode)
            self._left += period
        self._left -= len(queries) if by_epoch else 1
        vectors = to_numpy(queries).astype(np.float32, copy=False)
        return make_shared(lambda own: self._index.search(vectors[own], k)[1], [[i] for i in range(len(vectors))])

    def _refresh(self, encode: Callable[[range], Any]) -> None:
        blocks = [range(start, min(start + BLOCK, self.n_rows)) for start in range(0, self.n_rows, BLOCK)]

        def encode_blocks(numbers: list[int]) -> np.ndarray:
            settings: Any = {"desc": f"Vectors of all {self.what}", "unit": " blocks", "leave": False}
            own = progress_bar([blocks[number] for number in numbers], show=True, **settings)
            return np.concatenate([to_numpy(encode(rows)).astype(np.float32, copy=False) for rows in own])

        self._index = self.make_index()
        self._index.build(make_shared(encode_blocks, blocks))
