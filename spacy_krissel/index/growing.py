"""Arrays that can be followed by more rows, in memory or in a file."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from .protocol import Vectors

# Rows written at a time.
BLOCK_ROWS = 65_536


class GrowingArray:
    """Rows that are read and written in slices and followed by others: in memory, or in an unnamed
    file, which is not mapped before it is asked for as an array."""

    def __init__(self, start: np.ndarray, directory: Path | None = None) -> None:
        """start: the first rows; in memory they are not copied. directory: of the file, None: in
        memory."""
        self.in_file = directory is not None
        self._n, self._room = (0, start[:0]) if self.in_file else (len(start), start)
        self._file = tempfile.TemporaryFile(dir=directory) if self.in_file else None  # noqa: SIM115
        self._row_size = int(np.prod(start.shape[1:])) * start.dtype.itemsize
        if self.in_file:
            self.append(start)

    def __len__(self) -> int:
        return self._n

    @property
    def array(self) -> np.ndarray:
        """All rows. Rows that are appended later are not among them, and change none."""
        if self._file is None:
            return self._room[: self._n]
        self._file.flush()
        return _mapped(self._file, (self._n, *self._room.shape[1:]), self._room.dtype, "r+")

    def append(self, rows: np.ndarray) -> None:
        start, self._n = self._n, self._n + len(rows)
        if self._file is None and self._n > len(self._room):
            # Half as many more, so that many small additions cost little more than one.
            room = np.empty((self._n + self._n // 2, *self._room.shape[1:]), self._room.dtype)
            room[:start] = self._room[:start]
            self._room = room
        self[start : self._n] = rows

    def __getitem__(self, part: slice) -> np.ndarray:
        if self._file is None:
            return self._room[part]
        self._file.seek(part.start * self._row_size)
        found = bytearray(self._file.read((part.stop - part.start) * self._row_size))
        return np.frombuffer(found, self._room.dtype).reshape(-1, *self._room.shape[1:])

    def __setitem__(self, part: slice, rows: np.ndarray) -> None:
        if self._file is None:
            self._room[part] = rows
            return
        self._file.seek(part.start * self._row_size)
        for start in range(0, len(rows), BLOCK_ROWS):
            self._file.write(
                np.ascontiguousarray(rows[start : start + BLOCK_ROWS], dtype=self._room.dtype).data
            )


class GrowingVectors:
    """Vectors (n, width) that can be followed by others. Never changed: `appended` gives another
    object, which shares the rows of both."""

    def __init__(self, array: Vectors, store: GrowingArray | None = None) -> None:
        """array: read only. store: where it can grow, as long as it ends with these rows."""
        self.array = array
        self._store = store

    def appended(self, vectors: Vectors, directory: Path | None = None) -> "GrowingVectors":
        """These and a copy of `vectors` (m, width); directory: of the file, None: in memory."""
        store = self._store
        if (
            store is None
            or len(store) != len(self.array)
            or (directory is not None and not store.in_file)
        ):
            store = GrowingArray(self.array, directory)
        store.append(vectors)
        return GrowingVectors(store.array, store)


def zeros(shape: tuple[int, ...], dtype: Any, directory: Path | None) -> np.ndarray:
    """Zeros to write into: in memory, or in a file without a name in the `directory`."""
    if directory is None:
        return np.zeros(shape, dtype=dtype)
    with tempfile.TemporaryFile(dir=directory) as file_:
        return _mapped(file_, shape, dtype, "w+")


def _mapped(file_: Any, shape: tuple[int, ...], dtype: Any, mode: Any) -> np.ndarray:
    # An empty file cannot be mapped.
    return (
        np.memmap(file_, dtype=dtype, mode=mode, shape=shape)
        if all(shape)
        else np.zeros(shape, dtype)
    )
