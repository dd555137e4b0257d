"""Products with entities' prototypes, and the best and distinct ones of them, as compiled loops."""

import numpy as np

from ..index.kernel import REORDERED_SUMS
from ..util.compiled import compiled


@compiled
def write_first(entities, scores, rows, is_top, lines, found, best, prototypes, extra, first):  # type: ignore[no-untyped-def]
    """Write the first distinct entities of each query to the lines `lines` (q,) of the outputs.

    found, best, prototypes (n, k): entities, their scores and prototype rows. extra (n, k, m): the
    next rows of each entity, initially -1; m is 0 if not wanted. first (q, w): set to True at the
    first occurrence of each entity, and of the other entities in `is_top` (q, w).

    entities, rows: int64 (q, w), -1 for none. scores: float32 (q, w).
    """
    k, n_extra = found.shape[1], extra.shape[2]
    for query in range(len(lines)):
        line, n = lines[query], 0
        for column in range(entities.shape[1]):
            entity = entities[query, column]
            if entity < 0:
                continue
            at = 0
            while at < n and found[line, at] != entity:
                at += 1
            if at < n:
                after = 0
                while after < n_extra and extra[line, at, after] >= 0:
                    after += 1
                if after < n_extra:
                    extra[line, at, after] = rows[query, column]
            elif n < k:
                found[line, n], best[line, n], prototypes[line, n] = (
                    entity,
                    scores[query, column],
                    rows[query, column],
                )
                first[query, column] = True
                n += 1
            elif is_top[query, column]:
                first[query, column] = True


@compiled(fastmath=REORDERED_SUMS)
def group_products(vectors, members, bounds, order, queries, owner, at, rows, products):  # type: ignore[no-untyped-def]
    """Write the members of each group to `rows`, and `vectors[member] · queries[owner[group]]` to
    `products`, from `at[group]` on.

    bounds: start and end of each group's members (g,) both. order: of the groups.
    vectors (p, d), queries (q, d), products: float32.
    """
    starts, ends = bounds
    for group in order:
        query, to = queries[owner[group]], at[group]
        for i in range(starts[group], ends[group]):
            row = members[i]
            vector, total = vectors[row], np.float32(0)
            for j in range(len(vector)):
                total += vector[j] * query[j]
            rows[to], products[to] = row, total
            to += 1


@compiled
def keep_highest(ends, rows, values, best_rows, best):  # type: ignore[no-untyped-def]
    """Write the `k` highest values of each query, and their rows, to `best` and `best_rows` (q, k),
    in their own order; of equal ones at the end, the first.

    ends (q,): of the queries' `rows` and `values`, one after another.
    """
    k, start = best.shape[1], 0
    for query in range(len(ends)):
        own, own_rows = values[start : ends[query]], rows[start : ends[query]]
        n = len(own)
        least, n_equal = np.float32(-np.inf), n
        if n > k:
            least = np.partition(own, n - k)[n - k]
            n_equal = k - (own > least).sum()
        at = 0
        for i in range(n):
            if own[i] < least or (own[i] == least and not n_equal):
                continue
            n_equal -= own[i] == least
            best[query, at], best_rows[query, at] = own[i], own_rows[i]
            at += 1
        start = ends[query]
