"""Search of the nearest prototypes among those of given entities."""

import numpy as np

from ..index.hits import no_hits
from ..index.products import products
from ..index.protocol import Mask, Rows, Scores, Vectors, read_only
from ..lexical.groups import edges
from ..util.compiled import in_parts
from .prototype_table import PrototypeTable

# Queries whose scores are in memory at a time, and pairs of an entity and a query per thread.
BLOCK_QUERIES, MIN_PAIRS = 2048, 4096


def nearest_among_entities(
    prototypes: PrototypeTable,
    queries: Vectors,
    entities: Rows,
    owner: Rows,
    width: int,
    allowed: Mask | None = None,
) -> tuple[Scores, Rows]:
    """Return the `width` prototypes of the entities that are nearest to each of the queries (q, d),
    as scores and rows (q, width), best first; padded with -inf and -1. Equal ones are in the order
    of their entities.

    entities, owner: distinct pairs of an entity and the query that is compared with it, ascending
        by query and entity (n,). allowed: mask of the entities to consider.
    """
    from . import kernel

    if allowed is not None:
        entities, owner = entities[allowed[entities]], owner[allowed[entities]]
    scores, rows = no_hits(len(queries), width)
    for start in range(0, len(queries), BLOCK_QUERIES):
        part = slice(start, start + BLOCK_QUERIES)
        of_pair = np.searchsorted(owner, np.arange(start, start + len(scores[part]) + 1))
        pairs = slice(of_pair[0], of_pair[-1])
        ends, found, values = _products(prototypes, queries, entities[pairs], owner[pairs])
        kernel.keep_highest(ends[of_pair[1:] - of_pair[0]], found, values, rows[part], scores[part])
        # Stable: equal scores may be cut off, on any processor the same ones.
        order = np.argsort(-scores[part], axis=1, kind="stable")
        scores[part], rows[part] = (
            np.take_along_axis(each[part], order, axis=1) for each in (scores, rows)
        )
    return scores, rows


def _products(
    prototypes: PrototypeTable, queries: Vectors, entities: Rows, owner: Rows
) -> tuple[Rows, Rows, Scores]:
    """Return the prototypes of each pair of an entity and a query, one pair after another, and
    their inner products with the query. Before them, where each pair starts and the last ends."""
    from . import kernel

    groups, vectors = prototypes.by_entity, prototypes.vectors
    bounds = groups.bounds(entities)
    at = edges(bounds[1] - bounds[0])
    if not isinstance(vectors, np.ndarray) or vectors.dtype != np.float32:
        rows, pair = groups.take(entities)
        return at, rows, products(vectors, rows, queries, owner[pair])
    rows, values = np.empty(at[-1], dtype=np.int64), np.empty(at[-1], dtype=np.float32)
    # Queries share entities, whose vectors are then read from memory once.
    order = np.argsort(entities)
    left, members, right = map(read_only, (vectors, groups.values, queries))

    def multiply(first: int, end: int) -> None:
        own = order[first:end]
        kernel.group_products(left, members, bounds, own, right, owner, at, rows, values)

    in_parts(multiply, len(order), MIN_PAIRS)
    return at, rows, values
