"""OBO files: terms with their names, and references to terms with a comment, `is_a: ID ! name`."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from .pair import Cell, IsId, Pair, PairFile, read_text

_STANZA = re.compile(r"^\[\w+\][^\S\n]*$", re.MULTILINE)
_OBSOLETE = re.compile(r"^is_obsolete:\s*true", re.MULTILINE)
# Other tags name former ids, or ids of other ontologies.
_TERM = re.compile(r"^id:[ \t]*(\S+)[ \t]*\r?\n(?:name:[ \t]*([^\r\n]*\S))?", re.MULTILINE)
_REFERENCE = re.compile(
    r"^(?:is_a|relationship|intersection_of|disjoint_from|union_of|equivalent_to):[^!\r\n]*?"
    r"(\S+)(?:[ \t]*\{[^{}\r\n]*\})?(?:[ \t]*![ \t]*([^\r\n]*\S))?[ \t]*$",
    re.MULTILINE,
)


class OboFile(PairFile):
    """The terms of an OBO file that are not obsolete."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, read_text(path))

    def pairs(self, is_id: IsId) -> Iterator[Pair]:
        starts = [match.start() for match in _STANZA.finditer(self.text)]
        for start, end in pairwise([*starts, len(self.text)]):
            if _OBSOLETE.search(self.text, start, end):
                continue
            for pattern in (_TERM, _REFERENCE):
                for match in pattern.finditer(self.text, start, end):
                    if is_id(match[1]):
                        id_ = Cell(match[1], *match.span(1))
                        label = Cell(match[2], *match.span(2)) if match[2] else None
                        yield Pair(id_, (label,) if label else (), label)
