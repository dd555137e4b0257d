"""From the nearest prototypes to the nearest distinct entities."""

from dataclasses import dataclass
from typing import Dict, Optional, Tuple

import numpy as np

from ..index.exact import lower_bound, vector_blocks
from ..index.protocol import Mask, Rows, Scores, VectorIndex, Vectors
from .prototypes import PrototypeTable

# Scores as near to the top as this tie with it: less is lost to rounding when vectors are multiplied in other blocks.
# Relative to the top score where that is larger than 1.
TIE = 1e-6
# How many prototypes are first asked for each entity wanted, how many at least, and by what the number then grows.
PER_ENTITY, FEWEST, GROWTH = 4, 64, 4
# Beyond so many prototypes a query, all of them are compared.
WIDEST = 2048
QUERY_ROWS = 4096
# Scores held at a time when all prototypes are compared: 64 MB.
EXACT_SCORES = 16_000_000


@dataclass(frozen=True)
class SearchResult:
    """The nearest distinct entities of each query, best first.

    entities: entity rows (q, k), padded with -1.
    scores: the highest inner product with one of the entity's prototypes (q, k), padded with -inf. Entities that tie at
        the top all have the top score, and stand in the order of their next-best prototypes, then of their ids.
    prototypes: the row of that prototype (q, k), padded with -1.
    ties: the entity rows that tie at the top and could not be told apart (`_break_ties`), in the order of their ids,
        for each query with two or more; an approximate index may have missed some.
    """

    entities: Rows
    scores: Scores
    prototypes: Rows
    ties: Dict[int, Rows]

    def tied(self, query: int) -> Rows:
        """The entity rows at the top: one, unless several tie; none where nothing was found."""
        best = self.entities[query, :1]
        return self.ties.get(query, best[best >= 0])


def search_entities(
    index: VectorIndex, prototypes: PrototypeTable, queries: Vectors, k: int, allowed: Optional[Mask]
) -> SearchResult:
    """`k` distinct entities for each of the queries (q, d), among the `allowed` entities.

    Asks the index for more prototypes until k distinct entities are among them and no tie at the top is cut off.
    """
    entities = np.full((len(queries), k), -1, dtype=np.int64)
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows = np.full((len(queries), k), -1, dtype=np.int64)
    result = SearchResult(entities, scores, rows, {})
    mask = None if allowed is None else allowed[prototypes.entity_rows]
    total = len(prototypes) if mask is None else int(mask.sum())
    if not k or not total:
        return result
    for start in range(0, len(queries), QUERY_ROWS):
        todo = np.arange(start, min(start + QUERY_ROWS, len(queries)))
        wanted = min(total, max(FEWEST, PER_ENTITY * k))
        while len(todo) and (wanted <= WIDEST or wanted == total):
            found, found_rows = index.search(queries[todo], wanted, mask)
            hits = np.nonzero(found_rows >= 0)
            n_entities = _rank(result, prototypes, todo, hits[0], found_rows[hits], found[hits])
            full = found_rows[:, -1] >= 0
            more_ties = found[:, -1] >= _tie_bound(found[:, 0])
            done = full & ((wanted == total) | ((n_entities >= k) & ~more_ties))
            # An index that ran dry before its time (HNSW, IVF) will not find more.
            dry = todo[~full]
            todo = todo[full & ~done]
            wanted = min(total, wanted * GROWTH)
            _search_all(result, prototypes, queries, dry, mask)
        _search_all(result, prototypes, queries, todo, mask)
    _break_ties(result, prototypes, queries)
    return result


