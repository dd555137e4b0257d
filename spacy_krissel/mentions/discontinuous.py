"""Discontinuous mentions: their representation in docs.

In "pain and swelling in knee", *knee swelling* is one span of text and *knee pain* is not.
"""

from collections.abc import Iterable
from typing import NamedTuple

from spacy.tokens import Doc, Span, SpanGroup

# Span group with the fragments of discontinuous gold mentions; others are in
# `doc.spans["krissel"]`.
DISJOINT_KEY = "krissel_disjoint"
# Attribute of a span group whose spans with one `id_` are fragments of one mention. In other
# groups, `id_` may be anything, such as the id of a rule.
FRAGMENTS_ATTR = "krissel_fragments"


class DocMention(NamedTuple):
    """A mention and its concept, in one or more fragments.

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
    """Return the distinct fragments in order; touching or overlapping ones are merged."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(fragments):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return tuple(joined)


def write_fragments(doc: Doc, mentions: Iterable[DocMention], key: str) -> None:
    """Set `doc.spans[key]` to the fragments of `mentions`, in their order.

    A fragment is a span with its mention's label and `kb_id_`. All fragments of a mention share
    `span.id_`, a number from 1, and an attribute of the group marks this (`holds_fragments`).
    `Doc.to_bytes` and `.spacy` files preserve both.
    """
    spans = [
        Span(doc, start, end, label=mention.label, kb_id=mention.kb_id, span_id=str(number))
        for number, mention in enumerate(mentions, 1)
        for start, end in mention.fragments
    ]
    doc.spans[key] = SpanGroup(doc, name=key, attrs={FRAGMENTS_ATTR: True}, spans=spans)


def holds_fragments(doc: Doc, key: str) -> bool:
    """Return whether the spans of `doc.spans[key]` are fragments grouped by `id_`."""
    return bool(key) and key in doc.spans and bool(doc.spans[key].attrs.get(FRAGMENTS_ATTR))


def read_fragments(doc: Doc, key: str) -> list[DocMention]:
    """Return the mentions of `doc.spans[key]`, as written by `write_fragments`.

    A span without `id_` is a mention of its own.
    """
    found: dict[tuple[str, ...], list[Span]] = {}
    for number, span in enumerate(doc.spans.get(key, ())):
        own = ("shared", span.id_, span.kb_id_, span.label_) if span.id_ else ("alone", str(number))
        found.setdefault(own, []).append(span)
    return [
        DocMention(
            spans[0].kb_id_,
            spans[0].label_,
            join_fragments((span.start, span.end) for span in spans),
        )
        for spans in found.values()
    ]
