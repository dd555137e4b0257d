"""Inner products of pairs of rows as a compiled loop."""

import numpy as np

from ..util.compiled import compiled

# Lets the compiler reorder the sum of a product, several values at a time.
REORDERED_SUMS = {"reassoc", "nsz", "contract"}


@compiled(fastmath=REORDERED_SUMS)
def products(vectors, rows, queries, of_query, found):  # type: ignore[no-untyped-def]
    """Write `vectors[rows[i]] · queries[of_query[i]]` to `found` (n,), without copying rows.

    vectors (p, d), queries (q, d), found: float32. rows, of_query (n,): int64, valid rows.
    """
    for i in range(len(rows)):
        vector, query = vectors[rows[i]], queries[of_query[i]]
        total = np.float32(0)
        for j in range(len(vector)):
            total += vector[j] * query[j]
        found[i] = total
