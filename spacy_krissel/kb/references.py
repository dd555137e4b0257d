"""The vectors of entity-centric references, and their part in what is searched (KRISSBERT §3.5, eq. 6)."""

from pathlib import Path
from typing import Any

import numpy as np

from ..index.protocol import Rows, Vectors
from .columns import read_array, write_array

FILE = "references.npy"
# Vectors added at a time.
BLOCK_ROWS = 65_536


class References:
    """One vector an entity, added to each of the entity's prototypes: `v_p = c_p + w·r_e`.

    So `q·v_p = q·(c_p + w·r_e)`, and the search by eq. 6 stays one inner product. An entity without a reference has a
    row of zeros.

    vectors: r_e by entity row (n_entities, d), of the dtype in which the sums are stored too.
    weight: w, 1 in the paper.
    """

    def __init__(self, vectors: Vectors, weight: float = 1.0) -> None:
        self.vectors = vectors
        self.weight = weight

    def __len__(self) -> int:
        """How many entities have a reference."""
        return int(np.any(self.vectors, axis=1).sum()) if self.vectors.size else 0

    def added_to(self, vectors: Vectors, entity_rows: Rows) -> Vectors:
        """`v_p` of prototypes with the vectors `c_p` (n, d), whose entities stand at `entity_rows` (n,)."""
        sums = np.empty_like(vectors, subok=False)
        for start in range(0, len(vectors), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            references = self.vectors[entity_rows[block]].astype(np.float32)
            sums[block] = vectors[block].astype(np.float32) + np.float32(self.weight) * references
        return sums

    def moved(self, new_rows: Rows, n_entities: int) -> "References":
        """The same after entity row i became `new_rows[i]` (-1: it is gone) of `n_entities`."""
        vectors = np.zeros((n_entities, self.vectors.shape[1]), dtype=self.vectors.dtype)
        kept = new_rows >= 0
        vectors[new_rows[kept]] = self.vectors[kept]
        return References(vectors, self.weight)

    def to_disk(self, directory: Path) -> None:
        write_array(self.vectors, directory / FILE)

    @classmethod
    def from_disk(
        cls,
        directory: Path,
        described: dict[str, Any] | None,
        rows: int,
        width: int,
        dtype: str,
        *,
        verify: bool = False,
    ) -> Any:
        """What a manifest describes, memory-mapped; None where it describes nothing. verify: see `read_array`.

        Raises KrisselError K524.
        """
        if not described:
            return None
        return cls(read_array(directory / FILE, rows, width, dtype, verify=verify), float(described["weight"]))
