"""Search of the nearest distinct entities by their nearest prototypes."""

import numpy as np

from ..index.exact import vector_blocks
from ..index.hits import lower_bound, rank_hits
from ..index.protocol import Mask, Rows, Scores, Searches, Vectors
from .prototype_table import PrototypeTable
from .search_result import SearchResult
from .ties import order_equal_by_id, order_ties, tie_bound

# Prototypes retrieved per wanted entity, their minimum number, and its growth factor.
PER_ENTITY, MIN_RETRIEVED, GROWTH = 4, 64, 2
# Beyond this number of prototypes per query, all of them are compared.
MAX_RETRIEVED = 2048
QUERY_ROWS = 4096
# Scores held at a time when all prototypes are compared: 64 MB.
MAX_SCORES = 16_000_000


def search_entities(
    index: Searches,
    prototypes: PrototypeTable,
    queries: Vectors,
    k: int,
    allowed: Mask | None,
    extra_prototypes: int = 0,
    hits: tuple[Scores, Rows] | None = None,
) -> SearchResult:
    """Return the `k` best distinct entities for each of the queries (q, d).

    allowed: mask of the entities to consider. extra_prototypes: number of additional prototypes to
        return per entity. hits: scores and rows of allowed prototypes (q, w), best first, that
        replace the index for queries with any.

    Retrieves more prototypes until k distinct entities are among them and no tie at the top is cut
    off.
    """
    result = SearchResult.padded(len(queries), k, extra_prototypes)
    # Exclude rows without an entity.
    mask = (
        None if allowed is None else allowed[prototypes.entity_rows] & (prototypes.entity_rows >= 0)
    )
    total = len(prototypes) if mask is None else int(mask.sum())
    limit = MAX_RETRIEVED if hits is None else hits[0].shape[1]
    if not k or not total:
        return result
    for start in range(0, len(queries), QUERY_ROWS):
        todo = np.arange(start, min(start + QUERY_ROWS, len(queries)))
        wanted = first_wanted = min(total, max(MIN_RETRIEVED, PER_ENTITY * k))
        left = []
        while len(todo) and (wanted <= limit or (wanted == total and hits is None)):
            if hits is None:
                found, found_rows = index.search(queries[todo], wanted, mask)
            else:
                found, found_rows = hits[0][todo, :wanted], hits[1][todo, :wanted]
            n_entities = _rank(result, prototypes, todo, found_rows, found)
            # A wider search that returns fewer rows has found all that are near; the first search
            # may still miss many.
            full = (found_rows[:, -1] >= 0) | ((n_entities >= k) & (wanted > first_wanted))
            if hits is not None:
                full = found_rows[:, 0] >= 0
            more_ties = found[:, -1] >= tie_bound(found[:, 0])
            done = full & ((wanted == total) | ((n_entities >= k) & ~more_ties))
            # An index that ended early (HNSW, IVF) will not find more.
            left.append(todo[~full])
            todo = todo[full & ~done]
            wanted = min(total, wanted * GROWTH)
        if hits is not None:
            # There are no others to find, unless ties are cut off.
            todo = todo[hits[0][todo, -1] >= tie_bound(hits[0][todo, 0])]
        # All at once: each pass reads every vector.
        _search_all(result, prototypes, queries, np.concatenate([*left, todo]), mask)
    tied_at_top = dict(result.ties)
    order_ties(result, prototypes, queries)
    if result.extra_prototypes is not None:
        for query, tied in tied_at_top.items():
            is_top = np.isin(result.entities[query], tied)
            result.prototypes[query, is_top], result.extra_prototypes[query, is_top] = -1, -1
    return result


