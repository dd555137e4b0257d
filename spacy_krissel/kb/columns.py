"""Columns of vectors and values in memory-mapped files."""

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
from ..util.memory import forget_pages

# Rows per write.
BLOCK_ROWS = 65_536


def write_array(vectors: Vectors, path: Path) -> None:
    header = {"descr": vectors.dtype.str, "fortran_order": False, "shape": vectors.shape}
    with path.open("wb") as file_:
        np.lib.format.write_array_header_1_0(file_, header)
        for start in range(0, len(vectors), BLOCK_ROWS):
            file_.write(np.ascontiguousarray(vectors[start : start + BLOCK_ROWS]).data)
            forget_pages(vectors)


def read_array(path: Path, rows: int, width: int, dtype: str, *, verify: bool = False) -> Vectors:
    """Return the vectors (rows, width) at `path`, mapped.

    verify: check that all values are finite, which reads them.

    Raises KrisselError K524 (of another shape or dtype, damaged), K026 when the disk refuses.
    """
    with coded_damage(path, partial(_damaged, path)):
        # An empty file cannot be mapped.
        vectors = np.load(path, mmap_mode="r" if rows and width else None, allow_pickle=False)
    if vectors.shape != (rows, width) or vectors.dtype != np.dtype(dtype):
        problem = (
            f"{path.name} holds {vectors.shape} of {vectors.dtype}, expected {(rows, width)} of "
            f"{dtype}"
        )
        raise KrisselError(Errors.K524.format(path=path.parent, problem=problem))
    for start in range(0, rows if verify else 0, BLOCK_ROWS):
        block = vectors[start : start + BLOCK_ROWS]
        # A sum is ten times as fast, and finite only if all values are; a sum of large values may
        # overflow.
        with np.errstate(all="ignore"):
            is_finite = np.isfinite(block.sum(dtype=np.float32)) or np.isfinite(block).all()
        if not is_finite:
            raise _damaged(
                path, f"values of rows {start} to {start + len(block) - 1} are not finite"
            )
        forget_pages(vectors)
    return vectors


Method = TypeVar("Method", bound=Callable[..., Any])
# Rows per record batch: a lookup touches one batch, and saving a loaded table gives the same
# batches again.
BATCH_ROWS = 65_536
# A failed allocation of at most this many bytes, beyond the size of the data, means a lack of
# memory. A larger one means damage.
PLAUSIBLE_BYTES = 2**20


def write_table(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink:
        _write_batches(table, sink)


def _write_batches(table: pa.Table, sink: Any) -> None:
    with pa.ipc.new_file(sink, table.schema) as writer:
        for start in range(0, len(table), BATCH_ROWS):
            batch = table.slice(start, BATCH_ROWS).combine_chunks()
            # The bytes of a slice depend on the array that it was cut from; those of a copy do not.
            writer.write_table(batch.take(np.arange(len(batch))))


def read_table(
    path: Path,
    schema: pa.Schema,
    rows: int,
    *,
    earlier: pa.Schema | None = None,
    verify: bool = True,
) -> pa.Table:
    """Return the table at `path`, mapped, with the `schema` and number of `rows` it was written
    with.

    earlier: a schema of earlier versions, which it may have. verify: check its contents (0.1 s per
        GB), not only its layout.

    Raises KrisselError K524.
    """
    with coded_damage(path, partial(_damaged, path)):
        table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
        table.validate(full=verify)
        if table.schema not in (schema, earlier) or len(table) != rows:
            found = f"{len(table)} rows of ({', '.join(table.schema.names)})"
            raise _damaged(path, f"it has {found}, expected {rows} of ({', '.join(schema.names)})")
    if any(column.null_count for column in table.columns):
        raise _damaged(path, "it has rows without a value")
    return table


def check_table(table: pa.Table, path: Path, row: int) -> None:
    """Check the batch with this row of a table that was read from `path` without `verify`.

    Raises KrisselError K524.
    """
    with coded_damage(path, partial(_damaged, path)):
        table.slice(row // BATCH_ROWS * BATCH_ROWS, BATCH_ROWS).validate(full=True)


def appended(table: pa.Table, added: pa.Table, directory: Path | None = None) -> pa.Table:
    """Return both tables as one.

    directory: of the file for full batches of `added`; None: all of it stays in memory.

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
    """Return the same table, mapped from an unnamed file in `directory`.

    The file is deleted with the last reference to the table.
    """
    with tempfile.TemporaryFile(dir=directory) as file_:
        # Arrow's own file is not closed, since that would close this one.
        _write_batches(table, pa.PythonFile(file_, "w"))
        file_.flush()
        mapped = mmap.mmap(file_.fileno(), 0, access=mmap.ACCESS_READ)
    return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).read_all()


def take_rows(table: pa.Table, rows: Any) -> pa.Table:
    """Return the `rows` of a table, an array of any shape, flattened.

    `Table.take` first joins all chunks of each column: it would copy a whole mapped file.
    """
    rows = np.ravel(np.asarray(rows, dtype=np.int64))
    if not len(rows):
        return table.schema.empty_table()
    if rows.min() < 0 or rows.max() >= len(table):
        raise IndexError(f"rows from {rows.min()} to {rows.max()} of a table of {len(table)}")
    try:
        if (rows[1:] >= rows[:-1]).all():
            return pa.concat_tables(
                [chunk.take(pa.array(within)) for chunk, within in _chunks(table, rows)]
            )
        order = np.argsort(rows, kind="stable")
        taken = take_rows(table, rows[order])
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return taken.combine_chunks().take(pa.array(back))
    except pa.ArrowMemoryError as error:
        too_much = _allocation(error) > PLAUSIBLE_BYTES + len(rows) * table.get_total_buffer_size()
        raise (pa.ArrowInvalid if too_much else MemoryError)(str(error)) from error


def report_damage(method: Method) -> Method:
    """Decorate a method that reads `self.table`, mapped from `self.path` or None.

    Damage in a mapped table raises KrisselError K524. An unverified table may have offsets outside
    its text, or bytes that are not valid UTF-8.
    """

    @wraps(method)
    def reading(self: Any, *args: Any, **settings: Any) -> Any:
        try:
            return method(self, *args, **settings)
        except (UnicodeDecodeError, pa.ArrowException) as error:
            out_of_memory = isinstance(error, MemoryError) and (
                _allocation(error) <= PLAUSIBLE_BYTES + 2 * self.table.get_total_buffer_size()
            )
            if self.path is None or out_of_memory:
                raise
            raise _damaged(self.path, error) from error

    return reading  # type: ignore[return-value]


def _damaged(path: Path, problem: object) -> KrisselError:
    return KrisselError(Errors.K524.format(path=path.parent, problem=f"{path.name}: {problem}"))


def _allocation(error: BaseException) -> int:
    """Return the number of bytes that Arrow failed to allocate, or 0 if its message names none."""
    size = re.search(r"size (\d+)", str(error))
    return int(size.group(1)) if size else 0


def _chunks(table: pa.Table, rows: Any) -> Iterator[tuple[pa.Table, Any]]:
    """Yield the chunks of `table` that contain some of the ascending `rows`, and the rows
    within.
    """
    lengths = [len(chunk) for chunk in table.column(0).chunks]
    ends = np.cumsum(lengths, dtype=np.int64)
    edges = np.searchsorted(rows, np.concatenate([[0], ends]))
    for number in np.flatnonzero(np.diff(edges)).tolist():
        start = int(ends[number]) - lengths[number]
        yield table.slice(start, lengths[number]), rows[edges[number] : edges[number + 1]] - start
