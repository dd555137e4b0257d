"""Records of an ontology file, plain or gzipped, and the problems of bad records."""

import json
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import chain, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ...util.inputs import (
    TO_CONVERT,
    Closing,
    InputFile,
    check_encoding,
    control_character,
    not_utf8,
    open_input,
)
from ...util.limits import RECORD
from ...util.tables import SEPARATOR
from ...util.xml_files import feed
from ..entity import Entity

Item = TypeVar("Item")
Record = TypeVar("Record")

# Prefix of references to species in Cellosaurus's OBO file.
TAXON_XREF = "NCBI_TaxID:"
_NUMBER = re.compile(r"\d+")
_OBO_IRI = re.compile(
    r"https?://(?:purl\.obolibrary\.org/obo/|"
    r"\S*[/#](?=[A-Za-z0-9.]+_\d))([A-Za-z][A-Za-z0-9.]+)_(\w+)"
)
_KNOWN_IRI = re.compile(
    r"https?://(snomed\.info/id|ncicb\.nci\.nih\.gov/xml/owl/EVS/Thesaurus\.owl)[/#](\w+)"
)
_PREFIXES = {"snomed.info/id": "SNOMEDCT", "ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl": "NCIT"}
_IRI = re.compile(r"https?://(?:\S*/)?([^/#\s]+?)(?:\.owl|\.rdf|\.ttl)?[/#]([^/#\s]+)")
# Bytes read to detect the format; comments and blank lines may come first.
PEEK_BYTES = 1 << 16
MAX_EXAMPLES = 3
# Pattern for the content of a JSON string.
JSON_TEXT = r'(?:[^"\\]|\\.)+'
# With more bad records than this, a file with more bad than good records counts as another format.
MAX_BAD_RECORDS = 20


class BadRecord(Exception):
    """A record cannot be used; the message states the problem and follows "line 7"."""


class FileHead:
    """The beginning of a plain or gzipped file, for the detection of its format.

    text: its first `PEEK_BYTES`. lines: stripped. first: the first line that is not blank, not an
        OBO comment (`!`) and does not name a separator (`SEPARATOR`). cells: its columns.

    Raises what `open_bytes` raises, and KrisselError K056 (UTF-16 without a byte order mark), K060
    (not text).
    """

    def __init__(self, path: str | Path) -> None:
        with open_bytes(path) as file_:
            data = file_.read(PEEK_BYTES)
        check_encoding(data, path)
        self.text = data.decode("utf-8-sig", errors="replace")
        self.lines = [line.strip() for line in self.text.splitlines()]
        firsts = (
            line
            for line in self.lines
            if line and not line.startswith("!") and not SEPARATOR.fullmatch(line)
        )
        self.first = next(firsts, "")
        self.cells = self.first.split("\t")


def open_bytes(path: str | Path) -> AbstractContextManager[InputFile]:
    """Open a plain or gzipped file to read it in this block, see `open_input`.

    Raises KrisselError K101 (no such file), K102 (damaged compression), and what `open_input`
    raises.
    """
    found = "a file, but it is a directory" if Path(path).is_dir() else "a plain or gzipped file"
    return open_input(path, Errors.K101.format(path=path, expected=found), Errors.K102)


def find_file(folder: Path, name: str) -> Path | None:
    """Return a file of a folder, plain or gzipped; None if it is missing."""
    return next((path for path in (folder / name, folder / f"{name}.gz") if path.is_file()), None)


def required_file(folder: Path, name: str, publisher: str) -> Path:
    """Return a file of a folder, plain or gzipped. Raises KrisselError K101 if it is missing."""
    path = find_file(folder, name)
    if path is None:
        raise KrisselError(
            Errors.K101.format(path=folder / name, expected=f"{publisher}'s {name} or {name}.gz")
        )
    return path


@contextmanager
def open_records(
    path: str | Path, format: str, expected: str, *, closing: Closing = ()
) -> Iterator["RecordFile"]:
    """Open a file of records for this block; at its end, `RecordFile.finish` reports what was left
    out.

    closing: possible ends of a complete last line without a line end.

    Raises what `open_bytes` and `RecordFile` raise.
    """
    with open_bytes(path) as file_:
        records = RecordFile(file_, format, expected)
        yield records
        records.finish(closing)


