"""Selection of the best of many scores."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from .protocol import Rows, Scores, Vectors

# Row numbers (b,) and their vectors (b, d): NumPy arrays, or a search's own form of them.
Block = tuple[Rows, Any]
# (queries, block, k, floor) -> query number, position in the block and score of all that may be
# among the best.
FindHits = Callable[[Vectors, Any, int, Scores], tuple[Rows, Rows, Scores]]
# Queries compared at a time on the CPU.
QUERY_ROWS = 256
# Beyond this number of results, they are sorted instead of inserted.
MAX_INSERTED = 256


def numpy_hits(
    queries: Vectors, vectors: Vectors, k: int, floor: Scores
) -> tuple[Rows, Rows, Scores]:
    """Return the hits that may be among the best `k` of a block (`FindHits`), in float32."""
    scores = queries @ vectors.T  # (q, b)
    hits = np.flatnonzero(scores >= np.maximum(lower_bound(scores, k), floor)[:, None])
    query, position = np.divmod(hits, scores.shape[1])
    return query, position, scores.reshape(-1)[hits]


def lower_bound(scores: Scores, k: int) -> Scores:
    """Return for each row of scores (q, n) a bound that at least `k` of them reach: (q,).

    Few others reach it. It is the k-th highest maximum over groups of columns, which costs a tenth
    of a partition of all scores.
    """
    n = scores.shape[1]
    if k >= n:
        return np.full(len(scores), -np.inf, dtype=np.float32)
    size = group_size(n, k)
    grouped = n - n % size
    maxima = scores[:, :grouped].reshape(len(scores), size, grouped // size).max(axis=1)
    maxima = np.concatenate([maxima, scores[:, grouped:]], axis=1)
    return np.partition(maxima, maxima.shape[1] - k, axis=1)[:, -k]


def group_size(n: int, k: int) -> int:
    """Return the group size for `lower_bound`.

    It gives at least four groups per result, so that two of the best seldom share a group.
    """
    return max(1, min(64, n // (4 * k)))


def rank_hits(query: Rows, row: Rows, score: Scores, n_queries: int, k: int) -> tuple[Scores, Rows]:
    """Return the best `k` of a ragged list of hits, as scores and rows (n_queries, k), padded.

    query, row, score: (h,) each.
    """
    order = np.lexsort((row, -score, query))
    query, row, score = query[order], row[order], score[order]
    rank = np.arange(len(query)) - np.searchsorted(query, np.arange(n_queries))[query]
    kept = rank < k
    scores, rows = no_hits(n_queries, k)
    scores[query[kept], rank[kept]] = score[kept]
    rows[query[kept], rank[kept]] = row[kept]
    return scores, rows


def no_hits(n_queries: int, k: int) -> tuple[Scores, Rows]:
    """Return scores and rows (n_queries, k) that are all padding."""
    return np.full((n_queries, k), -np.inf, dtype=np.float32), np.full(
        (n_queries, k), -1, dtype=np.int64
    )


def search_blocks(
    blocks: Iterable[Block],
    queries: Vectors,
    k: int,
    find_hits: FindHits = numpy_hits,
    query_rows: int = QUERY_ROWS,
) -> tuple[Scores, Rows]:
    """Return the `k` highest inner products of queries (q, d) over all blocks.

    blocks: in ascending order of rows.
    RETURNS: scores (q, k) and rows (q, k), best first, equal scores by row; padded with -inf and
        -1.
    """
    scores, rows = no_hits(len(queries), k)
    if not k:
        return scores, rows
    for row_numbers, vectors in blocks:
        for start in range(0, len(queries), query_rows):
            part = slice(start, start + query_rows)
            # A later block must beat the lowest score so far: among equal scores, earlier rows win.
            floor = np.nextafter(scores[part, -1], np.float32(np.inf))
            query, position, score = find_hits(queries[part], vectors, k, floor)
            if len(query) and k <= MAX_INSERTED:
                from . import kernel

                kernel.keep_best(query, row_numbers[position], score, scores[part], rows[part])
            elif len(query):
                new = rank_hits(query, row_numbers[position], score, len(floor), k)
                scores[part], rows[part] = merge_hits([(scores[part], rows[part]), new], k)
    return scores, rows


def merge_hits(parts: Iterable[tuple[Scores, Rows]], k: int) -> tuple[Scores, Rows]:
    """Return the best `k` of parts (q, any); of equal scores, the earlier part wins (lower
    rows).
    """
    scores, rows = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)
