"""Vectors of entity-centric references, added to the searched vectors (KRISSBERT §3.5, eq. 6)."""

import numpy as np

from ..index.protocol import Rows, Vectors


class References:
    """One vector per entity, added to each of the entity's prototypes: `v_p = c_p + w·r_e`.

    So `q·v_p = q·(c_p + w·r_e)`, and the search by eq. 6 stays one inner product. An entity without
    a reference has a row of zeros.

    vectors: r_e by entity row (n_entities, d), in the dtype of the stored sums.
    weight: w, 1 in the paper.
    """

    def __init__(self, vectors: Vectors, weight: float = 1.0) -> None:
        self.vectors = vectors
        self.weight = weight

    def __len__(self) -> int:
        """Number of entities with a reference."""
        return int(np.any(self.vectors, axis=1).sum()) if self.vectors.size else 0

    def at(self, entity_rows: Rows) -> Vectors:
        """Return `w·r_e` of the entities at `entity_rows` (n,), zeros at -1: (n, d) float32."""
        found = np.float32(self.weight) * self.vectors[entity_rows].astype(np.float32)
        found[entity_rows < 0] = 0
        return found

    def with_entity_rows(self, new_rows: Rows, n_entities: int) -> "References":
        """Return the references after entity row i became `new_rows[i]` (-1: removed) of
        `n_entities`.
        """
        vectors = np.zeros((n_entities, self.vectors.shape[1]), dtype=self.vectors.dtype)
        kept = new_rows >= 0
        vectors[new_rows[kept]] = self.vectors[kept]
        return References(vectors, self.weight)
