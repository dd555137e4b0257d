"""Phrases without context, as AskAPatient has them: `id TAB name of the concept TAB phrase` a line."""

from collections.abc import Iterator
from pathlib import Path

from ...util.inputs import control_character
from ..annotation import AnnotatedText, Mention
from ..files import read_records
from ..report import CorpusReport, reporting

EXPECTED = "a table of phrases: id, name of the concept and phrase, tab-separated"
COLUMNS = 3


@reporting
def read_phrases(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Each phrase as a document of its own, all of it one mention; `.gz` is decompressed.

    Documents are named by the file and the line, so that a phrase that stands there twice counts twice.

    report: counts `bad_records` (lines that are not UTF-8, that have not three columns, or an empty one).
    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (UTF-16), K204 (no phrase).
    """
    source, name = str(path), Path(path).name

    def phrase(line: str, number: int) -> AnnotatedText:
        if problem := control_character(line):
            raise ValueError(problem)
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != COLUMNS or not all(columns):
            raise ValueError(f"{len(columns)} column(s), {sum(map(bool, columns))} filled")
        id_, _, text = columns
        mention = Mention(((0, len(text)),), text, "", id_, number)
        return AnnotatedText(f"{name}:{number}", text, [mention], source=source, line=number)

    return read_records(path, phrase, report, expected=EXPECTED, what="phrase", skip_undecoded=True)
