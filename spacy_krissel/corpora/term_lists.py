"""Lists of terms to map: a column of a table, or one term per line."""

import warnings
from collections.abc import Iterator, Mapping
from itertools import chain, dropwhile
from pathlib import Path
from typing import NamedTuple

from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..util.escape import one_line
from ..util.tables import DELIMITERS, IDS, NAMES, SEPARATOR, csv_rows, find_column
from .files import open_lines
from .report import CorpusReport

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
# Usual column names, most specific first.
USUAL_COLUMNS = {
    "label_column": ("label", "subjectlabel", "term", *NAMES),
    "id_column": ("id", "subjectid", *IDS),
}
EXPECTED = (
    f"a table ({', '.join(TABLES)}) with a header and a column of terms, or a text file with one "
    "term per line"
)


class Term(NamedTuple):
    """A term with its own id, "" for none. others: the non-empty cells of other columns, by column
    name.
    """

    label: str
    id: str
    others: Mapping[str, str] = {}


def read_terms(
    path: Path, report: CorpusReport, *, label_column: str = "", id_column: str = ""
) -> Iterator[Term]:
    """Yield the terms in the order of the file, which is read as a stream. Blank lines of a text
    file are left out.

    label_column, id_column: columns of a table; case, spaces and underscores do not matter. "" for
        the first usual name (`USUAL_COLUMNS`) in the header; terms default to the only column. If
        either is set, a file with any name is a table.
    report: counts `bad_records`: unreadable rows and rows without a term.

    Raises KrisselError K006 (no such column), K204 (no term), and what `open_lines` raises. Warns
    KW212 about a header that may be a term.
    """
    found, number = False, 0

    def bad(number: int, problem: str) -> None:
        report.record_issue("bad_records", str(path), number, problem)

    with open_lines(path, EXPECTED, report=report, skip=bad) as lines:
        if not (label_column or id_column or path.name.lower().endswith(TABLES)):
            for line_number, line in lines:
                number = line_number
                if label := one_line(line).strip():
                    found = True
                    yield Term(label, "")
        elif first := next(
            dropwhile(lambda line: SEPARATOR.fullmatch(line[1].strip("\ufeff\r\n ")), lines), None
        ):
            table = csv_rows(chain([first], lines), max(DELIMITERS, key=first[1].count))
            header: list[str] = []
            for number, row in table:
                if isinstance(row, str):
                    bad(number, row)
                elif not header:
                    header, (label_at, id_at) = row, _columns(path, row, label_column, id_column)
                    others = _named(header, label_at, id_at)
                elif row:
                    cells = {index: one_line(cell).strip() for index, cell in enumerate(row)}
                    if label := cells.get(label_at, ""):
                        found = True
                        id_ = "" if id_at is None else cells.get(id_at, "")
                        yield Term(
                            label,
                            id_,
                            {name: cells[at] for at, name in others.items() if cells.get(at)},
                        )
                    else:
                        bad(number, "no term")
    if not found:
        raise KrisselError(
            Errors.K204.format(path=path, what="term", line=number, expected=EXPECTED)
        )


def _named(header: list[str], *left_out: int | None) -> dict[int, str]:
    """Return the other columns by index, each with a unique name."""
    found: dict[int, str] = {}
    for index, name in enumerate(map(str.strip, header)):
        if index not in left_out:
            is_new = name and name not in found.values()
            found[index] = name if is_new else f"{name or 'column'} {index + 1}"
    return found


def _columns(
    path: Path, header: list[str], label_column: str, id_column: str
) -> tuple[int, int | None]:
    """Return the indices of the label and id columns."""
    found = {}
    for setting, asked in (("label_column", label_column), ("id_column", id_column)):
        found[setting] = index = find_column(header, [asked] if asked else USUAL_COLUMNS[setting])
        if index is None and (asked or (setting == "label_column" and len(header) > 1)):
            expected = f"one of the columns of '{path}': {', '.join(map(repr, header))}"[:300]
            raise wrong_setting(setting, asked, expected)
    if found["label_column"] is None:
        message = Warnings.KW212.format(path=path, header=one_line(header[0])[:80])
        warnings.warn(message, KrisselWarning, stacklevel=4)
    return found["label_column"] or 0, found["id_column"]
