"""The lines of an ontology file, plain or gzipped, and what is wrong with some of them."""

import gzip
import warnings
from pathlib import Path
from typing import BinaryIO, Iterable, Iterator, List, Optional, Sequence, Tuple, Union, cast

from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ...util.compressed import DAMAGED, GZIP_MAGIC

FORMATS = (
    "medic",
    "obo",
    "jsonl",
    "mesh",
    "mesh-tree",
    "phrases",
    "zeshel",
    "gene-info",
    "taxonomy",
    "cellosaurus",
    "cellosaurus-tsv",
    "ctd",
    "umls",
    "obographs",
    "mesh-xml",
)
# How much of a file is read to tell its format; comments and blank lines may come first.
PEEK_BYTES = 1 << 16
PLACES_SHOWN = 3
# Above this many bad records, a file with more bad than good ones is taken for one of another format.
BAD_RECORDS_ALLOWED = 20


def open_bytes(path: Union[str, Path]) -> BinaryIO:
    """Open a plain or gzipped file, told apart by its first bytes.

    Raises KrisselError K101 when there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        found = "a file, but it is a directory" if path.is_dir() else "a plain or gzipped file"
        raise KrisselError(Errors.K101.format(path=path, expected=found))
    file_ = path.open("rb")
    magic = file_.read(2)
    file_.seek(0)
    if magic == GZIP_MAGIC:
        file_.close()
        return cast(BinaryIO, gzip.open(path, "rb"))
    return file_


def read_start(path: Union[str, Path]) -> bytes:
    """The first `PEEK_BYTES` of a plain or gzipped file.

    Raises KrisselError K101 (no such file), K102 (damaged compression).
    """
    with open_bytes(path) as file_:
        try:
            return file_.read(PEEK_BYTES)
        except DAMAGED as error:
            raise KrisselError(Errors.K102.format(path=path, line=1, problem=error)) from error


class RecordFile:
    """Reads lines, keeps count of good and bad records, and says at the end what was left out.

    A reader iterates over `lines()`, calls `accept()` or `reject(problem)` for each record, and `finish()` at the end.
    """

    def __init__(self, path: Union[str, Path], format: str, expected: str) -> None:
        self.path = Path(path)
        self.format = format
        self.expected = expected
        self.line = 0
        self.good = 0
        self.bad = 0
        self._places: List[str] = []
        self._last_bad_line = 0
        self._last_problem = ""
        self._ends_with_newline = True

    def lines(self) -> Iterator[str]:
        """The decoded lines without their ends; `self.line` is the number of the latest one, from 1.

        Raises KrisselError K102 when the compressed data is damaged or ends early.
        """
        with open_bytes(self.path) as file_:
            try:
                for raw in file_:
                    self.line += 1
                    self._ends_with_newline = raw.endswith(b"\n")
                    try:
                        text = raw.decode("utf-8-sig" if self.line == 1 else "utf8")
                    except UnicodeDecodeError as error:
                        self.reject(f"is not UTF-8 (byte {error.start + 1})")
                        continue
                    yield text.rstrip("\r\n")
            except DAMAGED as error:
                raise KrisselError(Errors.K102.format(path=self.path, line=self.line + 1, problem=error)) from error

    def accept(self) -> None:
        self.good += 1

    def reject(self, problem: str, line: Optional[int] = None) -> None:
        """Count a record that cannot be used.

        Raises KrisselError K103 when so many are bad that the file must be of another format.
        """
        line = line or self.line
        self.bad += 1
        if line >= self._last_bad_line:
            self._last_bad_line, self._last_problem = line, problem
        if len(self._places) < PLACES_SHOWN:
            self._places.append(f"line {line} {problem}")
        if self.bad > BAD_RECORDS_ALLOWED and self.bad > self.good:
            raise self.wrong_format(f"{problem}, as {self.bad} of the first {self.bad + self.good} records", line)

    def wrong_format(self, problem: str, line: Optional[int] = None) -> KrisselError:
        return KrisselError(
            Errors.K103.format(
                path=self.path,
                format=self.format,
                line=line or self.line,
                problem=problem,
                expected=self.expected,
                formats=", ".join(FORMATS),
            )
        )

    def finish(self) -> None:
        """Warn of what was left out (KW101).

        Raises KrisselError K102 when the last line is bad and has no line end (the file was cut there), K103 when
        the file held no usable record.
        """
        if self.bad and self._last_bad_line == self.line and not self._ends_with_newline:
            problem = f"the last line {self._last_problem} and has no line end"
            raise KrisselError(Errors.K102.format(path=self.path, line=self.line, problem=problem))
        if not self.good:
            raise self.wrong_format(self._last_problem or "ends it without a record", self._last_bad_line or None)
        if self.bad:
            places = "; ".join(self._places)
            total = self.good + self.bad
            message = Warnings.KW101.format(count=self.bad, total=total, path=self.path, places=places)
            warnings.warn(message, KrisselWarning, stacklevel=3)


def unique(values: Iterable[str], *, without: str = "") -> Tuple[str, ...]:
    """The stripped, non-blank values, each once, in order."""
    return tuple(dict.fromkeys(value for value in map(str.strip, values) if value and value != without))


def table_rows(records: RecordFile, columns: Sequence[str]) -> Iterator[Tuple[str, ...]]:
    """The values of `columns` in a tab-separated table whose first line names them, none of them blank."""
    places: List[int] = []
    width = 0
    for line in records.lines():
        cells = line.split("\t")
        if not places:
            missing = [column for column in columns if column not in cells]
            if missing:
                raise records.wrong_format(f"has no column {missing[0]!r}")
            places = [cells.index(column) for column in columns]
            width = len(cells)
            continue
        if not line.strip():
            continue
        if len(cells) != width:
            records.reject(f"has {len(cells)} columns instead of {width}")
            continue
        values = tuple(cells[place].strip() for place in places)
        if not all(values):
            records.reject(f"has nothing in column {columns[values.index('')]!r}")
            continue
        records.accept()
        yield values
