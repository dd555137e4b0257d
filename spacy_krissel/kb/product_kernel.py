"""Inner products of pairs of rows as a compiled loop."""

import numpy as np

from ..util.compiled import compiled

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
