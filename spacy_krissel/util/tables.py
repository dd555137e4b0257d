"""Tables with quoted cells, where a damaged row costs no other row, and columns found by their
usual names.
"""

import csv
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

# Possible cell delimiters.
DELIMITERS = "\t,;|"
# Line that Excel reads and writes above the header of a table.
SEPARATOR = re.compile(r'"?sep=.?"?', re.IGNORECASE)
# Maximum lines per row, so that an unclosed quote does not swallow the whole file.
MAX_LINES = 200
Line = tuple[int, str]


def csv_rows(lines: Iterable[Line], delimiter: str) -> Iterator[tuple[int, list[str] | str]]:
    """Yield each row of a table with the number of its first line, or a message for a damaged row.

    lines: numbered, without line ends; the first holds the column names.

    A row that spans several lines has as many cells as the first row. After a damaged row, reading
    resumes at its second line, since an unclosed quote may include sound rows.
    """
    source = _Lines(lines)
    reader = csv.reader(source, delimiter=delimiter, strict=True)
    width = 0
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = str(error)
            if "unexpected end" in problem or len(source.taken) > 1:
                problem = "a quote is not closed"
            yield source.give_back(), problem
            continue
        if len(source.taken) > 1 and width and len(row) != width:
            yield source.give_back(), "a quote is not closed"
            continue
        width = width or len(row)
        yield source.finish(), row


class _Lines:
    """Lines for a `csv.reader`, which remembers the lines of the current row."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.taken: list[Line] = []
        self._lines = iter(lines)
        self._waiting: deque[Line] = deque()

    def __iter__(self) -> "_Lines":
        return self

    def __next__(self) -> str:
        if len(self.taken) == MAX_LINES:
            raise StopIteration
        line = self._waiting.popleft() if self._waiting else next(self._lines)
        self.taken.append(line)
        return f"{line[1]}\n"

    def give_back(self) -> int:
        """Push back all lines of the row except the first. RETURNS: the number of the first
        line."""
        self._waiting.extendleft(reversed(self.taken[1:]))
        return self.finish()

    def finish(self) -> int:
        """Begin a new row. RETURNS: the number of the first line of the previous row."""
        number = self.taken[0][0]
        self.taken.clear()
        return number


# Keys as returned by `column_key`.
IDS = (
    "id",
    "conceptid",
    "classid",
    "termid",
    "entityid",
    "subjectid",
    "identifier",
    "curie",
    "code",
    "cui",
    "conceptcode",
    "termcode",
    "uri",
    "iri",
    "accession",
)
NAMES = (
    "name",
    "label",
    "preferredlabel",
    "preflabel",
    "preferredname",
    "prefname",
    "preferredterm",
    "canonicalname",
    "conceptname",
    "entityname",
    "termname",
    "subjectlabel",
    "term",
    "title",
    "display",
    "displayname",
)


def column_key(name: str) -> str:
    """Return the name of a column without case, spaces, underscores and other punctuation."""
    return "".join(filter(str.isalnum, name.lower()))


def find_column(header: Sequence[str], wanted: Iterable[str]) -> int | None:
    """Return the index of the first wanted column in the header: an exact match, else a match by
    key.
    """
    names, keys = [name.strip() for name in header], [column_key(name) for name in header]
    for each in wanted:
        for found, name in ((names, each.strip()), (keys, column_key(each))):
            if name and name in found:
                return found.index(name)
    return None
