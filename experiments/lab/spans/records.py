"""Span records: one per evaluated pair of a text and an entity in it, the same for all systems."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

# (start, end) in tokens, end exclusive, in order; no two touch.
Pieces = tuple[tuple[int, int], ...]


@dataclass(slots=True)
class SpanRecord:
    """A text, an entity in it, and a system's answer.

    doc, entity: the document's id and the entity's primary id.
    gold: the fragments of all gold mentions of the entity in the text, joined; None where the
        corpus has none: the pair then counts for linking only.
    predicted: the fragments that the system found, `()` for none; None for a system without spans.
    rank: the rank of the entity among all that were scored, from 1; None when it was not among
        them.
    seen: training had the entity; None when unknown.
    disjoint: a gold mention of the entity is discontinuous; None without gold fragments.
    ignored: the tokens of `gold` and `predicted` that are stop words, punctuation or white space.
    """

    doc: str
    entity: str
    gold: Pieces | None = None
    predicted: Pieces | None = None
    rank: int | None = None
    seen: bool | None = None
    disjoint: bool | None = None
    ignored: tuple[int, ...] = ()


def tokens_of(pieces: Pieces | None) -> frozenset[int]:
    """The tokens that pieces cover; none for None."""
    return frozenset(i for start, end in pieces or () for i in range(start, end))


def pair_keys(records: Iterable[SpanRecord]) -> Iterator[tuple[str, str, int]]:
    """Document, entity and occurrence of each record, which identify a pair in two lists."""
    seen: dict[tuple[str, str], int] = {}
    for record in records:
        pair = (record.doc, record.entity)
        seen[pair] = seen.get(pair, -1) + 1
        yield (*pair, seen[pair])
