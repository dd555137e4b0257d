"""Reader of a table of links from `krissel link` or `krissel review` in which a person filled in
verdicts.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..mentions.gold_ids import Resolver
from ..mentions.gold_mentions import split_gold
from ..util.escape import text_of_cell
from ..util.outputs import VERDICT_COLUMNS
from ..util.tables import csv_rows
from ..views import View
from .files import open_lines
from .report import CorpusReport

EXPECTED = (
    "a table as `krissel link -o links.tsv` writes it, with yes or no in `verdict`, or an id in "
    "`right_id`"
)
NAMES_EXPECTED = (
    "a table as `krissel review --names` writes it, or one of the columns `text` and `right_id`, "
    "with yes or no in `verdict`, or an id in `right_id`"
)
READ = ("doc", "start", "end", "context", "id", *VERDICT_COLUMNS)
# Column with the reason why `krissel review` chose a row, and its value for random rows.
WHY, RANDOM = "why", "random"
VERDICTS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
Row = TypeVar("Row")
# Start, end and context.
_LOCATION = re.compile("([0-9]{1,9}) ([0-9]{1,9}) ([^⟦⟧\n]*)⟦([^⟦⟧\n]+)⟧([^⟦⟧\n]*)")


class NameVerdict(NamedTuple):
    """A row of a table of found names that is filled in.

    is_name: the text is a mention. right: the id to find it as, if one was given. linked: the id
        that the table has.
    """

    text: str
    is_name: bool
    right: str
    linked: str


class Verdict(NamedTuple):
    """A row of the table.

    linked: the ids of the link; empty for NIL, or without one.
    right: the correct ids, empty for none; None if nothing is filled in, and then the offsets are
        unset.
    no_entity: the vocabulary has no entity for the mention: NIL in `right_id`, or a confirmed NIL.
        Without it, and without a correct id, the link was rejected.
    why: the column `why`; None if the table has none.
    """

    linked: tuple[str, ...]
    right: tuple[str, ...] | None
    why: str | None
    doc: str = ""
    start: int = 0
    end: int = 0
    view: View = View("", "", "")
    no_entity: bool = False

    @property
    def rejected(self) -> tuple[str, ...]:
        """The ids of a link that is wrong, if it is not known what is correct."""
        return () if self.right is None or self.right or self.no_entity else self.linked


def read_verdicts(path: Path, kb: Resolver, report: CorpusReport) -> Iterator[Verdict]:
    """Yield the rows of a table. Columns are found by name; tabs, commas or semicolons separate
    them.

    A `right_id` overrides a verdict. Rows with unknown ids and unreadable rows count as
    `bad_records`.

    report: counts `rows` that are filled in and `lines`.

    Raises what `open_lines` raises.
    """
    return _parsed(path, EXPECTED, report, lambda row: _verdict(row, kb, report))


def read_names(path: Path, kb: Resolver, report: CorpusReport) -> Iterator[NameVerdict]:
    """Yield the rows of a table of found names that are filled in, as `read_verdicts` does."""
    rows = _parsed(path, NAMES_EXPECTED, report, lambda row: _name_verdict(row, kb, report))
    return (row for row in rows if row is not None)


def is_of_names(path: Path) -> bool:
    """Return whether a table is one of names, by its columns: a text without a context. Raises what
    `open_lines` raises."""
    with open_lines(path, EXPECTED, report=CorpusReport()) as lines:
        header = next(lines, (1, ""))[1]
        for _, cells in csv_rows([(1, header)], _separator(header)):
            columns = set() if isinstance(cells, str) else {cell.strip().lower() for cell in cells}
            return (
                "text" in columns
                and "context" not in columns
                and not columns.isdisjoint(VERDICT_COLUMNS)
            )
    return False


def _separator(header: str) -> str:
    return max("\t,;", key=header.count)


def _parsed(
    path: Path, expected: str, report: CorpusReport, parse: Callable[[dict[str, str]], Row]
) -> Iterator[Row]:
    """Yield what `parse` makes of each row, by column; if it raises ValueError, the row is a bad
    record."""
    with open_lines(path, expected, report=report) as lines:
        header = next(lines, (1, ""))[1]
        number = 1
        columns: list[str] = []

        def counted() -> Iterator[tuple[int, str]]:
            nonlocal number
            yield number, header
            for number, line in lines:
                yield number, line

        for first, cells in csv_rows(counted(), _separator(header)):
            try:
                if isinstance(cells, str):
                    raise ValueError(cells)
                if not columns:
                    columns = [cell.strip().lower() for cell in cells]
                elif any(cell.strip() for cell in cells):
                    yield parse(
                        dict.fromkeys(columns, "") | dict(zip(columns, cells, strict=False))
                    )
            except ValueError as error:
                report.record_issue("bad_records", str(path), first, str(error))
        report.count("lines", number)


def _name_verdict(row: dict[str, str], kb: Resolver, report: CorpusReport) -> NameVerdict | None:
    """Parse a row; None if nothing is filled in. Raises ValueError for an unknown id or an
    unreadable row."""
    text, link, verdict, right = (
        text_of_cell(row.get(name, "").strip()) for name in ("text", "id", "verdict", "right_id")
    )
    if not verdict and not right:
        return None
    report.count("rows")
    if not text:
        raise ValueError("no name in the column text")
    if not right:
        return NameVerdict(text, _is_yes(verdict), "", kb.resolve(link) or link)
    ids = split_gold(right, kb)
    _check_known(ids, kb)
    if len(ids) > 1:
        raise ValueError(f"{right[:80]!r} is more than one id")
    return NameVerdict(text, bool(ids), ids[0] if ids else "", "")


def _is_yes(verdict: str) -> bool:
    if verdict.lower() not in VERDICTS:
        raise ValueError(f"the verdict {verdict[:20]!r} is neither yes nor no")
    return VERDICTS[verdict.lower()]


def _check_known(ids: Sequence[str], kb: Resolver) -> None:
    if unknown := [id for id in ids if kb.resolve(id) is None]:
        raise ValueError(f"the knowledge base has no {unknown[0][:80]!r}")


def _verdict(row: dict[str, str], kb: Resolver, report: CorpusReport) -> Verdict:
    """Parse a row. Raises ValueError for an unknown id or an unreadable row."""
    doc, start, end, context, link, verdict, right = (
        text_of_cell(row.get(name, "").strip()) for name in READ
    )
    linked = split_gold(link, kb)
    why = row[WHY].strip() if WHY in row else None
    if not verdict and not right:
        return Verdict(linked, None, why)
    report.count("rows")
    is_right = bool(right) or _is_yes(verdict)
    ids = split_gold(right, kb) if right else linked if is_right else ()
    _check_known(ids, kb)
    if (location := _LOCATION.fullmatch(f"{start} {end} {context}")) is None:
        raise ValueError(
            "the context is not a text with one mention in ⟦ ⟧"
            if start.isdecimal() and end.isdecimal()
            else "no offsets in start and end; for names, use a table of text and right_id"
        )
    view = View(location[3], location[4], location[5])
    return Verdict(
        linked, ids, why, doc, int(start), int(end), view, no_entity=is_right and not ids
    )
