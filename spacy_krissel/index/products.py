"""Inner products of pairs of rows."""

from typing import Any

import numpy as np

from ..util.compiled import in_parts
from .protocol import Rows, Scores, Vectors, read_only

# Vector values per block, which fit into a core's cache (float32: 1 MB): half the time of large
# blocks.
BLOCK_VALUES = 2**18


def products(vectors: Any, rows: Rows, queries: Vectors, of_query: Rows) -> Scores:
    """Return `vectors[rows[i]] · queries[of_query[i]]`: (n,)."""
    found = np.empty(len(rows), dtype=np.float32)
    _multiply(vectors, rows, queries, of_query, found)
    return found


def _multiply(vectors: Any, rows: Rows, queries: Vectors, of_query: Rows, products: Scores) -> None:
    """Write the `products`."""
    from . import kernel

    is_compiled = isinstance(vectors, np.ndarray) and vectors.dtype == queries.dtype == np.float32
    step = max(1, BLOCK_VALUES // max(1, vectors.shape[1]))

    def multiply(first: int, end: int) -> None:
        if is_compiled:
            part = slice(first, end)
            kernel.products(
                read_only(vectors), rows[part], read_only(queries), of_query[part], products[part]
            )
            return
        for start in range(first, end, step):
            part = slice(start, min(start + step, end))
            left, right = (
                vectors[rows[part]].astype(np.float32, copy=False),
                queries[of_query[part]],
            )
            products[part] = np.einsum("nd,nd->n", left, right)

    in_parts(multiply, len(rows), step)
