"""Unlabelled text in the columns of a Parquet file."""

from pathlib import Path
from typing import Iterator

from ..errors import Errors, KrisselError
from .report import CorpusReport
from .text import Text, text_of_record

COLUMNS = ("id", "title", "text")
BATCH_ROWS = 1024


def read_parquet(path: Path, report: CorpusReport) -> Iterator[Text]:
    """The texts of a file with the columns of a JSONL record's keys; other columns are not read.

    One row group is in memory at a time.

    Raises KrisselError K213 (damaged, or without such columns).
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file_:
            names = file_.schema_arrow.names
            columns = [name for name in COLUMNS if name in names]
            if not {"title", "text"} & set(columns):
                raise KrisselError(Errors.K213.format(path=path, problem=f"its columns are {names}"))
            row = 0
            for batch in file_.iter_batches(BATCH_ROWS, columns=columns):
                for record in batch.to_pylist():
                    row += 1
                    if text := text_of_record(record, path.name, str(path), row, report):
                        yield text
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise KrisselError(Errors.K213.format(path=path, problem=error)) from error
