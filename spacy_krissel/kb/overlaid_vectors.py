"""Vectors of a knowledge base, followed by others that are computed on access."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..index.protocol import Rows, Vectors


class OverlaidVectors:
    """Array-like vectors (n, d), read by slices and rows.

    base: the first rows. added: returns the vectors of later rows, numbered from 0. n_added: their
        number.
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
