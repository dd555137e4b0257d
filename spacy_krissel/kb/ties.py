"""Ties: which scores are equal, and the order of entities with equal scores.

All rules are in this file:

- Scores within `TIE` of the highest are equal to it (`tie_bound`).
- Entities that tie at the top are ordered by their best prototype below it. If all of them have
only names, they are ordered by the number of names (`order_ties`). If they are still equal they
stay a tie, in the order of ids.
- Below the top, equal scores come in the order of ids.
- Terms of the document may break or make a tie (`with_term`).
"""

from typing import Any

import numpy as np

from ..index.products import products
from ..index.protocol import Mask, Rows, Scores, Vectors
from ..lexical.groups import edges
from .prototype_table import PrototypeTable
from .search_result import SearchResult

# Scores within this distance of the top tie with it: multiplying vectors in other blocks rounds
# less. Relative to the top score if that is larger than 1.
TIE = 1e-6


def tie_bound(top: Scores) -> Scores:
    """Return the lowest score that ties with each of the highest ones."""
    return top - np.float32(TIE) * np.maximum(1, np.abs(top))


def rank_entities(
    entities: Rows, scores: Scores, prototypes: Rows, k: int
) -> tuple[SearchResult, Rows]:
    """Return the best `k` entities of each query by their scores (q, w), and their columns (q, k).

    Equal scores are in the order of ids; ties at the top are recorded. prototypes (q, w): of the
    entities.
    """
    order = np.argsort(-scores, axis=1)
    ranked = np.take_along_axis(scores, order, axis=1)
    # A sort by one key takes a fraction of the time, and few queries have equal scores.
    equal = (ranked[:, 1:] == ranked[:, :-1]) & (ranked[:, 1:] > -np.inf)
    unsettled = np.flatnonzero(equal.any(axis=1))
    order[unsettled] = np.lexsort((entities[unsettled], -scores[unsettled]), axis=1)
    entities, prototypes = (
        np.take_along_axis(each, order, axis=1) for each in (entities, prototypes)
    )
    tied = (ranked >= tie_bound(ranked[:, :1])) & (entities >= 0)
    ties = {int(i): np.sort(entities[i, tied[i]]) for i in np.flatnonzero(tied.sum(axis=1) > 1)}
    best = SearchResult(
        entities[:, :k].copy(), ranked[:, :k].copy(), prototypes[:, :k].copy(), ties
    )
    return best, order[:, :k]


def order_equal_by_id(entities: Rows, rows: Rows, scores: Scores) -> tuple[Rows, Rows]:
    """Return entities and prototypes (q, w) with equal scores reordered by entity, then row.

    The input is in the order of the scores.
    """
    # Few queries have any.
    unsettled = np.flatnonzero(((scores[:, 1:] == scores[:, :-1]) & (rows[:, 1:] >= 0)).any(axis=1))
    if len(unsettled):
        order = np.lexsort((rows[unsettled], entities[unsettled], -scores[unsettled]), axis=1)
        entities, rows = entities.copy(), rows.copy()
        entities[unsettled] = np.take_along_axis(entities[unsettled], order, axis=1)
        rows[unsettled] = np.take_along_axis(rows[unsettled], order, axis=1)
    return entities, rows


def ties_at_top(queries: Rows, scores: Scores) -> Mask:
    """Return which scores (n,) tie with another as the highest of their query (n,).

    `queries` ascend.
    """
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    highest = np.maximum.reduceat(scores, starts) if len(starts) else scores
    highest = np.repeat(highest, np.diff(np.append(starts, len(queries))))
    level = np.isfinite(scores) & (scores >= tie_bound(highest))
    return level & (
        np.bincount(queries[level], minlength=int(queries.max(initial=0)) + 1)[queries] > 1
    )


