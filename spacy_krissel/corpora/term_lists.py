"""Lists of terms to map: a column of a table, or a term a line."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..errors import Errors, KrisselError
from ..util.csv_rows import csv_rows
from ..util.escape import one_line
from .files import open_lines
from .report import CorpusReport

TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
LABELS, IDS = ("label", "subject_label", "term", "name"), ("id", "subject_id")
EXPECTED = f"a table ({', '.join(TABLES)}) with a header and a column of terms, or a text file with a term a line"


class Term(NamedTuple):
    """A term on one line, with its own id, "" where it has none."""

    label: str
    id: str


def read_terms(path: Path, report: CorpusReport, *, label_column: str = "", id_column: str = "") -> Iterator[Term]:
    """The terms in the order of the file, which is not held. Blank lines of a text file are left out.

    label_column, id_column: of a table, in any case; "" for the first of `LABELS` that is there, else the only column,
        and for the first of `IDS`, if any. With either, a file of any name is a table.
    report: counts `bad_records`: rows without a term, or that cannot be read.

    Raises KrisselError K006 (no such column), K204 (no term), and what `open_lines` raises.
    """
    found, number = False, 0

    def bad(number: int, problem: str) -> None:
        report.blemish("bad_records", str(path), number, problem)

    with open_lines(path, EXPECTED, report=report, skip=bad) as lines:
        if not (label_column or id_column or path.name.lower().endswith(TABLES)):
            for place, line in lines:
                number = place
                if label := one_line(line).strip():
                    found = True
                    yield Term(label, "")
        elif first := next(lines, None):
            table = csv_rows(chain([first], lines), max("\t,;", key=first[1].count))
            places: tuple[int, int | None] | None = None
            for number, row in table:
                if isinstance(row, str):
                    bad(number, row)
                elif places is None:
                    places = _places(row, label_column, id_column)
                elif row:
                    label, id_ = (
                        one_line(row[at]).strip() if at is not None and at < len(row) else "" for at in places
                    )
                    if label:
                        found = True
                        yield Term(label, id_)
                    else:
                        bad(number, "no term")
    if not found:
        raise KrisselError(Errors.K204.format(path=path, what="term", line=number, expected=EXPECTED))


def _places(header: list[str], label_column: str, id_column: str) -> tuple[int, int | None]:
    """The places of the labels and of the ids in a row."""
    columns = [cell.strip().lower() for cell in header]
    found = []
    for setting, asked, usual in (("label_column", label_column, LABELS), ("id_column", id_column, IDS)):
        names = [asked.strip().lower()] if asked else usual
        place = next((columns.index(name) for name in names if name in columns), None)
        if place is None and setting == "label_column" and not asked and len(columns) == 1:
            place = 0
        if place is None and (asked or setting == "label_column"):
            expected = f"one of the columns {', '.join(map(repr, header))}"[:300]
            raise KrisselError(Errors.K006.format(setting=setting, found=asked, expected=expected))
        found.append(place)
    return found[0] or 0, found[1]
