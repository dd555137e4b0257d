"""A gold corpus as its source states it: texts and their annotated mentions, before conversion to
spaCy.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Fragments = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Mention:
    """An annotated mention as its source states it, unchecked.

    fragments: (start, end) in characters of the document's text, end exclusive. A discontinuous
        mention has several: "pain ... knee" in "pain and swelling in knee" is ((0, 4), (21, 25)).
        Empty if the source only states that the document mentions the entity.
    text: the surface form that the source states, with fragments joined in any way.
    label: the type, e.g. "Disease"; "" if the source has none.
    kb_id: as in the source: composites are joined by `|` or `+`; `-1` and `-` mean no concept; ""
        means not annotated.
    line: its line in the source file, 1-based; 0 if unknown.
    source: its file, if it differs from the document's.
    """

    fragments: Fragments
    text: str
    label: str
    kb_id: str
    line: int = 0
    source: str = ""


@dataclass
class AnnotatedText:
    """A document of a gold corpus. `source` and `line` state where it begins, for messages.

    words: its tokens, if the corpus sets them; `text` is then the words joined by single spaces.
    weak: its entities are labels of the whole document, and their offsets, if known, only a hint
        (`docs.to_doc`).
    """

    id: str
    text: str
    mentions: list[Mention] = field(default_factory=list)
    source: str = ""
    line: int = 0
    words: list[str] | None = None
    weak: bool = False

    def file_of(self, mention: Mention) -> str:
        """Return the file of `mention`, for messages."""
        return mention.source or self.source


def parse_offset(text: str) -> int | None:
    """Parse a character offset; None for anything else."""
    # No document has a billion characters, and `int` refuses thousands of digits.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def parse_fragments(pairs: Iterable[Sequence[str]]) -> Fragments:
    """Parse the (start, end) of each pair of texts; empty if one of them is not an offset."""
    found = [(parse_offset(start), parse_offset(end)) for start, end in pairs]
    fragments = tuple((start, end) for start, end in found if start is not None and end is not None)
    return fragments if len(fragments) == len(found) else ()


def covered_text(text: str, fragments: Iterable[tuple[int, int]]) -> str:
    """Return the text of the fragments, joined by spaces."""
    return " ".join(text[start:end] for start, end in fragments)
