"""Phrases without context, as AskAPatient has them: `id TAB name of the concept TAB phrase` a line."""

from collections.abc import Iterator
from pathlib import Path

from ...errors import Errors, KrisselError
from ...util.inputs import control_character
from ..annotation import AnnotatedText, Mention
from ..files import open_lines
from ..report import CorpusReport, reporting

EXPECTED = "a table of phrases: id, name of the concept and phrase, tab-separated"
COLUMNS = 3


@reporting
def read_phrases(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Each phrase as a document of its own, all of it one mention; `.gz` is decompressed.

    Documents are named by the file and the line, so that a phrase that stands there twice counts twice.

    report: counts `bad_records` (lines that are not UTF-8, that have not three columns, or an empty one). Without
        one, the reader warns of them itself at the end.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (UTF-16), K204 (no phrase).
    """
    name = Path(path).name
    found = False
    number = 0
    first_bad = ""

    def bad(line: int, problem: str) -> None:
        nonlocal first_bad
        first_bad = first_bad or f" that can be used (line {line}: {problem})"
        report.blemish("bad_records", str(path), line, problem)

    with open_lines(path, EXPECTED, report=report, skip=bad) as lines:
        for number, line in lines:
            if not line.strip():
                continue
            if control_character(line):
                bad(number, control_character(line))
                continue
            columns = [column.strip() for column in line.split("\t")]
            if len(columns) != COLUMNS or not all(columns):
                bad(number, f"{len(columns)} column(s), {sum(map(bool, columns))} filled")
                continue
            found = True
            id_, _, phrase = columns
            mention = Mention(((0, len(phrase)),), phrase, "", id_, number)
            yield AnnotatedText(f"{name}:{number}", phrase, [mention], source=str(path), line=number)
    if not found:
        raise KrisselError(Errors.K204.format(path=path, what="phrase" + first_bad, line=number, expected=EXPECTED))
