"""COMETA: terms of patients in posts, with SNOMED CT concepts, as a table of seven columns."""

import csv
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ...errors import Errors
from ...util.inputs import control_character
from ..annotation import AnnotatedText, Mention
from ..files import read_records
from ..report import CorpusReport, reporting


@reporting
def read_cometa(path: str | Path, *, ids: str, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield the example of each line as a document, named by file and line, with its term as the
    mention; `.gz` is decompressed.

    The first line names the columns: Term, General SNOMED ID, Specific SNOMED ID, Example and
    others, in any order, separated by tabs or else by commas; cells may be quoted. A term that does
    not occur in its example, in any case, becomes a document by itself.

    ids: "General" (the literal meaning) or "Specific" (the one in context); ids get the prefix
        `SNOMEDCT:`.

    report: counts `bad_records` and `without_example`.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (UTF-16), K204 (nothing), K237
    (no such columns).
    """
    source, name = str(path), Path(path).name
    columns = ("Term", f"{ids} SNOMED ID", "Example")
    indices: list[int] = []
    separator = "\t"

    def example(line: str, number: int) -> AnnotatedText | None:
        nonlocal separator
        if not indices:
            separator = "\t" if "\t" in line else ","
            header = [cell.strip() for cell in _cells(line, separator)]
            indices.extend(header.index(column) for column in columns)
            return None
        if problem := control_character(line.replace("\t", " ")):
            raise ValueError(problem)
        cells = _cells(line, separator)
        if len(cells) <= max(indices):
            raise ValueError(f"{len(cells)} column(s)")
        term, id_, text = (cells[index].strip() for index in indices)
        if not term or not id_.isdecimal():
            raise ValueError(f"term {term[:40]!r}, id {id_[:40]!r}")
        words = r"\s+".join(map(re.escape, term.split()))
        found = next(
            filter(
                None, (re.search(each, text, re.IGNORECASE) for each in (rf"\b{words}\b", words))
            ),
            None,
        )
        start, end = found.span() if found else (0, len(term))
        if not found:
            report.count("without_example")
            text = term
        mention = Mention(((start, end),), text[start:end], "", f"SNOMEDCT:{id_}", number)
        return AnnotatedText(f"{name}:{number}", text, [mention], source=source, line=number)

    read = partial(
        read_records,
        expected="a table of COMETA",
        what="line",
        first_error=Errors.K237,
        skip_undecoded=True,
    )
    return filter(None, read(path, example, report))


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator, strict=True))
    except csv.Error:
        # The quote mark belongs to the text.
        return line.split(separator)
