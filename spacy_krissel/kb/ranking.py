"""From the nearest prototypes to the nearest distinct entities."""

import numpy as np

from ..index.exact import vector_blocks
from ..index.hits import lower_bound, rank_hits
from ..index.protocol import Mask, Rows, Scores, Searches, Vectors
from .prototype_table import PrototypeTable
from .search_result import SearchResult
from .ties import equal_by_id, order_ties, tie_bound

# Prototypes first asked for per entity wanted, their least number, and its growth factor.
PER_ENTITY, FEWEST, GROWTH = 4, 64, 2
# Above this number of prototypes per query, all of them are compared.
WIDEST = 2048
QUERY_ROWS = 4096
# Scores held at a time when all prototypes are compared: 64 MB.
EXACT_SCORES = 16_000_000


def search_entities(
    index: Searches, prototypes: PrototypeTable, queries: Vectors, k: int, allowed: Mask | None, further: int = 0
) -> SearchResult:
    """`k` distinct entities for each of the queries (q, d), among the `allowed` entities, and so many `further`
    prototypes of each.

    Asks the index for more prototypes until k distinct entities are among them and no tie at the top is cut off.
    """
    result = SearchResult.padded(len(queries), k, further)
    # Rows of no entity do not count.
    mask = None if allowed is None else allowed[prototypes.entity_rows] & (prototypes.entity_rows >= 0)
    total = len(prototypes) if mask is None else int(mask.sum())
    if not k or not total:
        return result
    for start in range(0, len(queries), QUERY_ROWS):
        todo = np.arange(start, min(start + QUERY_ROWS, len(queries)))
        wanted = fewest = min(total, max(FEWEST, PER_ENTITY * k))
        left = []
        while len(todo) and (wanted <= WIDEST or wanted == total):
            found, found_rows = index.search(queries[todo], wanted, mask)
            n_entities = _rank(result, prototypes, todo, found_rows, found)
            # Where a wider search ends, there is no more to be found near by; where the first one does, much may be.
            full = (found_rows[:, -1] >= 0) | ((n_entities >= k) & (wanted > fewest))
            more_ties = found[:, -1] >= tie_bound(found[:, 0])
            done = full & ((wanted == total) | ((n_entities >= k) & ~more_ties))
            # An index that ran dry before its time (HNSW, IVF) will not find more.
            left.append(todo[~full])
            todo = todo[full & ~done]
            wanted = min(total, wanted * GROWTH)
        # All at once: each pass reads every vector.
        _search_all(result, prototypes, queries, np.concatenate([*left, todo]), mask)
    level_with_first = dict(result.ties)
    order_ties(result, prototypes, queries)
    if result.further is not None:
        for query, tied in level_with_first.items():
            level = np.isin(result.entities[query], tied)
            result.prototypes[query, level], result.further[query, level] = -1, -1
    return result


def _search_all(
    result: SearchResult, prototypes: PrototypeTable, queries: Vectors, todo: Rows, mask: Mask | None
) -> None:
    """Compare every prototype, and take the maximum of each entity."""
    order = prototypes.by_entity.values
    starts = prototypes.by_entity.edges[prototypes.by_entity.present]
    k = result.entities.shape[1]
    step = max(1, EXACT_SCORES // max(1, len(order)))
    for start in range(0, len(todo), step):
        part = todo[start : start + step]
        scores = np.empty((len(part), len(prototypes.vectors)), dtype=np.float32)
        for block, vectors in vector_blocks(prototypes.vectors):
            scores[:, block[0] : block[-1] + 1] = queries[part] @ vectors.T
        if mask is not None:
            scores[:, ~mask] = -np.inf
        best = np.maximum.reduceat(scores[:, order], starts, axis=1)  # (q, g): the maximum of each entity
        bound = np.minimum(lower_bound(best, k), tie_bound(best.max(axis=1)))
        query, row = np.nonzero((scores >= bound[:, None]) & (scores > -np.inf))
        width = int(np.bincount(query, minlength=1).max())
        ranked, ranked_rows = rank_hits(query, row, scores[query, row], len(part), width)
        _rank(result, prototypes, part, ranked_rows, ranked)


def _rank(result: SearchResult, prototypes: PrototypeTable, queries: Rows, rows: Rows, scores: Scores) -> Rows:
    """Write the entities of the nearest prototypes into the result's lines `queries`, and note those that tie.

    rows, scores (len(queries), w): prototype rows and inner products, best first, padded with -1 and -inf.
    RETURNS: how many distinct entities each query has among its prototypes, or k or more of them (len(queries),).
    """
    entities = np.where(rows >= 0, prototypes.entity_rows[rows], -1)
    entities, rows = equal_by_id(entities, rows, scores)
    first = _write_first(result, queries, entities, scores, rows)
    tied = first & (scores >= tie_bound(scores[:, :1]))
    for i in np.flatnonzero(tied.sum(axis=1) > 1):
        result.ties[int(queries[i])] = np.unique(entities[i, tied[i]])
    return first.sum(axis=1)


def best_entities(entities: Rows, scores: Scores, rows: Rows, k: int) -> SearchResult:
    """Up to `k` distinct entities per query from prototypes (q, n) in any order, padded with -1 and -inf; equal scores
    stay in their order."""
    order = np.argsort(-scores, axis=1, kind="stable")
    entities, rows = (np.take_along_axis(each, order, axis=1) for each in (entities, rows))
    scores = np.take_along_axis(scores, order, axis=1)
    result = SearchResult.padded(len(entities), k)
    _write_first(result, np.arange(len(entities)), entities, scores, rows)
    return result


def _write_first(result: SearchResult, lines: Rows, entities: Rows, scores: Scores, rows: Rows) -> Mask:
    """Write the first k distinct entities into the `lines` of the result. RETURNS: where each of them comes first, and
    at least where each other that is level with the best one does."""
    from . import kernel

    further = np.empty((0, 0, 0), dtype=np.int64) if result.further is None else result.further
    if result.further is not None:
        further[lines] = -1
    level, first = scores >= tie_bound(scores[:, :1]), np.zeros(entities.shape, dtype=bool)
    found = result.entities, result.scores, result.prototypes
    kernel.write_first(entities, scores, rows, level, lines, *found, further, first)
    return first


def first_of_each(values: Rows) -> Mask:
    """Where each value stands for the first time in its line: (q, w) to (q, w)."""
    width = values.shape[1]
    # One sort of plain integers: several times as quick as a stable sort of two keys.
    keys = np.sort(values * width + np.arange(width), axis=1)
    first, new = np.zeros(values.shape, dtype=bool), np.ones(values.shape, dtype=bool)
    new[:, 1:] = keys[:, 1:] // width != keys[:, :-1] // width
    query, place = np.nonzero(new)
    first[query, keys[query, place] % width] = True
    return first
