"""Views of a doc's mentions in a window, or in a sentence with all of its mentions (BELHD §4.2)."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from spacy.pipeline import Sentencizer
from spacy.strings import get_string_id
from spacy.tokens import Doc, Span

from ..views import (
    View,
    doc_text,
    mention_view,
    name_view,
    passage_views,
    with_mention,
    with_mentions,
)
from .abbreviations import doc_definitions, document_expander, text_definitions
from .discontinuous import holds_fragments

# Longer sentences, or texts without punctuation, are not read whole for each mention, which would
# take quadratic time. Each mention gets this many characters on either side instead, more than any
# window of word pieces holds.
MAX_UNIT_CHARS = 4096
UNIT_REACH = 2048
# Tokens that end a sentence.
SENTENCE_ENDS = frozenset(map(get_string_id, Sentencizer.default_punct_chars))


def context_views(
    doc: Doc, spans: Sequence[Span], context: str | None, text: str | None = None
) -> list[View]:
    """Return the view of each span.

    context: "window", the text around each span; "sentence", its sentence, with the other spans
        there as co-mentions; None, the span alone.
    text: the doc's text, if known.
    """
    if not spans:
        return []
    if context is None:
        return [name_view(span.text) for span in spans]
    text = doc_text(doc) if text is None else text
    if context == "sentence":
        return sentence_views(doc, spans, text)
    return [mention_view(text, span.start_char, span.end_char) for span in spans]


def sentence_views(doc: Doc, spans: Sequence[Span], text: str | None = None) -> list[View]:
    """Return the view of each span in its sentence, with the sentence's other spans as co-mentions.

    Uses the doc's sentences if it has any, else those of spaCy's `Sentencizer`. Sentences that a
    span crosses are merged. Overlapping spans are never in one unit: the second begins another unit
    of the same text. In a sentence of more than `MAX_UNIT_CHARS` characters, each span gets a unit
    of the text around it.

    text: the doc's text, if known.
    """
    text = doc_text(doc) if text is None else text
    starts = sentence_starts(doc)
    views: list[View | None] = [None] * len(spans)
    for start, end, unit in _units(
        starts, len(text), [(span.start_char, span.end_char) for span in spans]
    ):
        if end - start > MAX_UNIT_CHARS:
            offsets = [(spans[i].start_char - start, spans[i].end_char - start) for i in unit]
            found = _near_views(text[start:end], offsets)
        else:
            edges = [
                start,
                *(edge for i in unit for edge in (spans[i].start_char, spans[i].end_char)),
                end,
            ]
            found = passage_views([text[first:last] for first, last in pairwise(edges)])
        for i, view in zip(unit, found, strict=True):
            views[i] = view
    return [view for view in views if view is not None]


def _near_views(text: str, offsets: Sequence[tuple[int, int]]) -> list[View]:
    """Return the view of each mention within `UNIT_REACH` characters, with the others there.

    offsets: (start, end) of each mention, in order.
    """
    views = []
    starts, ends = [start for start, _ in offsets], [end for _, end in offsets]
    for own, (start, end) in enumerate(offsets):
        view = mention_view(text, start, end, UNIT_REACH)
        first, last = start - len(view.left), end + len(view.right)
        near = range(bisect_left(starts, first), bisect_right(ends, last))
        co_mentions = tuple((starts[i] - first, ends[i] - first) for i in near if i != own)
        views.append(view._replace(co_mentions=co_mentions))
    return views


def sentence_starts(doc: Doc) -> list[int]:
    """Return the offsets at which sentences begin; the first is 0.

    A doc without them has those that spaCy's sentencizer would set.
    """
    if doc.has_annotation("SENT_START"):
        return sorted({0, *(sentence.start_char for sentence in doc.sents)})
    # The sentencizer itself creates each `Token`, which takes several times as long.
    orths = doc.to_array("ORTH").tolist()
    start, found = 0, [0]
    for end in [i for i, orth in enumerate(orths) if orth in SENTENCE_ENDS]:
        if end < start:
            continue
        start = end + 1
        while start < len(doc) and (orths[start] in SENTENCE_ENDS or doc[start].is_punct):
            start += 1
        if start < len(doc):
            found.append(doc[start].idx)
    return found


def _units(
    starts: list[int], end: int, offsets: list[tuple[int, int]]
) -> list[tuple[int, int, list[int]]]:
    """Return the start and end of each unit, and the indices of its mentions in order.

    starts: of the sentences. end: of the text. offsets: (start, end) of each mention.
    """
    order = sorted(range(len(offsets)), key=offsets.__getitem__)
    units: list[tuple[int, int, list[int]]] = []
    edges = [*starts[1:], end]
    sentence = 0
    i = 0
    while i < len(order):
        while edges[sentence] <= offsets[order[i]][0]:
            sentence += 1
        first = starts[sentence]
        # Extend the unit over all sentences that its mentions reach into.
        members: list[int] = []
        while i < len(order) and offsets[order[i]][0] < edges[sentence]:
            members.append(order[i])
            while edges[sentence] < offsets[order[i]][1]:
                sentence += 1
            i += 1
        layers: list[list[int]] = []
        for member in members:
            for layer in layers:
                if offsets[layer[-1]][1] <= offsets[member][0]:
                    layer.append(member)
                    break
            else:
                layers.append([member])
        units.extend((first, edges[sentence], layer) for layer in layers)
    return units


def mention_views(
    doc: Doc,
    spans: Sequence[Span],
    *,
    context: str | None,
    use_abbreviations: bool,
    spans_key: str = "",
) -> list[View]:
    """Return the views of a doc's spans, as in `read_mentions`."""
    return read_mentions(
        doc, spans, context=context, use_abbreviations=use_abbreviations, spans_key=spans_key
    )[0]


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
        views = [
            with_mentions(view, expand, span.start_char)
            for view, span in zip(views, spans, strict=True)
        ]
    if holds_fragments(doc, spans_key):
        views = _merge_fragments(views, mentions, spans)
    return views, mentions


def read_mention(
    text: str, start: int, end: int, *, in_window: bool, use_abbreviations: bool
) -> tuple[View, str]:
    """Return the view of the only mention of a text, `text[start:end]`, and the mention, as
    `read_mentions` of a doc for which no component set abbreviations.

    in_window: the view has the text around the mention, else the mention alone.
    """
    view = mention_view(text, start, end) if in_window else name_view(text[start:end])
    mention = view.mention
    defined = text_definitions(text, [mention]) if use_abbreviations else []
    if defined:
        view = with_mentions(view, document_expander(text, defined), start)
    return view, mention


def _merge_fragments(
    views: Sequence[View], mentions: list[str], spans: Sequence[Span]
) -> list[View]:
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