class RecordFile:
    """Reads lines and records, and counts good and bad ones.

    start: the first line of the current record, for records of several lines.
    """

    def __init__(self, file_: InputFile, format: str, expected: str) -> None:
        self.file = file_
        self.path = Path(file_.path)
        self.format = format
        self.expected = expected
        self.line = 0
        self.start = 0
        self.good = 0
        self.bad = 0
        self._size = 0
        self._examples: list[str] = []
        self._last_bad_line = 0
        self._last_problem = ""
        self._undecoded = False

    def lines(self) -> Iterator[str]:
        """Yield the decoded lines that are not blank, without their ends; `self.line` is the number
        of the latest, from 1.

        Raises KrisselError K055 if the lines of one record exceed the limit, and what
        `InputFile.lines` raises.
        """
        limit = RECORD.bytes
        for raw in self.file.lines():
            self.line = self.file.line
            self._size += len(raw)
            if self._size > limit:
                raise RECORD.exceeded(
                    self._size, self.path, f"the record that ends with line {self.line}", limit
                )
            try:
                text = raw.decode("utf-8-sig" if self.line == 1 else "utf8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                # State the conversion command only once.
                problem = not_utf8(raw, error)
                self.reject(
                    f"is {problem.removesuffix(TO_CONVERT) if self._undecoded else problem}"
                )
                self._undecoded = True
                continue
            if problem := control_character(text):
                self.reject(problem)
            elif text.strip():
                yield text

    def json(self) -> Any:
        """Read the file as one JSON value.

        Raises KrisselError K055 (larger than the limit for files), K102 (damaged).
        """
        try:
            return json.loads(self.file.read_all().decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            if isinstance(error, KrisselError):
                raise
            line = getattr(error, "lineno", 1)
            raise KrisselError(
                Errors.K102.format(path=self.path, line=line, problem=error)
            ) from error

    def parsed(
        self, items: Iterable[Item], parse: Callable[[Item], Record | None]
    ) -> Iterator[Record]:
        """Yield the result of `parse` for lines or other items; None skips an item on purpose.

        An item for which it raises `BadRecord` is rejected.
        """
        for item in items:
            try:
                record = parse(item)
            except BadRecord as error:
                self.reject(str(error), self.start)
                continue
            self.good += 1
            self.restart()
            if record is not None:
                yield record

    def restart(self) -> None:
        """Begin another record; earlier lines no longer count towards the limit."""
        self._size = 0

    def reject(self, problem: str, line: int = 0) -> None:
        """Count a bad record, at `line` or else the latest one.

        Raises KrisselError K103 if there are too many for a file of this format.
        """
        line = line or self.line
        self.bad += 1
        self.restart()
        if line >= self._last_bad_line:
            self._last_bad_line, self._last_problem = line, problem
        if len(self._examples) < MAX_EXAMPLES:
            self._examples.append(f"line {line} {problem}")
        if self.bad > MAX_BAD_RECORDS and self.bad > self.good:
            raise self.wrong_format(
                f"{problem}, as {self.bad} of the first {self.bad + self.good} records", line
            )

    def wrong_format(self, problem: str, line: int = 0) -> KrisselError:
        stated = {"path": self.path, "format": self.format, "expected": self.expected}
        return KrisselError(Errors.K103.format(line=line or self.line, problem=problem, **stated))

    def finish(self, closing: Closing = ()) -> None:
        """Warn about records that were left out (KW101), and about a last line that may be
        truncated (KW105).

        Raises KrisselError K102 if the last line is bad and has no line end (a truncated file),
        K103 if the file held no usable record.
        """
        if self.bad and self._last_bad_line == self.line and not self.file.ended:
            problem = f"the last line {self._last_problem} and has no line end"
            raise KrisselError(Errors.K102.format(path=self.path, line=self.line, problem=problem))
        if not self.good:
            raise self.wrong_format(
                self._last_problem or "ends it without a record", self._last_bad_line
            )
        if self.file.may_be_truncated(closing):
            warnings.warn(
                Warnings.KW105.format(path=self.path, line=self.line), KrisselWarning, stacklevel=5
            )
        if self.bad:
            examples = "; ".join(self._examples)
            total = self.good + self.bad
            message = Warnings.KW101.format(
                count=self.bad, total=total, path=self.path, examples=examples
            )
            warnings.warn(message, KrisselWarning, stacklevel=5)


def xml_records(records: RecordFile, handler: Any) -> Iterator[Any]:
    """Yield the items that an `XmlHandler` appends to its list `found` as the file is read, and set
    their first lines.
    """
    for _ in feed(records.file, handler):
        found, handler.found = handler.found, []
        for records.start, record in found:
            yield record


def groups(
    records: RecordFile, rows: Iterable[tuple[str, ...]]
) -> Iterator[tuple[str, list[tuple[str, ...]]]]:
    """Group adjacent rows with the same first cell.

    Raises KrisselError K055 if the rows of one group exceed the limit for records.
    """
    limit = RECORD.bytes
    for key, group in groupby(rows, key=itemgetter(0)):
        found, size = [], 0
        for row in group:
            # A cell takes more memory than its letters.
            size += sum(map(len, row)) + 8 * len(row)
            if size > limit:
                raise RECORD.exceeded(
                    size, records.path, f"{key!r}, up to line {records.line},", limit
                )
            found.append(row)
        yield key, found


def require_storable(entity: Entity) -> Entity:
    """Return the entity. Raises `BadRecord` for an escaped character that no text file can hold.

    Control characters other than white space are refused in ids and names only.
    """
    names = (entity.id, entity.name, *entity.aliases)
    lists = (entity.types, entity.tree_numbers, entity.xrefs, entity.alt_ids, entity.parents)
    try:
        "".join((*names, entity.definition, entity.species, entity.source, *chain(*lists))).encode(
            "utf8"
        )
    except UnicodeEncodeError:
        raise BadRecord("holds half a surrogate pair") from None
    for name in names:
        if problem := control_character(" ".join(name.split())):
            raise BadRecord(problem)
    return entity


def merge_names(entities: Iterable[Entity]) -> Iterator[Entity]:
    """Merge entities with the same id: the first is kept, with the names of later ones as aliases,
    and their alternative ids. All are held in memory.
    """
    first: dict[str, Entity] = {}
    names: dict[str, dict[str, None]] = {}
    ids: dict[str, dict[str, None]] = {}
    for entity in entities:
        first.setdefault(entity.id, entity)
        names.setdefault(entity.id, {}).update(dict.fromkeys(entity.names))
        if entity.alt_ids:
            ids.setdefault(entity.id, {}).update(dict.fromkeys(entity.alt_ids))
    for id_, (_, *aliases) in names.items():
        yield replace(first[id_], aliases=tuple(aliases), alt_ids=tuple(ids.get(id_, ())))


def unique(values: Iterable[str], *, without: str = "") -> tuple[str, ...]:
    """Return the distinct stripped, non-blank values in order."""
    return tuple(
        dict.fromkeys(value for value in map(str.strip, values) if value and value != without)
    )


def table_rows(
    records: RecordFile, columns: Sequence[str], filled: Sequence[str] | None = None
) -> Iterator[tuple[str, ...]]:
    """Yield the values of `columns` of a tab-separated table whose first line names them. Values in
    `filled` must not be blank.

    filled: None for all columns.
    """
    needed = columns if filled is None else filled
    lines = records.lines()
    header = next(lines, "\t".join(columns)).split("\t")
    for column in columns:
        if column not in header:
            raise records.wrong_format(f"has no column {column!r}")
    indices = [header.index(column) for column in columns]

    def parse(line: str) -> tuple[str, ...]:
        cells = line.split("\t")
        check_width(cells, len(header))
        values = tuple([cells[index].strip() for index in indices])
        for column, value in zip(columns, values, strict=True):
            if not value and column in needed:
                raise BadRecord(f"has nothing in column {column!r}")
        return values

    return records.parsed(lines, parse)


def check_width(cells: Sequence[str], width: int) -> None:
    """Raise `BadRecord` unless there are `width` cells."""
    if len(cells) != width:
        raise BadRecord(f"has {len(cells)} columns instead of {width}")


def curie(text: str) -> str:
    """Convert an IRI to a prefix and an id; return other texts unchanged.

    `…/obo/HP_0001677` becomes `HP:0001677`; otherwise, the prefix is the second-to-last part:
    `…/mesh/D009103` becomes `mesh:D009103`.
    """
    match = _OBO_IRI.fullmatch(text) or _KNOWN_IRI.fullmatch(text) or _IRI.fullmatch(text)
    return f"{_PREFIXES.get(match[1], match[1])}:{match[2]}" if match else text


def json_text(escaped: str) -> str:
    """Decode the content of a JSON string, on one line; return invalid JSON unchanged."""
    try:
        return " ".join(str(json.loads(f'"{escaped}"', strict=False)).split())
    except ValueError:
        return escaped


def species_name(references: Iterable[str]) -> str:
    """Return the scientific name in `NCBI_TaxID=9606; ! Homo sapiens (Human)`, or the tax id of a
    reference without name.

    The names of a hybrid are joined as in the source: `Homo sapiens x Mus musculus`.
    """
    names = []
    for reference in references:
        head, _, comment = reference.partition("!")
        number = _NUMBER.search(head)
        names.append(comment.partition(" (")[0].strip() or (number[0] if number else ""))
    return " x ".join(dict.fromkeys(filter(None, names)))
