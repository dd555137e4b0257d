"""Arrow tables as memory-mapped files."""

from pathlib import Path
from typing import Any, Mapping, Optional

import pyarrow as pa

from ..errors import Errors, KrisselError

# Rows to a record batch: a lookup touches one batch, and saving what was loaded gives the same batches again.
BATCH_ROWS = 65_536


def write_table(table: pa.Table, path: Path) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_ROWS)


def read_table(path: Path, schema: pa.Schema, rows: int, defaults: Optional[Mapping[str, Any]] = None) -> pa.Table:
    """The table at `path`, mapped, with the `schema` and number of `rows` it was written with.

    defaults: last columns that an older file may lack, and the value that stands in all their rows then.
    Raises KrisselError K524.
    """
    try:
        table = pa.ipc.open_file(pa.memory_map(str(path), "r")).read_all()
    except (pa.ArrowInvalid, OSError) as error:
        raise KrisselError(Errors.K524.format(path=path.parent, problem=f"{path.name}: {error}")) from None
    for name, value in (defaults or {}).items():
        if name not in table.schema.names:
            field = schema.field(name)
            table = table.append_column(field, pa.repeat(pa.scalar(value, field.type), len(table)))
    if table.schema != schema or len(table) != rows:
        found = f"{path.name} has {len(table)} rows of ({', '.join(table.schema.names)})"
        expected = f"expected {rows} of ({', '.join(schema.names)})"
        raise KrisselError(Errors.K524.format(path=path.parent, problem=f"{found}, {expected}"))
    return table
