"""A second look at what a coded index found, with the vectors themselves."""

from typing import List, Sequence, Tuple

import numpy as np

from .protocol import Rows, Scores, Vectors

# Values of vectors that are held at a time (float32: 16 MB, which caches are not far from).
BLOCK_VALUES = 4_000_000


class StoredVectors:
    """The vectors that an index was built from, where they lie: in memory or mapped, one array behind another."""

    def __init__(self, parts: Sequence[Vectors]) -> None:
        self._parts: List[Vectors] = list(parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def copy(self) -> "StoredVectors":
        return StoredVectors(self._parts)

    def add(self, vectors: Vectors) -> None:
        self._parts.append(vectors)

    def at(self, rows: Rows) -> Vectors:
        """Those at `rows` (n,), all of them valid: (n, d) float32."""
        if len(self._parts) == 1:
            return self._parts[0][rows].astype(np.float32)
        found = np.empty((len(rows), self._parts[0].shape[1]), dtype=np.float32)
        start = 0
        for part in self._parts:
            inside = np.flatnonzero((rows >= start) & (rows < start + len(part)))
            found[inside] = part[rows[inside] - start]
            start += len(part)
        return found

    def whole(self) -> Vectors:
        """A copy of all of them."""
        return np.concatenate([np.asarray(part) for part in self._parts])


def refined(stored: StoredVectors, queries: Vectors, rows: Rows, k: int) -> Tuple[Scores, Rows]:
    """The best `k` of the found `rows` (q, w), padded with -1, by their inner products with the queries (q, d).

    RETURNS: scores and rows (q, k), best first, equal scores by row; padded with -inf and -1.
    """
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    best = np.full((len(queries), k), -1, dtype=np.int64)
    step = max(1, BLOCK_VALUES // max(1, rows.shape[1] * queries.shape[1]))
    for start in range(0, len(queries), step):
        part = rows[start : start + step]
        vectors = stored.at(np.maximum(part, 0).ravel()).reshape(*part.shape, -1)  # (s, w, d)
        products = (vectors @ queries[start : start + step, :, None])[..., 0]
        products[part < 0] = -np.inf
        order = np.lexsort((part, -products), axis=1)[:, :k]
        width = order.shape[1]
        scores[start : start + step, :width] = np.take_along_axis(products, order, axis=1)
        best[start : start + step, :width] = np.take_along_axis(part, order, axis=1)
    return scores, best
