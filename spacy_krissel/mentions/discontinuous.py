"""Mentions in several fragments: how docs hold them. Of "pain and swelling in knee", *knee swelling* is one stretch of
text and *knee pain* is not."""

from collections.abc import Iterable
from typing import NamedTuple

from spacy.tokens import Doc, Span, SpanGroup

# The fragments of the gold mentions that are in several; those in one are in `doc.spans["krissel"]`.
DISJOINT_KEY = "krissel_disjoint"
# Of a group of spans: those of one `id_` are fragments of one mention. (Elsewhere `id_` may be anything, a rule's,
# say.)
FRAGMENTS_ATTR = "krissel_fragments"


class DocMention(NamedTuple):
    """A mention and its concept, in one fragment or more.

    fragments: (start, end) in tokens, end exclusive, in order; no two touch.
    """

    kb_id: str
    label: str
    fragments: tuple[tuple[int, int], ...]

    @property
    def is_discontinuous(self) -> bool:
        return len(self.fragments) > 1

    @property
    def tokens(self) -> frozenset[int]:
        return frozenset(i for start, end in self.fragments for i in range(start, end))


def join_fragments(fragments: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Fragments in order, each once; those that touch or overlap are one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(fragments):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)


def write_fragments(doc: Doc, mentions: Iterable[DocMention], key: str) -> None:
    """Make `doc.spans[key]` the fragments of `mentions`, in their order.

    A fragment is a span with its mention's label and `kb_id_`; `span.id_`, a number from 1, is the same for the
    fragments of one mention and no others', which the group says of itself (`holds_fragments`). `Doc.to_bytes` and
    `.spacy` files keep all of it.
    """
    spans = [
        Span(doc, start, end, label=mention.label, kb_id=mention.kb_id, span_id=str(number))
        for number, mention in enumerate(mentions, 1)
        for start, end in mention.fragments
    ]
    doc.spans[key] = SpanGroup(doc, name=key, attrs={FRAGMENTS_ATTR: True}, spans=spans)


def holds_fragments(doc: Doc, key: str) -> bool:
    """Are the spans of `doc.spans[key]` fragments, those of one `id_` of one mention?"""
    return bool(key) and key in doc.spans and bool(doc.spans[key].attrs.get(FRAGMENTS_ATTR))


def read_fragments(doc: Doc, key: str) -> list[DocMention]:
    """The mentions of `doc.spans[key]`, as `write_fragments` writes them; a span without `id_` is a mention by
    itself."""
    found: dict[tuple[str, ...], list[Span]] = {}
    for number, span in enumerate(doc.spans.get(key, ())):
        own = ("shared", span.id_, span.kb_id_, span.label_) if span.id_ else ("alone", str(number))
        found.setdefault(own, []).append(span)
    return [
        DocMention(spans[0].kb_id_, spans[0].label_, join_fragments((span.start, span.end) for span in spans))
        for spans in found.values()
    ]
