"""Tables of ids and labels: CSV and TSV, whose cells keep their offsets, and Parquet.

The `csv` module does not say where a cell begins, which a correction in place needs.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from ..errors import Errors, KrisselError, wrong_setting
from ..util.inputs import coded_reading
from ..util.limits import FILE
from ..util.tables import DELIMITERS, SEPARATOR, find_column
from .keys import LABELS, paired_keys
from .pair import Cell, Edit, IsId, Pair, PairFile, read_text

# Maximum characters of a quoted cell, so that an unclosed quote costs little.
MAX_CELL = 1 << 16
Columns = list[tuple[int, int | None]]


class TextTable(PairFile):
    """A table with a header, as text. Lines before it that begin with `#` are comments.

    id_column, label_column: "" for all columns with usual names (`paired_keys`).
    """

    def __init__(self, path: Path, *, id_column: str = "", label_column: str = "") -> None:
        super().__init__(path, read_text(path))
        self._asked = id_column, label_column

    @cached_property
    def _delimiter(self) -> str:
        start = self.text[self._start :]
        line = start.partition("\n")[0]
        return max(DELIMITERS, key=line.count)

    @cached_property
    def _start(self) -> int:
        """Offset of the header."""
        at = 1 if self.text.startswith("\ufeff") else 0
        for line in self.text[at:].splitlines(keepends=True):
            bare = line.strip()
            # "#ID<TAB>name" is a header.
            is_comment = bare.startswith("#") and not any(each in bare for each in "\t,")
            if bare and not is_comment and not _is_sssom(bare) and not SEPARATOR.fullmatch(bare):
                break
            at += len(line)
        return at

    def pairs(self, is_id: IsId) -> Iterator[Pair]:
        rows = _rows(self.text, self._start, self._delimiter)
        header = [cell.value.strip() for cell in next(rows, [])]
        columns = choose_columns(self.path, header, *self._asked)
        for row in rows:
            yield from _row_pairs(dict(enumerate(row)), columns, is_id)

    def encode(self, raw: str, value: str) -> str:
        needs_quotes = any(each in value for each in ('"', "\n", "\r", self._delimiter))
        if raw.startswith('"') or needs_quotes:
            return '"' + value.replace('"', '""') + '"'
        return value


class ParquetTable(PairFile):
    """A Parquet file, whose columns are rewritten in the corrected copy.

    A cell's start is its row, and its end the number of its column.
    """

    def __init__(self, path: Path, *, id_column: str = "", label_column: str = "") -> None:
        super().__init__(path, "")
        if not path.is_file():
            raise KrisselError(Errors.K201.format(path=path, expected="a Parquet file"))
        self._asked = id_column, label_column

    @cached_property
    def _table(self) -> Any:
        from pyarrow import parquet

        with coded_reading(self.path):
            FILE.check(self.path.stat().st_size, self.path, "it")
            return parquet.read_table(self.path)

    def pairs(self, is_id: IsId) -> Iterator[Pair]:
        table = self._table
        columns = choose_columns(self.path, table.column_names, *self._asked)
        used = sorted({at for pair in columns for at in pair if at is not None})
        values = [table.column(at).to_pylist() for at in used]
        for row, cells in enumerate(zip(*values, strict=True)):
            texts = {
                at: Cell(value if isinstance(value, str) else "", row, at)
                for at, value in zip(used, cells, strict=True)
            }
            yield from _row_pairs(texts, columns, is_id)

    def position(self, cell: Cell) -> tuple[int, int]:
        """Return row and column of a cell, from 1."""
        return cell.start + 1, cell.end + 1

    def can_replace(self, edit: Edit) -> bool:
        return True

    def save(self, edits: Sequence[Edit], path: Path) -> None:
        import pyarrow
        from pyarrow import parquet

        table = self._table
        for column in {edit.cell.end for edit in edits}:
            values = table.column(column).to_pylist()
            for (_, row, at), value in edits:
                if at == column:
                    values[row] = value
            field = table.schema.field(column)
            table = table.set_column(column, field, pyarrow.array(values, field.type))
        parquet.write_table(table, path)


def _row_pairs(row: dict[int, Cell], columns: Columns, is_id: IsId) -> Iterator[Pair]:
    """Yield the pairs of a row. Without a label column, any other cell may be the label."""
    for id_at, label_at in columns:
        id_ = row.get(id_at)
        if id_ is None or not id_.value.strip():
            continue
        if label_at is not None:
            label = row.get(label_at)
            has_label = label is not None and label.value.strip()
            yield Pair(id_, (label,), label) if label and has_label else Pair(id_)
        elif is_id(id_.value.strip()):
            # Not so a predicate, skos:exactMatch.
            others = (cell for at, cell in row.items() if at != id_at)
            yield Pair(id_, tuple(cell for cell in others if cell.value.strip()))


def choose_columns(path: Path, header: Sequence[str], id_column: str, label_column: str) -> Columns:
    """Return the indices of the columns of ids, each with that of its labels.

    Raises KrisselError K006 if there is none.
    """
    asked = {"id_column": id_column, "label_column": label_column}
    found = {name: find_column(header, [each]) for name, each in asked.items() if each}
    for name, index in found.items():
        if index is None:
            raise _no_column(path, header, name, asked[name])
    if id_column:
        label = found.get("label_column", _label_of(header, found["id_column"]))
        return [(found["id_column"] or 0, label)]
    columns = paired_keys(header)
    if label_column:
        columns = columns[:1]
    if not columns:
        raise _no_column(path, header, "id_column", "")
    if len(columns) == 1:
        # `hpo_id` and `name` belong together if there are no others.
        index, label = columns[0]
        only = found.get("label_column", find_column(header, LABELS) if label is None else label)
        columns = [(index, only)]
    return columns


def _label_of(header: Sequence[str], id_at: int | None) -> int | None:
    labels = dict(paired_keys(header))
    return labels.get(id_at or 0, find_column(header, LABELS))


def _no_column(path: Path, header: Sequence[str], setting: str, asked: str) -> KrisselError:
    expected = f"one of the columns of '{path}': {', '.join(map(repr, header))}"[:300]
    return wrong_setting(setting, asked, expected)


def _is_sssom(line: str) -> bool:
    """Return whether a line is metadata of SSSOM, which may contain commas."""
    return re.match(r"#\s*[\w-]+:|#\s+-", line) is not None


def _rows(text: str, at: int, delimiter: str) -> Iterator[list[Cell]]:
    """Yield the cells of each row that is not blank."""
    ends = re.escape(delimiter) + r"\r\n"
    quoted = rf'"(?:[^"]|""){{0,{MAX_CELL}}}"(?=[{ends}]|\Z)'
    cell = re.compile(rf"({quoted}|[^{ends}]*)([{re.escape(delimiter)}]|\r\n|\n|\r|\Z)")
    row: list[Cell] = []
    while at <= len(text) and (match := cell.match(text, at)):
        raw = match[1]
        value = raw[1:-1].replace('""', '"') if raw[:1] == '"' == raw[-1:] and len(raw) > 1 else raw
        row.append(Cell(value, *match.span(1)))
        at = match.end()
        if match[2] != delimiter:
            if any(each.value.strip() for each in row):
                yield row
            row = []
            if not match[2]:
                return
