"""Unlabelled text as one stream, independent of the file formats."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Errors, KrisselError
from ..util.disk import coded_io
from ..util.inputs import JSON_CLOSING, InputFile
from ..util.limits import FILE, RECORD
from .annotation import AnnotatedText
from .files import (
    decoded_lines,
    has_surrogate,
    json_object,
    open_archive,
    open_binary,
    open_lines,
    read_records,
)
from .pubmed import read_pubmed
from .readers.belb import read_bioc_json
from .readers.bioc import read_bioc
from .readers.pubtator import read_pubtator
from .report import CorpusReport, reporting

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

JSONL_SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".ndjson.gz")
PUBTATOR_SUFFIXES = (".pubtator", ".pubtator.gz", ".pubtator.txt", ".pubtator.txt.gz")
PLAIN_SUFFIXES = (".txt", ".txt.gz")
ARCHIVE_SUFFIXES = (".tar.gz", ".tgz")
PUBMED_SUFFIXES = (".xml", ".xml.gz")
BIOC_JSON_SUFFIXES = (".bioc.json", ".bioc.json.gz")
PARQUET_SUFFIXES = (".parquet",)
SUFFIXES = (
    *JSONL_SUFFIXES,
    *PUBTATOR_SUFFIXES,
    *PLAIN_SUFFIXES,
    *ARCHIVE_SUFFIXES,
    *PUBMED_SUFFIXES,
    *BIOC_JSON_SUFFIXES,
    *PARQUET_SUFFIXES,
)
EXPECTED = f"a file ending in {', '.join(SUFFIXES)}, or a folder of them"
# The columns that are read from a Parquet file.
COLUMNS = ("id", "title", "text")
BATCH_ROWS = 1024
# The root element of BioC, whose files are named like PubMed's.
_BIOC = re.compile(rb"<collection[\s>]")


class Text(NamedTuple):
    """A text: an abstract or a paragraph.

    id: from the source, or `file name:line`; for an archive `member name:line`.
    source: the file; for an archive `file!member`.
    line: line of the text in `source`, from 1 (in a Parquet file, the row).
    """

    id: str
    text: str
    source: str
    line: int


def text_files(path: Path) -> list[Path]:
    """Return the file, or all files below the folder that `read_texts` reads, sorted by path.

    Raises KrisselError K201 if there is none.
    """
    files = [path]
    if path.is_dir():
        files = sorted(
            file_ for file_ in path.rglob("*") if file_.is_file() and _has_suffix(file_, SUFFIXES)
        )
        path = path / "*"
    if not files or not files[0].is_file():
        raise KrisselError(Errors.K201.format(path=path, expected=EXPECTED))
    return files


def is_pubmed(path: Path) -> bool:
    """Return whether a file of texts is XML of PubMed, or of BioC, by its name."""
    return _has_suffix(path, PUBMED_SUFFIXES)


@reporting
def read_texts(
    path: str | Path, *, report: CorpusReport, deleted: list[str] | None = None
) -> Iterator[Text]:
    """Yield the texts of a file, or of all such files below a folder, sorted by path.

    - `.jsonl`: one object per line with "text" and, optionally, "title" and "id". The text is
    `title + " " + text`, or the one that is given. Without "id" it is `file name:line`.
    - `.txt`: one paragraph per line; blank lines and white space around a line are dropped.
    - `.pubtator`, `.pubtator.txt`: one text per document, title and abstract; annotations are not
    read.
    - `.tar.gz`: the `.txt` files in it, in the archive's order, each read like a `.txt` file.
    - `.xml`: PubMed's baseline or updates (`pubmed.read_pubmed`). Every version of an article is a
    text. Or BioC, by its root element: one text per document, as for PubTator.
    - `.bioc.json`: BioC's JSON, likewise.
    - `.parquet`: a table with the columns "text" and, optionally, "title" and "id", like those of
    JSONL.

    All but archives and Parquet may be compressed with gzip. The order is always the same.

    report: counts `texts`, `bad_records` (JSONL lines and Parquet rows that are not an object, or
        hold no text) and `blank_texts` (PubMed articles without title and abstract, and documents
        without text).
    deleted: the ids of articles that PubMed's updates delete are appended to this list, after each
        file.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (no text),
    K209 (the first line of a JSONL file is not an object), K210 (unknown format), K211
    (damaged archive), K213 (damaged Parquet file, or one without texts), K007 (truncated or
    malformed XML), K008 (other XML), K009 (entity declarations).
    """
    deleted = [] if deleted is None else deleted
    for file_ in text_files(Path(path)):
        n_before = report["texts"]
        n_deleted = len(deleted)
        for text in _read_file(file_, report, deleted):
            report.count("texts")
            yield text
        # An update may consist of deletions only.
        if report["texts"] == n_before and len(deleted) == n_deleted:
            raise KrisselError(
                Errors.K204.format(
                    path=file_, what="text", line="0 or more blank", expected=EXPECTED
                )
            )


def _has_suffix(path: Path, suffixes: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(suffixes)


def _read_file(path: Path, report: CorpusReport, deleted: list[str]) -> Iterator[Text]:
    if is_pubmed(path):
        with open_binary(path, EXPECTED) as file_:
            if _BIOC.search(file_.read(4096)):
                return _of_documents(read_bioc(path, report=report), report)
        return (
            Text(id_, text, str(path), line)
            for id_, text, line in read_pubmed(path, report, deleted)
        )
    for suffixes, read in (
        (ARCHIVE_SUFFIXES, _read_archive),
        (JSONL_SUFFIXES, _read_jsonl),
        # PubTator comes before plain text, since its names may end in `.txt`.
        (PUBTATOR_SUFFIXES, _read_pubtator),
        (BIOC_JSON_SUFFIXES, _read_bioc_json),
        (PLAIN_SUFFIXES, _read_plain),
        (PARQUET_SUFFIXES, _read_parquet),
    ):
        if _has_suffix(path, suffixes):
            return read(path, report)
    raise KrisselError(Errors.K210.format(path=path, expected=", ".join(SUFFIXES)))


def _read_jsonl(path: Path, report: CorpusReport) -> Iterator[Text]:
    def parse(line: str, number: int) -> Text | None:
        return _text_of_record(json_object(line), path, number, report)

    first_error, closing = Errors.K209, JSON_CLOSING
    return filter(
        None,
        read_records(
            path, parse, report, expected=EXPECTED, first_error=first_error, closing=closing
        ),
    )


def _read_pubtator(path: Path, report: CorpusReport) -> Iterator[Text]:
    return _of_documents(read_pubtator(path, report=report), report)


def _read_bioc_json(path: Path, report: CorpusReport) -> Iterator[Text]:
    return _of_documents(read_bioc_json(path, report=report), report)


def _of_documents(documents: Iterable[AnnotatedText], report: CorpusReport) -> Iterator[Text]:
    for each in documents:
        if each.text.strip():
            yield Text(each.id, each.text, each.source, each.line)
        else:
            report.count("blank_texts")


def _read_plain(path: Path, report: CorpusReport) -> Iterator[Text]:
    with open_lines(path, EXPECTED, report=report) as lines:
        yield from _paragraphs(lines, path.name, str(path))


def _read_archive(path: Path, report: CorpusReport) -> Iterator[Text]:
    with open_archive(path, EXPECTED) as members:
        for member in members:
            if member.name.suffix.lower() == ".txt":
                lines = decoded_lines(InputFile(member.source, member.content))
                yield from _paragraphs(lines, member.name.stem, member.source)


def _paragraphs(lines: Iterator[tuple[int, str]], name: str, source: str) -> Iterator[Text]:
    return (
        Text(f"{name}:{number}", text, source, number)
        for number, line in lines
        if (text := line.strip())
    )


def _text_of_record(
    record: Mapping[str, Any], path: Path, line: int, report: CorpusReport
) -> Text | None:
    """Return the text of a record with "text" and, optionally, "title" and "id"; count a bad record
    and return None.
    """
    parts = [record.get("title") or "", record.get("text") or ""]
    id_ = f"{path.name}:{line}" if record.get("id") in (None, "") else str(record["id"])
    if not all(isinstance(part, str) for part in parts) or not any(part.strip() for part in parts):
        problem = 'no "text"'
    elif any(map(has_surrogate, (id_, *parts))):
        problem = "a lone surrogate"
    else:
        return Text(id_, " ".join(part for part in parts if part.strip()), str(path), line)
    report.record_issue("bad_records", str(path), line, problem)
    return None


def _read_parquet(path: Path, report: CorpusReport) -> Iterator[Text]:
    """Yield the texts of a Parquet file with the columns of JSONL records; other columns are not
    read.

    One packed row group is in memory at a time, and as many of its texts as the limit for records
    allows.

    Raises KrisselError K213 (damaged, or without such columns), K055 (a text exceeds the limit).
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
        # A dictionary unpacks repeated texts once.
        with pq.ParquetFile(path, read_dictionary=texts) as file_:
            if not {"title", "text"} & set(columns):
                raise KrisselError(
                    Errors.K213.format(path=path, problem=f"its columns are {names}")
                )
            _check_size(file_, path)
            for batch in file_.iter_batches(BATCH_ROWS, columns=columns):
                for record in _records(batch, path, row):
                    row += 1
                    if text := _text_of_record(record, path, row, report):
                        yield text
    except KrisselError:
        raise
    except (OSError, ValueError, OverflowError, pa.ArrowException) as error:
        problem = f"after row {row}: {type(error).__name__}: {error}"
        raise KrisselError(Errors.K213.format(path=path, problem=problem)) from error