def _search_all(
    result: SearchResult,
    prototypes: PrototypeTable,
    queries: Vectors,
    todo: Rows,
    mask: Mask | None,
) -> None:
    """Compare every prototype, and take the maximum of each entity."""
    order = prototypes.by_entity.values
    starts = prototypes.by_entity.edges[prototypes.by_entity.present]
    k = result.entities.shape[1]
    step = max(1, MAX_SCORES // max(1, len(order)))
    for start in range(0, len(todo), step):
        part = todo[start : start + step]
        scores = np.empty((len(part), len(prototypes.vectors)), dtype=np.float32)
        for block, vectors in vector_blocks(prototypes.vectors):
            scores[:, block[0] : block[-1] + 1] = queries[part] @ vectors.T
        if mask is not None:
            scores[:, ~mask] = -np.inf
        # (q, g): the maximum of each entity
        best = np.maximum.reduceat(scores[:, order], starts, axis=1)
        bound = np.minimum(lower_bound(best, k), tie_bound(best.max(axis=1)))
        query, row = np.nonzero((scores >= bound[:, None]) & (scores > -np.inf))
        width = int(np.bincount(query, minlength=1).max())
        ranked, ranked_rows = rank_hits(query, row, scores[query, row], len(part), width)
        _rank(result, prototypes, part, ranked_rows, ranked)


def _rank(
    result: SearchResult, prototypes: PrototypeTable, queries: Rows, rows: Rows, scores: Scores
) -> Rows:
    """Write the entities of the nearest prototypes into the rows `queries` of the result.

    Ties at the top are recorded, too.
    rows, scores (len(queries), w): prototype rows and inner products, best first, padded with -1
    and -inf.
    RETURNS: the number of distinct entities per query (len(queries),), exact if it is below k.
    """
    entities = np.where(rows >= 0, prototypes.entity_rows[rows], -1)
    entities, rows = order_equal_by_id(entities, rows, scores)
    first = _write_first(result, queries, entities, scores, rows)
    # A narrower search may have recorded some.
    for query in result.ties.keys() & {*queries.tolist()}:
        del result.ties[query]
    tied = first & (scores >= tie_bound(scores[:, :1]))
    for i in np.flatnonzero(tied.sum(axis=1) > 1):
        result.ties[int(queries[i])] = np.unique(entities[i, tied[i]])
    return first.sum(axis=1)


def best_entities(entities: Rows, scores: Scores, rows: Rows, k: int) -> SearchResult:
    """Return up to `k` distinct entities per query from prototypes (q, n) in any order.

    The input is padded with -1 and -inf. Equal scores keep their order.
    """
    order = np.argsort(-scores, axis=1, kind="stable")
    entities, rows = (np.take_along_axis(each, order, axis=1) for each in (entities, rows))
    scores = np.take_along_axis(scores, order, axis=1)
    result = SearchResult.padded(len(entities), k)
    _write_first(result, np.arange(len(entities)), entities, scores, rows)
    return result


def _write_first(
    result: SearchResult, lines: Rows, entities: Rows, scores: Scores, rows: Rows
) -> Mask:
    """Write the first k distinct entities into the `lines` of the result. RETURNS: where each of
    them comes first, and at least where each other that is level with the best one does."""
    from . import kernel

    further = (
        np.empty((0, 0, 0), dtype=np.int64)
        if result.extra_prototypes is None
        else result.extra_prototypes
    )
    if result.extra_prototypes is not None:
        further[lines] = -1
    level, first = scores >= tie_bound(scores[:, :1]), np.zeros(entities.shape, dtype=bool)
    found = result.entities, result.scores, result.prototypes
    kernel.write_first(entities, scores, rows, level, lines, *found, further, first)
    return first


def first_occurrences(values: Rows) -> Mask:
    """Where each value stands for the first time in its line: (q, w) to (q, w)."""
    width = values.shape[1]
    # One sort of plain integers is several times as fast as a stable sort of two keys.
    keys = np.sort(values * width + np.arange(width), axis=1)
    first, new = np.zeros(values.shape, dtype=bool), np.ones(values.shape, dtype=bool)
    new[:, 1:] = keys[:, 1:] // width != keys[:, :-1] // width
    query, column = np.nonzero(new)
    first[query, keys[query, column] % width] = True
    return first
