"""Attributes of linked docs and spans (`doc._`, `span._`), and functions that write links.

`factories` imports this module, hence every `spacy.blank()` does: docs that were linked elsewhere
can be read before any pipe of this package is created.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, SpanGroup

# Written as the id of a mention whose entity the knowledge base does not hold.
NIL = "NIL"
# Span extensions: the candidates, the ids that share the best score, the names of the re-rankers,
# and what the finder says of the mention.
CANDIDATES, TIES, RERANKED_BY, FOUND = SPAN_EXTENSIONS = (
    "krissel_candidates",
    "krissel_ties",
    "krissel_reranked_by",
    "krissel_found",
)
# Doc extensions: document-level entity labels, and the entities to look for.
ENTITIES, CANDIDATE_IDS = DOC_EXTENSIONS = ("krissel_entities", "krissel_entity_candidates")


class SpanLink(NamedTuple):
    """The link of one span.

    kb_id: entity id, or "NIL".
    candidates: best first, JSON-able. Each has id, name, score, and the kind and evidence text of
        the winning prototype; for a prototype seen in a text also its doc and source
        (`candidate_dicts`).
    ties: ids that share the best score, if there are two or more.
    """

    kb_id: str
    candidates: list[dict[str, Any]]
    ties: list[str]


class DocLinks(list[SpanLink]):
    """The links of a doc's spans, with the spans: each access to `doc.ents` creates new spans."""

    def __init__(self, links: Iterable[SpanLink], spans: Sequence[Span]) -> None:
        super().__init__(links)
        self.spans = spans


def write_links(
    doc: Doc,
    spans: Sequence[Span],
    links: Sequence[SpanLink | None],
    *,
    spans_key: str = "",
    overwrite: bool = True,
    reranker: str = "",
) -> None:
    """Write one link to each span of a doc; None leaves the span unchanged.

    `kb_id_` is set, and candidates and ties as extensions. Links of `doc.ents` go to the tokens,
    where spaCy keeps them. Links of `doc.spans[spans_key]` go to the spans of the group, since
    nested spans share tokens. Without `overwrite`, a span with a `kb_id_` is unchanged.

    reranker: the name of the pipe that re-scored the candidates, recorded on the span; "" for new
        candidates.
    """
    if not overwrite:
        links = [None if span.kb_id_ else link for span, link in zip(spans, links, strict=True)]
    data: dict[Any, Any] = doc.user_data
    add = doc.vocab.strings.add
    # Checked once: a check per span takes a fifth of the time.
    any_reranked = any(isinstance(key, tuple) and RERANKED_BY in key for key in data)
    for span, link in zip(spans, links, strict=True):
        if link is None:
            continue
        # Only Python lists, strings and numbers survive `Doc.to_bytes`. Empty values replace those
        # of an earlier run. Writing spaCy's own keys is six times as fast as `span._`.
        start, end = span.start_char, span.end_char
        data["._.", CANDIDATES, start, end], data["._.", TIES, start, end] = (
            link.candidates,
            link.ties,
        )
        if reranker:
            # Record the name once, even if two spans share the same offsets.
            span._.krissel_reranked_by = list(
                dict.fromkeys([*span._.krissel_reranked_by, reranker])
            )
        elif any_reranked and span._.krissel_reranked_by:
            span._.krissel_reranked_by = []
        if not spans_key:
            # Setting `span.kb_id_` on an entity changes only this view of the doc.
            kb_id = add(link.kb_id)
            for token in span:
                token.ent_kb_id = kb_id
    if spans_key:
        _write_group(doc, spans, links, spans_key)


def _write_group(
    doc: Doc, spans: Sequence[Span], links: Sequence[SpanLink | None], key: str
) -> None:
    old: SpanGroup = doc.spans[key]
    new: list[Span] = []
    for span, link in zip(spans, links, strict=True):
        if link is None:
            new.append(span)
            continue
        linked = Span(
            doc, span.start, span.end, label=span.label, kb_id=doc.vocab.strings.add(link.kb_id)
        )
        linked.id = span.id
        new.append(linked)
    doc.spans[key] = SpanGroup(doc, name=old.name, attrs=dict(old.attrs), spans=new)


def spans_of(doc: Doc, spans_key: str) -> tuple[Span, ...]:
    """Return the spans to link: `doc.ents`, or those of a group (none if the doc lacks the
    group).
    """
    if not spans_key:
        return tuple(doc.ents)
    return tuple(doc.spans[spans_key]) if spans_key in doc.spans else ()


def fragments_of(span: Span) -> Sequence[Sequence[int]]:
    """Return the (start, end) in characters of each part of the mention that a span stands for.

    There is more than one where `krissel_finder` wrote the part that stands apart in a coordination
    to `doc.ents`, which hold no discontinuous mention: *palate* for *cleft* … *palate*.
    """
    found = span._.get(FOUND) or {}
    return found.get("fragments") or [[span.start_char, span.end_char]]


def set_spans(doc: Doc, spans: Sequence[Span], spans_key: str) -> None:
    """Set `doc.spans[spans_key]`, or `doc.ents` if the key is "", to these spans."""
    if spans_key:
        doc.spans[spans_key] = list(spans)
    else:
        doc.ents = list(spans)


def kb_ents(span: Span) -> list[tuple[str, float]]:
    """Return the id and score of each candidate, best first, in the form of scispaCy's
    `kb_ents`.
    """
    return [(candidate["id"], candidate["score"]) for candidate in span._.krissel_candidates]


def register_extensions() -> None:
    """Register the extensions. Repeated calls have no effect; an existing `kb_ents` is kept."""
    if not Span.has_extension("kb_ents"):
        Span.set_extension("kb_ents", getter=kb_ents)
    for kind, names in ((Span, SPAN_EXTENSIONS), (Doc, DOC_EXTENSIONS)):
        for name in names:
            if not kind.has_extension(name):
                # Not a list: spaCy would store a copy with each doc that is accessed.
                kind.set_extension(name, default=())


register_extensions()