def order_ties(result: SearchResult, prototypes: PrototypeTable, queries: Vectors) -> None:
    """Order entities that tie at the top by their best prototype below the top.

    Entities that share a name tie, for instance. If all of them have only names, context cannot
    help: the entity with the most names comes first, as the best known one (*Rattus norvegicus*
    before the genus, for "rat").
    """
    if not result.ties:
        return
    asked, tied = np.array([*result.ties]), np.concatenate([*result.ties.values()])
    sizes = np.array([*map(len, result.ties.values())])
    starts, owner = edges(sizes)[:-1], np.repeat(np.arange(len(sizes)), sizes)
    rows, of_row = prototypes.by_entity.take(tied)
    # Recomputed, since the index may round its top scores to float16.
    scores = products(prototypes.vectors, rows, queries, asked[owner[of_row]])
    firsts = np.flatnonzero(np.diff(of_row, prepend=-1))
    best = np.maximum.reduceat(scores, firsts)
    at_best = np.flatnonzero(scores == best[of_row])
    best_rows = rows[at_best[np.unique(of_row[at_best], return_index=True)[1]]]
    bound = tie_bound(np.maximum.reduceat(best, starts))
    below = np.where(scores < bound[owner[of_row]], scores, -np.inf)
    score = np.maximum.reduceat(below, firsts)
    n_names = np.diff(firsts, append=len(rows))
    in_text = np.bincount(owner[of_row[prototypes.in_text[rows]]], minlength=len(sizes)) > 0
    n_names[in_text[owner]] = 0
    # Stable: entities that still tie stay in the order of their ids.
    order = np.lexsort((-score, -n_names, owner))
    rank = np.arange(len(order)) - starts[owner]
    kept = rank < result.entities.shape[1]
    at = asked[owner[kept]], rank[kept]
    result.entities[at], result.prototypes[at] = tied[order[kept]], best_rows[order[kept]]
    result.scores[at] = result.scores[at[0], 0]
    top = order[starts][owner]
    level = (score >= tie_bound(score[top])) | (score == score[top])
    level &= n_names == n_names[top]
    for query, group, is_left in zip(
        asked.tolist(), np.split(tied, starts[1:]), np.split(level, starts[1:]), strict=True
    ):
        if np.count_nonzero(is_left) > 1:
            result.ties[query] = group[is_left]
        else:
            del result.ties[query]


def with_term(result: SearchResult, name: str, gain: np.ndarray) -> SearchResult:
    """Return the result with another term (q, k), 0 for no entity, in the order of the new scores.

    Scores that are equal now are a tie, unless they were equal before and had been ordered
    (`order_ties`).
    """
    gain = gain.astype(np.float32)
    scores = result.scores + gain
    order = np.argsort(-scores, axis=1, kind="stable")
    parts = {"vector": result.scores, **result.parts, name: gain}

    def moved(values: Any) -> Any:
        return None if values is None else np.take_along_axis(values, order, axis=1)

    return SearchResult(
        moved(result.entities),
        moved(scores),
        moved(result.prototypes),
        _ties_with_term(result, gain, scores, order[:, 0]),
        {name: moved(values) for name, values in parts.items()},
        moved(result.confidence),
        moved(result.by_name),
        result.known,
        moved(result.match),
    )


def _ties_with_term(
    result: SearchResult, gain: Scores, scores: Scores, first: Rows
) -> dict[int, Rows]:
    """Return the entities that tie with the new first ones, which were at `first` (q,)."""
    lines = np.arange(len(scores))
    level = (scores >= tie_bound(scores[lines, first])[:, None]) & (result.entities >= 0)
    before = result.scores >= tie_bound(result.scores[:, :1])
    ties = {}
    for query in {*result.ties, *np.flatnonzero(level.sum(axis=1) > 1).tolist()}:
        found, tied = result.entities[query], result.ties.get(query, result.entities[query, :0])
        if gain[query, first[query]] == 0 and found[first[query]] in tied:
            # The term does not cover them; some may be no candidates.
            ties[query] = tied
            continue
        others = level[query] & ~(before[query] & before[query, first[query]])
        kept = (
            np.isin(found, tied) & level[query]
            if found[first[query]] in tied
            else found == found[first[query]]
        )
        now = found[others | kept]
        if len(now) > 1:
            ties[query] = np.sort(now)
    return ties
