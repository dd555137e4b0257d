"""Nearest prototypes of given entities to mentions."""

from collections.abc import Callable

import numpy as np

from ..index.products import products
from ..index.protocol import Mask, Rows, Scores, Vectors
from .prototype_table import PrototypeTable

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
