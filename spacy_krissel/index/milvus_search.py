"""The nearest rows of a Milvus collection: as many as asked for, among allowed ones, in the order of all indexes."""

from typing import Any, Dict, Iterator, Optional, Tuple

import numpy as np

from .exact import Block, rank_hits, search_blocks
from .milvus_store import MAX_RESULTS, MilvusStore, among
from .protocol import Mask, Rows, Scores, Vectors

# How many candidates a search of these types looks at, which must not be fewer than the results asked for.
WIDTHS = {"HNSW": "ef", "HNSW_SQ": "ef", "HNSW_PQ": "ef", "HNSW_PRQ": "ef", "DISKANN": "search_list"}
LEAST_WIDTH = 64
# How many rows are named in one condition.
NAMED_ROWS = 10_000
# Without a condition, so much more is asked for than should do.
SLACK, SPARE = 1.25, 16
# How the results asked for grow while the last of them are equal.
GROWTH = 4


class MilvusSearch:
    """Searches of one collection.

    type: Milvus's type of index. params: its search_params.
    """

    def __init__(self, store: MilvusStore, type: str, params: Dict[str, Any]) -> None:
        self._store = store
        self._params = params
        self._width = WIDTHS.get(type)

    def best(self, queries: Vectors, k: int, named: Optional[Rows] = None) -> Tuple[Scores, Rows]:
        """The best `k` rows for each of the queries (q, d), of all rows or of the `named`, which ascend."""
        scores, rows = _padding(len(queries), k)
        n = self._store.rows if named is None else len(named)
        condition = "" if named is None else among(named)
        wanted = min(k, n)
        if not wanted:
            return scores, rows
        todo = np.arange(len(queries))
        # One more than wanted, to see whether equal ones were cut off: which of those Milvus leaves out is chance.
        limit = min(wanted + 1, n, MAX_RESULTS)
        while len(todo) and wanted <= MAX_RESULTS:
            found = self._store.search(queries[todo], limit, condition, self._parameters(limit))
            all_scores, all_rows = rank_hits(*found, len(todo), limit)
            scores[todo, :wanted], rows[todo, :wanted] = all_scores[:, :wanted], all_rows[:, :wanted]
            cut = (all_rows[:, -1] >= 0) & (all_scores[:, -1] == all_scores[:, wanted - 1])
            todo = todo[cut & (limit < n)]
            if limit == MAX_RESULTS:
                break
            limit = min(limit * GROWTH, n, MAX_RESULTS)
        if named is not None and wanted <= MAX_RESULTS:
            # Where few rows are left, Milvus Lite's graph and everyone's lists miss some.
            todo = np.union1d(todo, np.flatnonzero(rows[:, wanted - 1] < 0))
        if len(todo):
            numbers = np.arange(n) if named is None else named
            scores[todo], rows[todo] = search_blocks(self._blocks(numbers), queries[todo], k)
        return scores, rows

    def best_allowed(self, queries: Vectors, k: int, allowed: Mask) -> Tuple[Scores, Rows]:
        """The best `k` allowed rows. Few are named; of many, enough are asked for and those not allowed left out."""
        numbers = np.flatnonzero(allowed)
        scores, rows = _padding(len(queries), k)
        todo = np.arange(len(queries))
        wider = int(SLACK * k * len(allowed) / max(1, len(numbers))) + SPARE
        if len(numbers) > NAMED_ROWS and wider < MAX_RESULTS:
            all_scores, all_rows = self.best(queries, wider)
            taken = (all_rows >= 0) & allowed[all_rows]
            query, place = np.nonzero(taken)
            scores, rows = rank_hits(query, all_rows[query, place], all_scores[query, place], len(queries), k)
            todo = np.flatnonzero(taken.sum(axis=1) < min(k, len(numbers)))
        if len(todo):
            scores[todo], rows[todo] = self._best_named(queries[todo], k, numbers)
        return scores, rows

    def _best_named(self, queries: Vectors, k: int, numbers: Rows) -> Tuple[Scores, Rows]:
        scores, rows = _padding(len(queries), k)
        for start in range(0, len(numbers), NAMED_ROWS):
            found = self.best(queries, k, numbers[start : start + NAMED_ROWS])
            all_scores = np.concatenate([scores, found[0]], axis=1)
            all_rows = np.concatenate([rows, found[1]], axis=1)
            query, place = np.nonzero(all_rows >= 0)
            scores, rows = rank_hits(query, all_rows[query, place], all_scores[query, place], len(queries), k)
        return scores, rows

    def _blocks(self, rows: Rows) -> Iterator[Block]:
        start = 0
        for vectors in self._store.vectors(rows):
            yield rows[start : start + len(vectors)], vectors
            start += len(vectors)

    def _parameters(self, limit: int) -> Dict[str, Any]:
        if self._width is None:
            return self._params
        return {**self._params, self._width: max(limit, self._params.get(self._width, LEAST_WIDTH))}


def _padding(n_queries: int, k: int) -> Tuple[Scores, Rows]:
    scores: Scores = np.full((n_queries, k), -np.inf, dtype=np.float32)
    rows: Rows = np.full((n_queries, k), -1, dtype=np.int64)
    return scores, rows