def _break_ties(result: SearchResult, prototypes: PrototypeTable, queries: Vectors) -> None:
    """Order the entities that tie at the top by their best prototype below the top.

    Entities tie when they share a prototype, which is to say a name; what else is known of each decides between them.
    """
    k = result.entities.shape[1]
    for query, tied in list(result.ties.items()):
        top = result.scores[query, 0]
        best, following = [], []
        for entity in tied:
            rows = prototypes.rows_of(int(entity))
            scores = prototypes.vectors[rows].astype(np.float32) @ queries[query]
            best.append(rows[int(np.argmax(scores))])
            following.append(np.max(scores, initial=-np.inf, where=scores < _tie_bound(top)))
        score = np.array(following, dtype=np.float32)
        # Stable: entities that still tie stay in the order of their ids.
        order = np.argsort(-score, kind="stable")
        n = min(k, len(order))
        result.entities[query, :n] = tied[order[:n]]
        result.prototypes[query, :n] = np.array(best)[order[:n]]
        left = tied[(score >= _tie_bound(score.max())) | (score == score.max())]
        if len(left) > 1:
            result.ties[query] = left
        else:
            del result.ties[query]


def _search_all(
    result: SearchResult, prototypes: PrototypeTable, queries: Vectors, todo: Rows, mask: Optional[Mask]
) -> None:
    """Compare every prototype, and take the maximum of each entity."""
    order, starts, present = prototypes.by_entity
    k = result.entities.shape[1]
    step = max(1, EXACT_SCORES // max(1, len(order)))
    for start in range(0, len(todo), step):
        part = todo[start : start + step]
        scores = np.empty((len(part), len(order)), dtype=np.float32)
        for block, vectors in vector_blocks(prototypes.vectors, np.arange(len(order))):
            scores[:, block[0] : block[-1] + 1] = queries[part] @ vectors.T
        if mask is not None:
            scores[:, ~mask] = -np.inf
        best = np.maximum.reduceat(scores[:, order], starts, axis=1)  # (q, g): the maximum of each entity
        bound = np.minimum(lower_bound(best, k), _tie_bound(best.max(axis=1)))
        hits = np.nonzero((scores >= bound[:, None]) & (scores > -np.inf))
        _rank(result, prototypes, part, hits[0], hits[1], scores[hits])


def _rank(
    result: SearchResult, prototypes: PrototypeTable, queries: Rows, query: Rows, row: Rows, score: Scores
) -> Rows:
    """Write the entities of a ragged list of hits into the result's lines `queries`.

    query, row, score (h,): position in `queries`, prototype row and inner product of each hit.
    RETURNS: how many distinct entities each query has among its hits (len(queries),).
    """
    k = result.entities.shape[1]
    top = np.full(len(queries), -np.inf, dtype=np.float32)
    np.maximum.at(top, query, score)
    query, entity, row, score = _best_of_entities(prototypes, query, row, score)
    tied = score >= _tie_bound(top)[query]
    score = np.where(tied, top[query], score)
    # Stable, and the entities come in the order of their ids: so do equal scores.
    order = np.lexsort((-score, query))
    query, entity, row, score, tied = query[order], entity[order], row[order], score[order], tied[order]
    counts = np.bincount(query, minlength=len(queries))
    starts = np.cumsum(counts) - counts
    place = np.arange(len(query)) - starts[query]
    kept = place < k
    lines, places = queries[query[kept]], place[kept]
    for target, source in ((result.entities, entity), (result.scores, score), (result.prototypes, row)):
        target[lines, places] = source[kept]
    n_tied = np.bincount(query[tied], minlength=len(queries))
    for i in np.flatnonzero(n_tied > 1):
        result.ties[int(queries[i])] = entity[starts[i] : starts[i] + n_tied[i]]
    return counts


def _best_of_entities(
    prototypes: PrototypeTable, query: Rows, row: Rows, score: Scores
) -> Tuple[Rows, Rows, Rows, Scores]:
    """The best hit of each query and entity, in the order of queries and entities."""
    entity = prototypes.entity_rows[row]
    order = np.lexsort((row, -score, entity, query))
    query, entity, row, score = query[order], entity[order], row[order], score[order]
    first = np.ones(len(query), dtype=bool)
    first[1:] = (query[1:] != query[:-1]) | (entity[1:] != entity[:-1])
    return query[first], entity[first], row[first], score[first]


def _tie_bound(top: Scores) -> Scores:
    return top - np.float32(TIE) * np.maximum(1, np.abs(top))
