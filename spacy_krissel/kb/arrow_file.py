"""Arrow tables as memory-mapped files."""

from pathlib import Path

import pyarrow as pa

from ..errors import Errors, KrisselError

# Rows to a record batch: a lookup touches one batch, and saving what was loaded gives the same batches again.
BATCH_ROWS = 65_536


def write_table(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)


def read_table(path: Path, schema: pa.Schema, rows: int) -> pa.Table:
    """The table at `path`, mapped, with the `schema` and number of `rows` it was written with.

    Raises KrisselError K524.
    """
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise KrisselError(Errors.K524.format(path=path.parent, problem=f"{path.name}: {error}")) from None
    if table.schema != schema or len(table) != rows:
        found = f"{path.name} has {len(table)} rows of ({', '.join(table.schema.names)})"
        expected = f"expected {rows} of ({', '.join(schema.names)})"
        raise KrisselError(Errors.K524.format(path=path.parent, problem=f"{found}, {expected}"))
    return table
