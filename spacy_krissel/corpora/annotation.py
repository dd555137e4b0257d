"""A gold corpus as its source states it, before spaCy sees it: texts and the mentions annotated in them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

Fragments = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Mention:
    """An annotated mention, as its source states it; nothing is checked yet.

    fragments: (start, end) in characters of the document's text, end exclusive. A discontinuous mention has several:
        "pain ... knee" in "pain and swelling in knee" is ((0, 4), (21, 25)). None where the source states only that
        the document mentions the entity.
    text: the surface form that the source states, with fragments joined in any way.
    label: the type, e.g. "Disease"; "" where the source has none.
    kb_id: as in the source: composites are joined by `|` or `+`, `-1` and `-` mean no concept, "" means not annotated.
    line: its line in the source file, 1-based; 0 when unknown.
    source: its file, if it is not the document's.
    """

    fragments: Fragments
    text: str
    label: str
    kb_id: str
    line: int = 0
    source: str = ""


@dataclass
class AnnotatedText:
    """A document of a gold corpus. `source` and `line` say where it begins, for messages.

    words: its tokens, where the corpus sets them; `text` is then the words joined by single spaces.
    weak: its entities are labels of the whole document, and their places, where known, a hint (`docs.to_doc`).
    """

    id: str
    text: str
    mentions: list[Mention] = field(default_factory=list)
    source: str = ""
    line: int = 0
    words: list[str] | None = None
    weak: bool = False

    def file_of(self, mention: Mention) -> str:
        """Where `mention` was read, for messages."""
        return mention.source or self.source


def parse_offset(text: str) -> int | None:
    """A character offset as corpora write it, or None for anything else."""
    # No document is a billion characters long, and `int` refuses thousands of digits.
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else None


def parse_fragments(pairs: Iterable[Sequence[str]]) -> Fragments:
    """(start, end) of each pair of texts; none at all where one of them is no offset."""
    found = [(parse_offset(start), parse_offset(end)) for start, end in pairs]
    fragments = tuple((start, end) for start, end in found if start is not None and end is not None)
    return fragments if len(fragments) == len(found) else ()


def covered_text(text: str, fragments: Iterable[tuple[int, int]]) -> str:
    """The text of the fragments, joined by spaces."""
    return " ".join(text[start:end] for start, end in fragments)
