"""Vectors that grow in a file, and not in memory."""

import tempfile
from pathlib import Path
from typing import Any, Optional

import numpy as np

from ..index.protocol import Vectors

# Rows written at a time.
BLOCK_ROWS = 65_536


class GrowingVectors:
    """Vectors added at the end of a file without a name, which goes with the last use of it.

    width: of the vectors. dtype: as which they are written. directory: on a disk with room for them.
    """

    def __init__(self, width: int, dtype: str, directory: Path) -> None:
        self._file: Any = tempfile.TemporaryFile(dir=directory)
        self._width = width
        self._dtype = dtype
        self._rows = 0
        self._array: Optional[Vectors] = None

    def append(self, vectors: Vectors) -> None:
        """Write vectors (m, width) behind those that are there; arrays given before stay as they are."""
        self._file.seek(0, 2)
        for start in range(0, len(vectors), BLOCK_ROWS):
            self._file.write(np.ascontiguousarray(vectors[start : start + BLOCK_ROWS], dtype=self._dtype).data)
        self._rows += len(vectors)
        self._array = None

    @property
    def array(self) -> Vectors:
        """All vectors so far (n, width), mapped. Not to be written to."""
        if self._array is None:
            self._file.flush()
            self._array = _mapped(self._file, (self._rows, self._width), self._dtype, "r")
        return self._array


def zero_vectors(rows: int, width: int, dtype: str, directory: Optional[Path]) -> Vectors:
    """Zeros (rows, width) to write into: in memory, or in a file without a name in the `directory`."""
    if directory is None:
        return np.zeros((rows, width), dtype=dtype)
    with tempfile.TemporaryFile(dir=directory) as file_:
        return _mapped(file_, (rows, width), dtype, "w+")


def _mapped(file_: Any, shape: Any, dtype: str, mode: Any) -> Vectors:
    # An empty file cannot be mapped.
    return np.memmap(file_, dtype=dtype, mode=mode, shape=shape) if shape[0] and shape[1] else np.zeros(shape, dtype)
