"""Arrow tables as memory-mapped files."""

import mmap
import tempfile
from pathlib import Path
from typing import Any, Iterator, Mapping, Optional, Tuple

import numpy as np
import pyarrow as pa

from ..errors import Errors, KrisselError
from ..util.disk import damage

# Rows to a record batch: a lookup touches one batch, and saving what was loaded gives the same batches again.
BATCH_ROWS = 65_536


def write_table(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)


def read_table(
    path: Path, schema: pa.Schema, rows: int, defaults: Optional[Mapping[str, Any]] = None, *, verify: bool = True
) -> pa.Table:
    """The table at `path`, mapped, with the `schema` and number of `rows` it was written with.

    defaults: last columns that an older file may lack, and the value that stands in all their rows then.
    verify: check all that is in it (a tenth of a second a gigabyte), and not its outline alone.
    Raises KrisselError K524.
    """

    def damaged(problem: object) -> KrisselError:
        return KrisselError(Errors.K524.format(path=path.parent, problem=f"{path.name}: {problem}"))

    with damage(path, damaged):
        table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
        table.validate(full=verify)
    for name, value in (defaults or {}).items():
        if name not in table.schema.names:
            field = schema.field(name)
            table = table.append_column(field, pa.repeat(pa.scalar(value, field.type), len(table)))
    if table.schema != schema or len(table) != rows:
        found = f"{path.name} has {len(table)} rows of ({', '.join(table.schema.names)})"
        expected = f"expected {rows} of ({', '.join(schema.names)})"
        raise KrisselError(Errors.K524.format(path=path.parent, problem=f"{found}, {expected}"))
    if any(column.null_count for column in table.columns):
        raise damaged("it has rows without a value")
    return table


def on_disk(table: pa.Table, directory: Path) -> pa.Table:
    """The same table, mapped from a file without a name in `directory`, which goes with the last use of it."""
    with tempfile.TemporaryFile(dir=directory) as file_:
        # Arrow's own file is not closed, since that would close this one.
        with pa.ipc.new_file(pa.PythonFile(file_, "w"), table.schema) as writer:
            writer.write_table(table, max_chunksize=BATCH_ROWS)
        file_.flush()
        mapped = mmap.mmap(file_.fileno(), 0, access=mmap.ACCESS_READ)
    return pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).read_all()


def take_rows(table: pa.Table, rows: Any) -> pa.Table:
    """The `rows` of a table, an array of any shape, flattened.

    `Table.take` first joins all pieces of each column, which for a mapped file means to read and copy the whole of it.
    """
    rows = np.ravel(np.asarray(rows, dtype=np.int64))
    order = np.argsort(rows, kind="stable")
    taken = [piece.take(pa.array(places)) for piece, places in _pieces(table, rows[order])]
    if not taken:
        return table.schema.empty_table()
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_tables(taken).combine_chunks().take(pa.array(back))


def _pieces(table: pa.Table, rows: Any) -> Iterator[Tuple[pa.Table, Any]]:
    """The pieces of `table` that hold some of the ascending `rows`, and those rows within each."""
    lengths = [len(chunk) for chunk in table.column(0).chunks]
    ends = np.cumsum(lengths, dtype=np.int64)
    places = np.searchsorted(rows, np.concatenate([[0], ends]))
    if len(rows) and (rows[0] < 0 or rows[-1] >= len(table)):
        raise IndexError(f"rows from {rows[0]} to {rows[-1]} of a table of {len(table)}")
    for number in np.flatnonzero(np.diff(places)).tolist():
        start = int(ends[number]) - lengths[number]
        yield table.slice(start, lengths[number]), rows[places[number] : places[number + 1]] - start
