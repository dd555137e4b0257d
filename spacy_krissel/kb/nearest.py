"""Nearest prototypes of given entities to mentions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..index.protocol import Mask, Rows, Scores, Vectors
from ..lexical.groups import read_only
from ..util.compiled import in_parts
from .prototype_table import PrototypeTable

# Vector values per block, which fit into a core's cache (float32: 1 MB): half the time of large
# blocks.
BLOCK_VALUES = 2**18
# (number of a query, prototype rows (n,)) -> which of them it can see (n,).
VisibilityFilter = Callable[[int, Rows], Mask]


def nearest_among(
    prototypes: PrototypeTable, vectors: Vectors, queries: Rows, nearest: Rows, columns: Rows
) -> tuple[Rows, Scores]:
    """Return the row of the nearest prototype to each query's vector, and their inner product.

    The prototypes of pair i are `nearest[queries[i], columns[i]]` (m,), -1 padded; nearest is (q,
    w, m). The first of equal ones wins. RETURNS: (n,) both; -1 and -inf if there is none, and for
    columns beyond those of `nearest`.
    """
    rows, best = (
        np.full(len(queries), -1, dtype=np.int64),
        np.full(len(queries), -np.inf, dtype=np.float32),
    )
    within = np.flatnonzero(columns < nearest.shape[1])
    near = nearest[queries[within], columns[within]]
    pair, column = np.nonzero(near >= 0)
    scores = np.full(near.shape, -np.inf, dtype=np.float32)
    scores[pair, column] = products(
        prototypes.vectors, near[pair, column], vectors, queries[within[pair]]
    )
    first = scores.argmax(axis=1)[:, None]
    rows[within], best[within] = (
        np.take_along_axis(each, first, axis=1)[:, 0] for each in (near, scores)
    )
    return rows, best


def nearest_of_entities(
    prototypes: PrototypeTable,
    vectors: Vectors,
    queries: Rows,
    entities: Rows,
    can_see: VisibilityFilter | None = None,
) -> tuple[Rows, Scores]:
    """Return the row of the nearest prototype of `entities[i]` to `vectors[queries[i]]`.

    Also their inner product. `queries` ascend.
    RETURNS: (n,) both; -1 and -inf for an entity without (visible) prototypes.
    """
    nearest = np.full(len(queries), -1, dtype=np.int64)
    best = np.full(len(queries), -np.inf, dtype=np.float32)
    rows, pair = prototypes.by_entity.take(entities)
    if can_see is not None and len(rows):
        starts = np.flatnonzero(np.diff(queries[pair], prepend=-1))
        groups = zip(queries[pair[starts]].tolist(), np.split(rows, starts[1:]), strict=True)
        seen = np.concatenate([can_see(query, group) for query, group in groups])
        rows, pair = rows[seen], pair[seen]
    if not len(rows):
        return nearest, best
    scores = products(prototypes.vectors, rows, vectors, queries[pair])
    found, starts = np.unique(pair, return_index=True)
    best[found] = np.maximum.reduceat(scores, starts)
    at_best = np.flatnonzero(scores == best[pair])
    _, first = np.unique(pair[at_best], return_index=True)
    nearest[found] = rows[at_best[first]]
    return nearest, best


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
