"""Unlabelled text in the columns of a Parquet file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator

from ..errors import Errors, KrisselError
from ..util.disk import coded_io
from ..util.limits import FILE, RECORD
from .report import CorpusReport
from .text import Text, text_of_record

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

COLUMNS = ("id", "title", "text")
BATCH_ROWS = 1024


def read_parquet(path: Path, report: CorpusReport) -> Iterator[Text]:
    """The texts of a file with the columns of a JSONL record's keys; other columns are not read.

    One row group, as it is packed, is in memory at a time, and of its texts as many as the limit of records allows.

    Raises KrisselError K213 (damaged, or without such columns), K055 (a text larger than the limit).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    with coded_io(path):
        path.open("rb").close()
    row = 0
    try:
        schema = pq.read_schema(path)
        names = schema.names
        columns = [name for name in COLUMNS if name in names]
        texts = [name for name in columns if pa.types.is_string(schema.field(name).type)]
        # A text that many rows have is unpacked once.
        with pq.ParquetFile(path, read_dictionary=texts) as file_:
            if not {"title", "text"} & set(columns):
                raise KrisselError(Errors.K213.format(path=path, problem=f"its columns are {names}"))
            _check_size(file_, path)
            for batch in file_.iter_batches(BATCH_ROWS, columns=columns):
                for record in _records(batch, path, row):
                    row += 1
                    if text := text_of_record(record, path.name, str(path), row, report):
                        yield text
    except KrisselError:
        raise
    except (OSError, ValueError, OverflowError, pa.ArrowException) as error:
        problem = f"after row {row}: {type(error).__name__}: {error}"
        raise KrisselError(Errors.K213.format(path=path, problem=problem)) from error


def _check_size(file_: "pq.ParquetFile", path: Path) -> None:
    """Raises KrisselError K055 for a row group that unpacks to far more than the file can hold."""
    packed = path.stat().st_size
    for number in range(file_.metadata.num_row_groups):
        # What is said of its columns is not asked for: where that is damaged, Arrow ends the process.
        unpacked = file_.metadata.row_group(number).total_byte_size
        FILE.check_unpacked(unpacked, packed, path, f"row group {number + 1}")


def _records(batch: "pa.RecordBatch", path: Path, row: int) -> Iterator[Dict[str, Any]]:
    largest = max((_largest(column) for column in batch.columns), default=0)
    RECORD.check(largest, path, f"a row from {row + 1} to {row + batch.num_rows}")
    step = max(1, min(BATCH_ROWS, RECORD.bytes // max(1, largest)))
    for start in range(0, batch.num_rows, step):
        yield from batch.slice(start, step).to_pylist()


def _largest(column: "pa.Array") -> int:
    """The bytes of the largest value of a column of texts; of all of another."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return int(values.nbytes)
    return int(pc.max(pc.binary_length(values)).as_py() or 0)
