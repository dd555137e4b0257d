"""Reader of a table of links from `krissel link` or `krissel review` in which a person filled in
verdicts.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..mentions.gold_ids import Resolver
from ..mentions.gold_mentions import split_gold
from ..util.escape import text_of_cell
from ..util.tables import csv_rows
from ..views import View
from .files import open_lines
from .report import CorpusReport

EXPECTED = (
    "a table as `krissel link -o links.tsv` writes it, with yes or no in `verdict`, or an id in "
    "`right_id`"
)
READ = ("doc", "start", "end", "context", "id", "verdict", "right_id")
# Column with the reason why `krissel review` chose a row, and its value for random rows.
WHY, RANDOM = "why", "random"
VERDICTS = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
# Start, end and context.
_LOCATION = re.compile("([0-9]{1,9}) ([0-9]{1,9}) ([^⟦⟧\n]*)⟦([^⟦⟧\n]+)⟧([^⟦⟧\n]*)")


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
    with open_lines(path, EXPECTED, report=report) as lines:
        header = next(lines, (1, ""))[1]
        number = 1
        columns: list[str] = []

        def counted() -> Iterator[tuple[int, str]]:
            nonlocal number
            yield number, header
            for number, line in lines:
                yield number, line

        for first, cells in csv_rows(counted(), max("\t,;", key=header.count)):
            try:
                if isinstance(cells, str):
                    raise ValueError(cells)
                if not columns:
                    columns = [cell.strip().lower() for cell in cells]
                elif any(cell.strip() for cell in cells):
                    yield _verdict(
                        dict(zip(columns, cells, strict=False)), WHY in columns, kb, report
                    )
            except ValueError as error:
                report.record_issue("bad_records", str(path), first, str(error))
        report.count("lines", number)


def _verdict(row: dict[str, str], has_why: bool, kb: Resolver, report: CorpusReport) -> Verdict:
    """Parse a row. Raises ValueError for an unknown id or an unreadable row."""
    doc, start, end, context, link, verdict, right = (
        text_of_cell(row.get(name, "").strip()) for name in READ
    )
    linked = split_gold(link, kb)
    why = row.get(WHY, "").strip() if has_why else None
    if not verdict and not right:
        return Verdict(linked, None, why)
    report.count("rows")
    if not right and verdict.lower() not in VERDICTS:
        raise ValueError(f"the verdict {verdict[:20]!r} is neither yes nor no")
    is_right = bool(right) or VERDICTS[verdict.lower()]
    ids = split_gold(right, kb) if right else linked if is_right else ()
    if unknown := [id for id in ids if kb.resolve(id) is None]:
        raise ValueError(f"the knowledge base has no {unknown[0][:80]!r}")
    if (location := _LOCATION.fullmatch(f"{start} {end} {context}")) is None:
        raise ValueError("no mention in brackets, ⟦ ⟧, in the context, or no offsets")
    view = View(location[3], location[4], location[5])
    return Verdict(
        linked, ids, why, doc, int(start), int(end), view, no_entity=is_right and not ids
    )
