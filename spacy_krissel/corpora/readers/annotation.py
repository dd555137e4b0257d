"""What a gold corpus says, before spaCy sees it: a text and the mentions annotated in it."""

from dataclasses import dataclass, field
from typing import List, Optional, Tuple


@dataclass(frozen=True, slots=True)
class Mention:
    """An annotated stretch of text, as its source states it; nothing is checked yet.

    start, end: character offsets in the text of the document, end exclusive.
    text: the surface form that the source states; of several fragments, theirs, joined in any way.
    label: the type, e.g. "Disease"; "" where the source has none.
    kb_id: as in the source: composites are joined by `|` or `+`, `-1` and `-` mean no concept, "" means not annotated.
    line: where it stands in the source file, 1-based; 0 when unknown.
    more: the (start, end) of its further fragments: "pain ... knee" of "pain and swelling in knee" is 0 to 4 and 21 to
        25.
    source: its file, where that is another than the document's.
    """

    start: int
    end: int
    text: str
    label: str
    kb_id: str
    line: int = 0
    more: Tuple[Tuple[int, int], ...] = ()
    source: str = ""

    @property
    def fragments(self) -> Tuple[Tuple[int, int], ...]:
        """All of its fragments, as the source orders them."""
        return ((self.start, self.end), *self.more)


@dataclass
class AnnotatedText:
    """A document of a gold corpus. `source` and `line` say where it begins, for messages.

    words: its tokens, where the corpus sets them; `text` is then the words joined by single blanks.
    """

    id: str
    text: str
    mentions: List[Mention] = field(default_factory=list)
    source: str = ""
    line: int = 0
    words: Optional[List[str]] = None

    def file_of(self, mention: Mention) -> str:
        """Where `mention` was read, for messages."""
        return mention.source or self.source


def parse_offset(text: str) -> Optional[int]:
    """A character offset as corpora write it, or None for anything else."""
    # No document is a billion characters long, and `int` refuses thousands of digits.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None
