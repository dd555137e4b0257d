"""Encoder input (views) of a doc's spans."""

from collections.abc import Sequence

from spacy.tokens import Doc, Span

from ..views import View, doc_text, with_mention, with_mentions
from .abbreviations import doc_definitions, document_expander
from .contexts import context_views
from .discontinuous import holds_fragments


def mention_views(
    doc: Doc, spans: Sequence[Span], *, context: str | None, use_abbreviations: bool, spans_key: str = ""
) -> list[View]:
    """Return the views of a doc's spans, as in `read_mentions`."""
    return read_mentions(doc, spans, context=context, use_abbreviations=use_abbreviations, spans_key=spans_key)[0]


def read_mentions(
    doc: Doc,
    spans: Sequence[Span],
    *,
    context: str | None,
    use_abbreviations: bool,
    spans_key: str = "",
    text: str | None = None,
) -> tuple[list[View], list[str]]:
    """Return the view of each span of a doc in its context (`context_views`), and its mention.

    Abbreviations are expanded in the views only. The mention is the doc's text, except for a
    discontinuous mention, whose fragments are joined as in its view.

    spans_key: the spans' group. If it holds fragments of mentions (`krissel_span_extractor`), each
        fragment gets the view of its whole mention: all fragments, at the position of the first.
    text: the doc's text, if known.
    """
    if not spans:
        return [], []
    text = doc_text(doc) if text is None else text
    views = context_views(doc, spans, context, text)
    mentions = [view.mention for view in views]
    defined = doc_definitions(doc, text, mentions) if use_abbreviations else []
    if defined:
        expand = document_expander(text, defined)
        views = [with_mentions(view, expand, span.start_char) for view, span in zip(views, spans, strict=True)]
    if holds_fragments(doc, spans_key):
        views = _merge_fragments(views, mentions, spans)
    return views, mentions


def _merge_fragments(views: Sequence[View], mentions: list[str], spans: Sequence[Span]) -> list[View]:
    fragments: dict[tuple[str, int], list[int]] = {}
    for row, span in enumerate(spans):
        fragments.setdefault((span.id_, 0) if span.id_ else ("", row), []).append(row)
    whole = list(views)
    for rows in fragments.values():
        if len(rows) > 1:
            rows.sort(key=lambda row: spans[row].start)
            view = with_mention(views[rows[0]], " ".join(views[row].mention for row in rows))
            for row in rows:
                whole[row], mentions[row] = view, view.mention
    return whole