def _check_size(file_: "pq.ParquetFile", path: Path) -> None:
    """Raise KrisselError K055 for a row group that unpacks to far more than the file can hold."""
    packed = path.stat().st_size
    for number in range(file_.metadata.num_row_groups):
        # Column metadata is not read: if it is damaged, Arrow crashes the process.
        unpacked = file_.metadata.row_group(number).total_byte_size
        FILE.check_unpacked(unpacked, packed, path, f"row group {number + 1}")


def _records(batch: "pa.RecordBatch", path: Path, row: int) -> Iterator[dict[str, Any]]:
    largest = max((_largest(column) for column in batch.columns), default=0)
    RECORD.check(largest, path, f"a row from {row + 1} to {row + batch.num_rows}")
    for cells in zip(*batch.columns, strict=True):
        yield {name: cell.as_py() for name, cell in zip(batch.schema.names, cells, strict=True)}


def _largest(column: "pa.Array") -> int:
    """Return the size in bytes of the largest value of a text column, or of all values of another
    column.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    values = column.dictionary if isinstance(column, pa.DictionaryArray) else column
    if not (pa.types.is_string(values.type) or pa.types.is_large_string(values.type)):
        return int(values.nbytes)
    return int(pc.max(pc.binary_length(values)).as_py() or 0)
