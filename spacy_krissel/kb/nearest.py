"""The prototypes of given entities that are nearest to mentions."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..distributed.parts import in_parts
from ..index.protocol import Mask, Rows, Scores, Vectors
from ..lexical.groups import read_only
from .prototype_table import PrototypeTable


class OverlaidVectors:
    """Read like an array (n, d) by slices and rows.

    base: the first rows. added: gives the vectors of later ones, numbered from 0 on. n_added: their number.
    """

    def __init__(self, base: Vectors, added: Callable[[Rows], Vectors], n_added: int) -> None:
        self.base, self._added = base, added
        self.shape = len(base) + n_added, base.shape[1]
        self.dtype = base.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Vectors:
        if isinstance(rows, slice):
            if rows.step is None and 0 <= (rows.start or 0) and 0 < (rows.stop or 0) <= len(self.base):
                return self.base[rows]
            rows = np.arange(*rows.indices(len(self)))
        rows = np.asarray(rows, dtype=np.int64)
        found = np.empty((len(rows), self.shape[1]), dtype=np.float32)
        is_base = rows < len(self.base)
        found[is_base] = self.base[rows[is_base]]
        found[~is_base] = self._added(rows[~is_base] - len(self.base))
        return found


# Values of vectors held at a time, which fit into a core's cache (float32: 1 MB): half the time of large blocks.
BLOCK_VALUES = 2**18
# (number of a query, prototype rows (n,)) -> which of them it can see (n,).
VisibilityFilter = Callable[[int, Rows], Mask]


def nearest_given(
    prototypes: PrototypeTable, vectors: Vectors, queries: Rows, nearest: Rows, places: Rows
) -> tuple[Rows, Scores]:
    """The one of the prototypes `nearest[queries[i], places[i]]` (m,), -1 padded, that is nearest to
    `vectors[queries[i]]`, the first of equals, and their inner product: (n,) both; -1 and -inf where there is none, as
    in all places beyond those of `nearest` (q, w, m)."""
    rows, best = np.full(len(queries), -1, dtype=np.int64), np.full(len(queries), -np.inf, dtype=np.float32)
    within = np.flatnonzero(places < nearest.shape[1])
    near = nearest[queries[within], places[within]]
    pair, place = np.nonzero(near >= 0)
    scores = np.full(near.shape, -np.inf, dtype=np.float32)
    scores[pair, place] = _products(prototypes.vectors, near[pair, place], vectors, queries[within[pair]])
    first = scores.argmax(axis=1)[:, None]
    rows[within], best[within] = (np.take_along_axis(each, first, axis=1)[:, 0] for each in (near, scores))
    return rows, best


def nearest_of_entities(
    prototypes: PrototypeTable, vectors: Vectors, queries: Rows, entities: Rows, can_see: VisibilityFilter | None = None
) -> tuple[Rows, Scores]:
    """The row of the prototype of `entities[i]` that is nearest to `vectors[queries[i]]`, and their inner product.

    `queries` ascend. RETURNS: (n,) both; -1 and -inf for an entity without prototypes, or with none that it can see.
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
    scores = _products(prototypes.vectors, rows, vectors, queries[pair])
    found, starts = np.unique(pair, return_index=True)
    best[found] = np.maximum.reduceat(scores, starts)
    at_best = np.flatnonzero(scores == best[pair])
    _, first = np.unique(pair[at_best], return_index=True)
    nearest[found] = rows[at_best[first]]
    return nearest, best


def _products(vectors: Any, rows: Rows, queries: Vectors, of_query: Rows) -> Scores:
    """`vectors[rows[i]] · queries[of_query[i]]`: (n,)."""
    products = np.empty(len(rows), dtype=np.float32)
    if isinstance(vectors, OverlaidVectors):
        is_base = rows < len(vectors.base)
        products[is_base] = _products(vectors.base, rows[is_base], queries, of_query[is_base])
        _multiply(vectors, rows[~is_base], queries, of_query[~is_base], own := products[~is_base])
        products[~is_base] = own
        return products
    _multiply(vectors, rows, queries, of_query, products)
    return products


def _multiply(vectors: Any, rows: Rows, queries: Vectors, of_query: Rows, products: Scores) -> None:
    """Write the `_products`."""
    from . import kernel

    is_compiled = isinstance(vectors, np.ndarray) and vectors.dtype == queries.dtype == np.float32
    step = max(1, BLOCK_VALUES // max(1, vectors.shape[1]))

    def multiply(first: int, end: int) -> None:
        if is_compiled:
            part = slice(first, end)
            kernel.products(read_only(vectors), rows[part], read_only(queries), of_query[part], products[part])
            return
        for start in range(first, end, step):
            part = slice(start, min(start + step, end))
            left, right = vectors[rows[part]].astype(np.float32, copy=False), queries[of_query[part]]
            products[part] = np.einsum("nd,nd->n", left, right)

    in_parts(multiply, len(rows), step)
