"""What a linked span carries, and how it is written to a doc."""

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from spacy.tokens import Doc, Span, SpanGroup

# For the pipes, beside what they write it with.
from ..corpora.ids import NIL as NIL


class SpanLink(NamedTuple):
    """The answer for one span.

    kb_id: entity id, or "NIL".
    candidates: best first, JSON-able: id, name, score, kind of the winning prototype, and its text as evidence.
    ties: ids that share the best score, when there are two or more.
    """

    kb_id: str
    candidates: List[Dict[str, Any]]
    ties: List[str]


def register_extensions() -> None:
    """`span._.krissel_candidates` and `span._.krissel_ties`; a second call changes nothing."""
    for name in ("krissel_candidates", "krissel_ties"):
        if not Span.has_extension(name):
            Span.set_extension(name, default=[])


def write_links(
    doc: Doc, spans: Sequence[Span], links: Sequence[SpanLink], *, spans_key: str = "", overwrite: bool = True
) -> None:
    """Write one link to each span of a doc: `kb_id_`, and candidates and ties as extensions.

    Links of `doc.ents` go to the tokens, where spaCy keeps them. Links of `doc.spans[spans_key]` go to the spans of the
    group, since nested spans share tokens. Without `overwrite`, a span that has a `kb_id_` stays as it is.
    """
    for span, link in zip(spans, links):
        if span.kb_id_ and not overwrite:
            continue
        # Python lists, strings and numbers only: anything else would not survive `Doc.to_bytes`. Empty ones too, in the
        # place of what an earlier run left.
        span._.krissel_candidates = link.candidates
        span._.krissel_ties = link.ties
        if not spans_key:
            # Setting `span.kb_id_` on an entity changes that view of the doc alone.
            for token in span:
                token.ent_kb_id_ = link.kb_id
    if spans_key:
        _write_group(doc, spans, links, spans_key, overwrite)


def _write_group(doc: Doc, spans: Sequence[Span], links: Sequence[SpanLink], key: str, overwrite: bool) -> None:
    old: SpanGroup = doc.spans[key]
    new: List[Span] = []
    for span, link in zip(spans, links):
        if span.kb_id_ and not overwrite:
            new.append(span)
            continue
        linked = Span(doc, span.start, span.end, label=span.label, kb_id=doc.vocab.strings.add(link.kb_id))
        linked.id = span.id
        new.append(linked)
    doc.spans[key] = SpanGroup(doc, name=old.name, attrs=dict(old.attrs), spans=new)


def spans_of(doc: Doc, spans_key: str) -> Tuple[Span, ...]:
    """The spans to link: `doc.ents`, or those of a group (none when the doc has no such group)."""
    if not spans_key:
        return tuple(doc.ents)
    return tuple(doc.spans[spans_key]) if spans_key in doc.spans else ()
