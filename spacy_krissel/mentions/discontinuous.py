"""Mentions in several pieces: how docs hold them. Of "pain and swelling in knee", *knee swelling* is one stretch of
text and *knee pain* is not."""

from typing import Dict, FrozenSet, Iterable, List, NamedTuple, Tuple

from spacy.tokens import Doc, Span, SpanGroup

from .gold_mentions import gold_spans

# The pieces of the gold mentions that are in several; those in one are in `doc.spans["krissel"]`.
DISJOINT_KEY = "krissel_disjoint"
# Of a group of spans: those of one `id_` are pieces of one mention. (Elsewhere `id_` may be anything, a rule's, say.)
PIECES_ATTR = "krissel_pieces"


class PiecedMention(NamedTuple):
    """A mention and its concept, in one piece or more.

    pieces: (start, end) in tokens, end exclusive, in order; no two touch.
    """

    kb_id: str
    label: str
    pieces: Tuple[Tuple[int, int], ...]

    @property
    def is_disjoint(self) -> bool:
        return len(self.pieces) > 1

    @property
    def tokens(self) -> FrozenSet[int]:
        return frozenset(i for start, end in self.pieces for i in range(start, end))


def join_pieces(pieces: Iterable[Tuple[int, int]]) -> Tuple[Tuple[int, int], ...]:
    """Pieces in order, each once; those that touch or overlap are one."""
    joined: List[Tuple[int, int]] = []
    for start, end in sorted(pieces):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)


def write_pieces(doc: Doc, mentions: Iterable[PiecedMention], key: str) -> None:
    """Make `doc.spans[key]` the pieces of `mentions`, in their order.

    A piece is a span with its mention's label and `kb_id_`; `span.id_`, a number from 1, is the same for the pieces of
    one mention and no others', which the group says of itself (`are_pieces`). `Doc.to_bytes` and `.spacy` files keep
    all of it.
    """
    spans = [
        Span(doc, start, end, label=mention.label, kb_id=mention.kb_id, span_id=str(number))
        for number, mention in enumerate(mentions, 1)
        for start, end in mention.pieces
    ]
    doc.spans[key] = SpanGroup(doc, name=key, attrs={PIECES_ATTR: True}, spans=spans)


def are_pieces(doc: Doc, key: str) -> bool:
    """Are the spans of `doc.spans[key]` pieces, those of one `id_` of one mention?"""
    return key in doc.spans and bool(doc.spans[key].attrs.get(PIECES_ATTR))


def read_pieces(doc: Doc, key: str) -> List[PiecedMention]:
    """The mentions of `doc.spans[key]`, as `write_pieces` writes them; a span without `id_` is a mention by itself."""
    found: Dict[Tuple[str, ...], List[Span]] = {}
    for number, span in enumerate(doc.spans[key] if key in doc.spans else ()):
        own = ("shared", span.id_, span.kb_id_, span.label_) if span.id_ else ("alone", str(number))
        found.setdefault(own, []).append(span)
    return [
        PiecedMention(spans[0].kb_id_, spans[0].label_, join_pieces((span.start, span.end) for span in spans))
        for spans in found.values()
    ]


def gold_pieces(doc: Doc) -> List[PiecedMention]:
    """All gold mentions of a doc as `convert` writes it: those in one piece, then those in several."""
    whole = [PiecedMention(span.kb_id_, span.label_, ((span.start, span.end),)) for span in gold_spans(doc)]
    return whole + read_pieces(doc, DISJOINT_KEY)
