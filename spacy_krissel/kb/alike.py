"""Search of the nearest prototypes among those of given entities."""

import numpy as np

from ..index.hits import no_hits
from ..index.products import products
from ..index.protocol import Mask, Rows, Scores, Vectors
from ..lexical.groups import edges
from .prototype_table import PrototypeTable

# Queries whose scores are in memory at a time.
BLOCK_QUERIES = 512


def nearest_among_entities(
    prototypes: PrototypeTable,
    queries: Vectors,
    entities: Rows,
    owner: Rows,
    width: int,
    allowed: Mask | None = None,
) -> tuple[Scores, Rows]:
    """Return the `width` prototypes of the entities that are nearest to each of the queries (q, d),
    as scores and rows (q, width), best first; padded with -inf and -1.

    entities, owner: distinct pairs of an entity and the query that is compared with it, ascending
        by query and entity (n,). allowed: mask of the entities to consider.
    """
    if allowed is not None:
        entities, owner = entities[allowed[entities]], owner[allowed[entities]]
    scores, rows = no_hits(len(queries), width)
    for start in range(0, len(queries), BLOCK_QUERIES):
        first, last = np.searchsorted(owner, [start, start + BLOCK_QUERIES])
        found, of_entity = prototypes.by_entity.take(entities[first:last])
        own = owner[first:last][of_entity]
        # Queries share rows, each of which is then read from memory once.
        order = np.argsort(found)
        values = np.empty(len(found), dtype=np.float32)
        values[order] = products(prototypes.vectors, found[order], queries, own[order])
        counts = np.bincount(own - start, minlength=min(BLOCK_QUERIES, len(queries) - start))
        column = np.arange(len(own)) - np.repeat(edges(counts)[:-1], counts)
        table, of_table = no_hits(len(counts), max(width, int(counts.max(initial=0))))
        table[own - start, column], of_table[own - start, column] = values, found
        some = np.argpartition(-table, width - 1, axis=1)[:, :width]
        # Equal scores in the order of their columns, which is that of rows.
        some.sort(axis=1)
        best = np.argsort(-np.take_along_axis(table, some, axis=1), axis=1, kind="stable")
        some = np.take_along_axis(some, best, axis=1)
        part = slice(start, start + len(counts))
        scores[part] = np.take_along_axis(table, some, axis=1)
        rows[part] = np.take_along_axis(of_table, some, axis=1)
    return scores, rows
