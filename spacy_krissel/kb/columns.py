"""Columns of vectors and of values in memory-mapped files."""

import mmap
import re
import tempfile
from collections.abc import Callable, Iterator
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from ..errors import Errors, KrisselError
from ..index.protocol import Vectors
from ..util.disk import coded_damage

# Rows written at a time.
BLOCK_ROWS = 65_536


def write_array(vectors: Vectors, path: Path) -> None:
    header = {"descr": vectors.dtype.str, "fortran_order": False, "shape": vectors.shape}
    with path.open("wb") as file_:
        np.lib.format.write_array_header_1_0(file_, header)
        for start in range(0, len(vectors), BLOCK_ROWS):
            file_.write(np.ascontiguousarray(vectors[start : start + BLOCK_ROWS]).data)


def read_array(path: Path, rows: int, width: int, dtype: str, *, verify: bool = False) -> Vectors:
    """The vectors (rows, width) at `path`, mapped. verify: check that all values are finite, which reads them.

    Raises KrisselError K524 (of another shape or dtype, damaged), K026 when the disk refuses.
    """
    with coded_damage(path, partial(_damaged, path)):
        # An empty file cannot be mapped.
        vectors = np.load(path, mmap_mode="r" if rows and width else None, allow_pickle=False)
    if vectors.shape != (rows, width) or vectors.dtype != np.dtype(dtype):
        problem = f"{path.name} holds {vectors.shape} of {vectors.dtype}, expected {(rows, width)} of {dtype}"
        raise KrisselError(Errors.K524.format(path=path.parent, problem=problem))
    for start in range(0, rows if verify else 0, BLOCK_ROWS):
        block = vectors[start : start + BLOCK_ROWS]
        # A sum is ten times as fast, and finite only if all values are; of large values it may be infinite.
        with np.errstate(all="ignore"):
            is_finite = np.isfinite(block.sum(dtype=np.float32)) or np.isfinite(block).all()
        if not is_finite:
            raise _damaged(path, f"values of rows {start} to {start + len(block) - 1} are not finite")
    return vectors


class GrowingVectors:
    """Vectors (n, width) that can be followed by others, in memory or in an unnamed file. Never changed: `appended`
    gives another object, which shares the rows of both."""

    def __init__(self, array: Vectors, store: "GrowingArray | _File | None" = None) -> None:
        """array: read only. store: where it can grow, as long as it ends with these rows."""
        self.array = array
        self._store = store

    def appended(self, vectors: Vectors, directory: Path | None = None) -> "GrowingVectors":
        """These and a copy of `vectors` (m, width); directory: of the file, None: in memory."""
        store = self._store
        is_other = directory is not None and isinstance(store, GrowingArray)
        if store is None or store.rows != len(self.array) or is_other:
            store = GrowingArray(self.array) if directory is None else _File(self.array, directory)
        return GrowingVectors(store.append(vectors), store)


