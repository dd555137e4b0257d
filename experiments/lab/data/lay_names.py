"""Names that laymen give to terms, as HPO's table of lay synonyms has them."""

import re
from pathlib import Path

from spacy_krissel.corpora.files import open_lines
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.util.inputs import control_character

from ..errors import Errors, KrisselError

EXPECTED = "a table of lay names: address or id of the term, its name and a lay name, tab-separated"
# `<http://purl.obolibrary.org/obo/HP_0002648>`, or the id itself.
_TERM = re.compile(r"<?(?:\S*/)?([A-Za-z]+)[_:](\d+)>?")


def read_lay_names(path: str | Path) -> dict[str, list[str]]:
    """The lay names of each term, in the order of the file, by its id (`HP:0002648`); `.gz` is
    decompressed.

    A first row of column names and blank lines are passed over.
    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (no name),
    K234 (another table).
    """
    found: dict[str, dict[str, None]] = {}
    number = 0
    report = CorpusReport()
    with open_lines(path, EXPECTED, report=report) as lines:
        for number, line in lines:
            cells = [cell.strip().strip('"').strip() for cell in line.split("\t")]
            match = _TERM.fullmatch(cells[0])
            if match and len(cells) == 3 and cells[2] and not control_character(line):
                found.setdefault(f"{match[1]}:{match[2]}", {})[cells[2]] = None
            elif number > 1 and line.strip():
                raise KrisselError(Errors.K234.format(path=path, line=number, found=line[:80]))
    if not found:
        raise KrisselError(
            Errors.K204.format(path=path, what="lay name", line=number, expected=EXPECTED)
        )
    report.warn()
    return {term: list(names) for term, names in found.items()}
