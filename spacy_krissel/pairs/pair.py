"""Pairs of an id and a label in a file, with their positions, and the files that hold them."""

import gzip
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from ..errors import Errors, KrisselError
from ..ontology.entity import canonical_id, id_prefix, spellings
from ..util.inputs import check_encoding, not_utf8, open_input

# Decides whether a text is an id of the vocabularies at hand.
IsId = Callable[[str], bool]
_LOCAL = re.compile(r"[^:_/#=]*$")


class Cell(NamedTuple):
    """A value, and where it stands in the text of its file, with its quotes: [start, end).

    A cell that cannot be replaced has an empty range.
    """

    value: str
    start: int
    end: int


class Pair(NamedTuple):
    """An id and the texts that may be its label, best first.

    stated: the label that counts if none of them is a name; None if the file does not say that it
        is a label, as in running text.
    """

    id: Cell
    labels: tuple[Cell, ...] = ()
    stated: Cell | None = None


class Edit(NamedTuple):
    """A new value of a cell."""

    cell: Cell
    value: str


class PairFile:
    """The pairs of a text file.

    path: of the file. text: its characters, line ends and byte order mark included.
    """

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.text = path, text

    def pairs(self, is_id: IsId) -> Iterator[Pair]:
        """Yield the pairs in the order of the file.

        Raises KrisselError K102 for a damaged file, K006 for missing columns.
        """
        raise NotImplementedError

    def encode(self, raw: str, value: str) -> str:
        """Return a value in the form of the file, to replace `raw`."""
        return value

    def position(self, cell: Cell) -> tuple[int, int]:
        """Return line and column of a cell, from 1."""
        line = bisect_right(self._lines, cell.start)
        return line, cell.start - self._lines[line - 1] + 1

    @cached_property
    def _lines(self) -> list[int]:
        """Offsets of the lines."""
        return [0, *(match.end() for match in re.finditer("\r\n|\n|\r", self.text))]

    def can_replace(self, edit: Edit) -> bool:
        """Return whether the copy can have this value instead of the cell."""
        return edit.cell.end > edit.cell.start

    def corrected(self, edits: Sequence[Edit]) -> bytes:
        """Return the content with the new values; everything else is unchanged."""
        parts, at = [], 0
        for (_, start, end), value in sorted(edits, key=lambda edit: edit.cell.start):
            parts += [self.text[at:start], self.encode(self.text[start:end], value)]
            at = end
        return "".join([*parts, self.text[at:]]).encode("utf8")

    def save(self, edits: Sequence[Edit], path: Path) -> None:
        """Write the corrected content, compressed if the name ends in .gz."""
        data = self.corrected(edits)
        path.write_bytes(gzip.compress(data, mtime=0) if path.name.endswith(".gz") else data)

    def damaged(self, line: int, problem: object) -> KrisselError:
        return KrisselError(Errors.K102.format(path=self.path, line=line, problem=problem))


def read_text(path: Path) -> str:
    """Read a UTF-8 file, plain or gzipped, without changing line ends.

    Raises KrisselError K201 (no such file), K202 (damaged compression), K203 (not UTF-8), K055 (too
    large), K056, K060 (not text).
    """
    expected = "a file with ids and labels"
    with open_input(path, Errors.K201.format(path=path, expected=expected), Errors.K202) as file_:
        data = file_.read_all()
    check_encoding(data[: 1 << 16].removeprefix(b"\xef\xbb\xbf"), path)
    try:
        return data.decode("utf8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        start = data.rfind(b"\n", 0, error.start) + 1
        error.object, error.start = data[start:], error.start - start
        problem = not_utf8(data[start : start + 200 + error.start], error)
        raise KrisselError(Errors.K203.format(path=path, line=line, problem=problem)) from error


def in_form_of(written: str, id: str) -> str:
    """Return an id in the form that another one of its vocabulary has: `HP_0000421`, an address, or
    without prefix; "" if the forms do not fit.
    """
    old, new = _local(written), _local(canonical_id(id))
    if _prefix(written) != _prefix(id):
        return "" if "://" in written else id
    return f"{written[: len(written) - len(old)]}{new}"


def _local(id: str) -> str:
    found = _LOCAL.search(id)
    return found[0] if found else ""


def _prefix(id: str) -> str:
    return next((each for each in map(id_prefix, spellings(id)) if not each.startswith("http")), "")