class GrowingArray:
    """Rows in memory, followed by others."""

    def __init__(self, start: Vectors) -> None:
        self.rows = len(start)
        self._room = start

    @property
    def array(self) -> Vectors:
        return self._room[: self.rows]

    def append(self, vectors: Vectors) -> Vectors:
        """All rows, with `vectors` at their end; arrays returned before stay as they are."""
        rows = self.rows + len(vectors)
        if rows > len(self._room):
            # Half as many more, so that many small additions cost little more than one.
            room = np.empty((rows + rows // 2, *self._room.shape[1:]), self._room.dtype)
            room[: self.rows] = self._room[: self.rows]
            self._room = room
        self._room[self.rows : rows] = vectors
        self.rows = rows
        return self._room[:rows]


class _File:
    def __init__(self, start: Vectors, directory: Path) -> None:
        self.rows = 0
        self._empty = start[:0]
        self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115
        self.append(start)

    def append(self, vectors: Vectors) -> Vectors:
        dtype, width = self._empty.dtype, self._empty.shape[1]
        self._file.seek(self.rows * width * dtype.itemsize)
        for start in range(0, len(vectors), BLOCK_ROWS):
            self._file.write(np.ascontiguousarray(vectors[start : start + BLOCK_ROWS], dtype=dtype).data)
        self._file.flush()
        self.rows += len(vectors)
        return _mapped(self._file, (self.rows, width), dtype, "r")


def zero_vectors(rows: int, width: int, dtype: str, directory: Path | None) -> Vectors:
    """Zeros (rows, width) to write into: in memory, or in a file without a name in the `directory`."""
    if directory is None:
        return np.zeros((rows, width), dtype=dtype)
    with tempfile.TemporaryFile(dir=directory) as file_:
        return _mapped(file_, (rows, width), dtype, "w+")


def _mapped(file_: Any, shape: Any, dtype: Any, mode: Any) -> Vectors:
    # An empty file cannot be mapped.
    return np.memmap(file_, dtype=dtype, mode=mode, shape=shape) if shape[0] and shape[1] else np.zeros(shape, dtype)


Method = TypeVar("Method", bound=Callable[..., Any])
# Rows to a record batch: a lookup touches one batch, and saving what was loaded gives the same batches again.
BATCH_ROWS = 65_536
# An allocation of no more is never taken for damage, in bytes.
LEAST_MEMORY = 2**20


def write_table(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink:
        _write_batches(table, sink)


def _write_batches(table: pa.Table, sink: Any) -> None:
    with pa.ipc.new_file(sink, table.schema) as writer:
        for start in range(0, len(table), BATCH_ROWS):
            batch = table.slice(start, BATCH_ROWS).combine_chunks()
            # The bytes of a slice depend on what it was cut from, those of a copy do not.
            writer.write_table(batch.take(np.arange(len(batch))))


def read_table(path: Path, schema: pa.Schema, rows: int, *, verify: bool = True) -> pa.Table:
    """The table at `path`, mapped, with the `schema` and number of `rows` it was written with.

    verify: check its contents (0.1 s per GB), not its outline alone. Raises KrisselError K524.
    """
    with coded_damage(path, partial(_damaged, path)):
        table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
        table.validate(full=verify)
        if table.schema != schema or len(table) != rows:
            found = f"{len(table)} rows of ({', '.join(table.schema.names)})"
            raise _damaged(path, f"it has {found}, expected {rows} of ({', '.join(schema.names)})")
    if any(column.null_count for column in table.columns):
        raise _damaged(path, "it has rows without a value")
    return table


def check_table(table: pa.Table, path: Path, row: int) -> None:
    """Check the batch with this row of a table that was read from `path` without `verify`. Raises KrisselError K524."""
    with coded_damage(path, partial(_damaged, path)):
        table.slice(row // BATCH_ROWS * BATCH_ROWS, BATCH_ROWS).validate(full=True)


def appended(table: pa.Table, added: pa.Table, directory: Path | None = None) -> pa.Table:
    """Both tables as one; full batches of `added` go to the `directory`, None: all of it stays in memory.

    Short chunks at the end are joined, so that many small additions cost little more than one.
    """
    start = len(table)
    for chunk in reversed(table.column(0).chunks):
        if len(chunk) >= min(BATCH_ROWS, len(table) - start + len(added) + 1):
            break
        start -= len(chunk)
    end = pa.concat_tables([table.slice(start), added]).combine_chunks()
    if directory is not None and len(end) >= BATCH_ROWS:
        end = on_disk(end, directory)
    return pa.concat_tables([table.slice(0, start), end])


def on_disk(table: pa.Table, directory: Path) -> pa.Table:
    """The same table, mapped from an unnamed file in `directory`, which goes with the last use of it."""
    with tempfile.TemporaryFile(dir=directory) as file_:
        # Arrow's own file is not closed, since that would close this one.
        _write_batches(table, pa.PythonFile(file_, "w"))
        file_.flush()
        mapped = mmap.mmap(file_.fileno(), 0, access=mmap.ACCESS_READ)
    return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).read_all()


def take_rows(table: pa.Table, rows: Any) -> pa.Table:
    """The `rows` of a table, an array of any shape, flattened.

    `Table.take` first joins all chunks of each column: it would copy the whole of a mapped file.
    """
    rows = np.ravel(np.asarray(rows, dtype=np.int64))
    if not len(rows):
        return table.schema.empty_table()
    if rows.min() < 0 or rows.max() >= len(table):
        raise IndexError(f"rows from {rows.min()} to {rows.max()} of a table of {len(table)}")
    try:
        if (rows[1:] >= rows[:-1]).all():
            return pa.concat_tables([piece.take(pa.array(places)) for piece, places in _pieces(table, rows)])
        order = np.argsort(rows, kind="stable")
        taken = take_rows(table, rows[order])
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return taken.combine_chunks().take(pa.array(back))
    except pa.ArrowMemoryError as error:
        too_much = _allocation(error) > LEAST_MEMORY + len(rows) * table.get_total_buffer_size()
        raise (pa.ArrowInvalid if too_much else MemoryError)(str(error)) from error


def coded(method: Method) -> Method:
    """Decorate a method that reads `self.table`, from `self.path` where that is not None: damage is KrisselError K524.

    An unverified table may have offsets outside its text, or bytes that are no UTF-8.
    """

    @wraps(method)
    def reading(self: Any, *args: Any, **settings: Any) -> Any:
        try:
            return method(self, *args, **settings)
        except (UnicodeDecodeError, pa.ArrowException) as error:
            out_of_memory = isinstance(error, MemoryError) and (
                _allocation(error) <= LEAST_MEMORY + 2 * self.table.get_total_buffer_size()
            )
            if self.path is None or out_of_memory:
                raise
            raise _damaged(self.path, error) from error

    return reading  # type: ignore[return-value]


def _damaged(path: Path, problem: object) -> KrisselError:
    return KrisselError(Errors.K524.format(path=path.parent, problem=f"{path.name}: {problem}"))


def _allocation(error: BaseException) -> int:
    """The bytes that Arrow asked for in vain, 0 where its message does not name them."""
    size = re.search(r"size (\d+)", str(error))
    return int(size.group(1)) if size else 0


def _pieces(table: pa.Table, rows: Any) -> Iterator[tuple[pa.Table, Any]]:
    """The pieces of `table` that hold some of the ascending `rows`, and those rows within each."""
    lengths = [len(chunk) for chunk in table.column(0).chunks]
    ends = np.cumsum(lengths, dtype=np.int64)
    places = np.searchsorted(rows, np.concatenate([[0], ends]))
    for number in np.flatnonzero(np.diff(places)).tolist():
        start = int(ends[number]) - lengths[number]
        yield table.slice(start, lengths[number]), rows[places[number] : places[number + 1]] - start
