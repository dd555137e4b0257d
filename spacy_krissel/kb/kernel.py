"""The distinct entities among prototypes, and inner products of pairs of rows, as compiled loops."""

import numpy as np

from ..util.compiled import compiled


@compiled
def write_first(entities, scores, rows, level, lines, found, best, prototypes, further, first):  # type: ignore[no-untyped-def]
    """Write the first distinct entities of each query, their scores and rows to the lines `lines` (q,) of `found`,
    `best` and `prototypes` (n, k), the next rows of each to `further` (n, k, m), which has -1 there, and where each of
    them comes first, and others are `level` (q, w), to `first` (q, w).

    entities, rows: int64 (q, w), -1 for none. scores: float32 (q, w). further: m is 0 where nobody asks for it.
    """
    k, most = found.shape[1], further.shape[2]
    for query in range(len(lines)):
        line, n = lines[query], 0
        for place in range(entities.shape[1]):
            entity = entities[query, place]
            if entity < 0:
                continue
            at = 0
            while at < n and found[line, at] != entity:
                at += 1
            if at < n:
                after = 0
                while after < most and further[line, at, after] >= 0:
                    after += 1
                if after < most:
                    further[line, at, after] = rows[query, place]
            elif n < k:
                found[line, n], best[line, n], prototypes[line, n] = entity, scores[query, place], rows[query, place]
                first[query, place] = True
                n += 1
            elif level[query, place]:
                first[query, place] = True


# The sum of a product may be taken in another order: several values at a time.
IN_ANY_ORDER = {"reassoc", "nsz", "contract"}


@compiled(fastmath=IN_ANY_ORDER)
def products(vectors, rows, queries, of_query, found):  # type: ignore[no-untyped-def]
    """Write `vectors[rows[i]] · queries[of_query[i]]` to `found` (n,), without a copy of either row.

    vectors (p, d), queries (q, d), found: float32. rows, of_query (n,): int64, of rows that are there.
    """
    for i in range(len(rows)):
        vector, query = vectors[rows[i]], queries[of_query[i]]
        total = np.float32(0)
        for j in range(len(vector)):
            total += vector[j] * query[j]
        found[i] = total
