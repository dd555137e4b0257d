"""What a linked span carries (`doc._`, `span._`), and how it is written to a doc.

`factories` imports this, and with it every `spacy.blank()`: docs that were linked elsewhere can be read before any
pipe of this package is made.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from spacy.tokens import Doc, Span, SpanGroup

# Of a span: the candidates, the ids that share the best score, and the re-rankers that scored the candidates again.
CANDIDATES, TIES, RERANKED_BY = SPAN_EXTENSIONS = ("krissel_candidates", "krissel_ties", "krissel_reranked_by")
# Of a doc: what a text speaks of, and which entities are looked for.
ENTITIES, CANDIDATE_IDS = DOC_EXTENSIONS = ("krissel_entities", "krissel_entity_candidates")


class SpanLink(NamedTuple):
    """The answer for one span.

    kb_id: entity id, or "NIL".
    candidates: best first, JSON-able: id, name, score, and of the winning prototype its kind, its text as evidence, and
        where it was seen in a text, the doc and source that it is from (`candidate_dicts`).
    ties: ids that share the best score, when there are two or more.
    """

    kb_id: str
    candidates: list[dict[str, Any]]
    ties: list[str]


class DocLinks(list[SpanLink]):
    """The links of a doc's spans, and these spans: spaCy makes those of `doc.ents` anew each time it is asked."""

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
    """Write one link to each span of a doc: `kb_id_`, and candidates and ties as extensions; None leaves it as it is.

    Links of `doc.ents` go to the tokens, where spaCy keeps them. Links of `doc.spans[spans_key]` go to the spans of the
    group, since nested spans share tokens. Without `overwrite`, a span that has a `kb_id_` stays as it is.

    reranker: the name of the pipe that scored the candidates again, which is kept on the span; "" for new candidates.
    """
    if not overwrite:
        links = [None if span.kb_id_ else link for span, link in zip(spans, links, strict=True)]
    data: dict[Any, Any] = doc.user_data
    add = doc.vocab.strings.add
    # Asked once: to look it up for each span takes a fifth of the time.
    any_reranked = any(isinstance(key, tuple) and RERANKED_BY in key for key in data)
    for span, link in zip(spans, links, strict=True):
        if link is None:
            continue
        # Python lists, strings and numbers only: anything else would not survive `Doc.to_bytes`. Empty ones too, in the
        # place of what an earlier run left. By spaCy's own keys: through `span._` it takes six times as long.
        start, end = span.start_char, span.end_char
        data["._.", CANDIDATES, start, end], data["._.", TIES, start, end] = link.candidates, link.ties
        if reranker:
            # Once, though two spans at one place share it.
            span._.krissel_reranked_by = list(dict.fromkeys([*span._.krissel_reranked_by, reranker]))
        elif any_reranked and span._.krissel_reranked_by:
            span._.krissel_reranked_by = []
        if not spans_key:
            # Setting `span.kb_id_` on an entity changes that view of the doc alone.
            kb_id = add(link.kb_id)
            for token in span:
                token.ent_kb_id = kb_id
    if spans_key:
        _write_group(doc, spans, links, spans_key)


def _write_group(doc: Doc, spans: Sequence[Span], links: Sequence[SpanLink | None], key: str) -> None:
    old: SpanGroup = doc.spans[key]
    new: list[Span] = []
    for span, link in zip(spans, links, strict=True):
        if link is None:
            new.append(span)
            continue
        linked = Span(doc, span.start, span.end, label=span.label, kb_id=doc.vocab.strings.add(link.kb_id))
        linked.id = span.id
        new.append(linked)
    doc.spans[key] = SpanGroup(doc, name=old.name, attrs=dict(old.attrs), spans=new)


def spans_of(doc: Doc, spans_key: str) -> tuple[Span, ...]:
    """The spans to link: `doc.ents`, or those of a group (none when the doc has no such group)."""
    if not spans_key:
        return tuple(doc.ents)
    return tuple(doc.spans[spans_key]) if spans_key in doc.spans else ()


def set_spans(doc: Doc, spans: Sequence[Span], spans_key: str) -> None:
    """Make these the spans of `doc.spans[spans_key]`, or of `doc.ents` where the key is ""."""
    if spans_key:
        doc.spans[spans_key] = list(spans)
    else:
        doc.ents = list(spans)


def kb_ents(span: Span) -> list[tuple[str, float]]:
    """`span._.kb_ents` as scispaCy has it: the id and score of each candidate, best first."""
    return [(candidate["id"], candidate["score"]) for candidate in span._.krissel_candidates]


def register_extensions() -> None:
    """A second call changes nothing; scispaCy's `kb_ents` stays where it is there already."""
    if not Span.has_extension("kb_ents"):
        Span.set_extension("kb_ents", getter=kb_ents)
    for kind, names in ((Span, SPAN_EXTENSIONS), (Doc, DOC_EXTENSIONS)):
        for name in names:
            if not kind.has_extension(name):
                # Not a list: one would be stored with each doc that is asked for it.
                kind.set_extension(name, default=())


register_extensions()
