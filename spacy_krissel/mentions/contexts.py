"""The views of mentions, in contexts: a window, or a sentence with all of its mentions (BELHD §4.2)."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from spacy.pipeline import Sentencizer
from spacy.tokens import Doc, Span

from ..views import View, doc_text, mention_view, name_view, passage_views, with_mention, with_mentions
from .abbreviations import doc_definitions, document_writer
from .discontinuous import holds_fragments

# A sentence, or a text without punctuation, of more characters is not read whole for each of its mentions, which would
# take time with their square: what is read is so much on either side, more than any window of word pieces holds.
LONGEST_UNIT = 4096
UNIT_REACH = 2048


def context_views(doc: Doc, spans: Sequence[Span], context: str | None, text: str | None = None) -> list[View]:
    """The view of each span.

    context: "window", the text around each span; "sentence", its sentence, with the other spans there as co-mentions;
        None, the span alone.
    text: the doc's, where it is known.
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
    """The view of each span in its sentence, with the sentence's other spans as its co-mentions.

    Sentences are the doc's own where it has any, else spaCy's `Sentencizer` tells them by their punctuation; those that
    a span reaches across are one. Spans that overlap are never in one unit: the second begins another of the same text.
    In a sentence of more than `LONGEST_UNIT` characters each span has a unit of its own, of what is near it.

    text: the doc's, where it is known.
    """
    text = doc_text(doc) if text is None else text
    starts = sentence_starts(doc)
    views: list[View | None] = [None] * len(spans)
    for start, end, unit in _units(starts, len(text), [(span.start_char, span.end_char) for span in spans]):
        if end - start > LONGEST_UNIT:
            places = [(spans[i].start_char - start, spans[i].end_char - start) for i in unit]
            found = _near_views(text[start:end], places)
        else:
            edges = [start, *(edge for i in unit for edge in (spans[i].start_char, spans[i].end_char)), end]
            found = passage_views([text[first:last] for first, last in pairwise(edges)])
        for i, view in zip(unit, found, strict=True):
            views[i] = view
    return [view for view in views if view is not None]


def _near_views(text: str, places: Sequence[tuple[int, int]]) -> list[View]:
    """The view of each of the places, in order, with `UNIT_REACH` characters on either side and the others there."""
    views = []
    starts, ends = [start for start, _ in places], [end for _, end in places]
    for own, (start, end) in enumerate(places):
        view = mention_view(text, start, end, UNIT_REACH)
        first, last = start - len(view.left), end + len(view.right)
        near = range(bisect_left(starts, first), bisect_right(ends, last))
        co_mentions = tuple((starts[i] - first, ends[i] - first) for i in near if i != own)
        views.append(view._replace(co_mentions=co_mentions))
    return views


def sentence_starts(doc: Doc) -> list[int]:
    """The offsets at which sentences begin, the first 0."""
    if doc.has_annotation("SENT_START"):
        found = [sentence.start_char for sentence in doc.sents]
    else:
        (guesses,) = Sentencizer().predict([doc])
        found = [token.idx for token, is_start in zip(doc, guesses, strict=True) if is_start]
    return sorted({0, *found})


def _units(starts: list[int], end: int, places: list[tuple[int, int]]) -> list[tuple[int, int, list[int]]]:
    """Where each unit begins and ends, and its places by number, in order.

    starts: of the sentences. end: of the text. places: where each mention begins and ends.
    """
    order = sorted(range(len(places)), key=places.__getitem__)
    units: list[tuple[int, int, list[int]]] = []
    edges = [*starts[1:], end]
    sentence = 0
    i = 0
    while i < len(order):
        while edges[sentence] <= places[order[i]][0]:
            sentence += 1
        first = starts[sentence]
        # As many sentences as its mentions reach into.
        members: list[int] = []
        while i < len(order) and places[order[i]][0] < edges[sentence]:
            members.append(order[i])
            while edges[sentence] < places[order[i]][1]:
                sentence += 1
            i += 1
        layers: list[list[int]] = []
        for member in members:
            for layer in layers:
                if places[layer[-1]][1] <= places[member][0]:
                    layer.append(member)
                    break
            else:
                layers.append([member])
        units.extend((first, edges[sentence], layer) for layer in layers)
    return units


def mention_views(
    doc: Doc, spans: Sequence[Span], *, context: str | None, use_abbreviations: bool, spans_key: str = ""
) -> list[View]:
    """The views of a doc's spans, as `read_mentions` has them."""
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
    """The view of each of a doc's spans in its context (`context_views`), with abbreviations written out or as they
    stand, and the mention as the doc writes it, but that of several fragments as in its view.

    spans_key: the group that they are of. Where it holds the fragments of mentions (`krissel_span_extractor`), each
        fragment has the view of its whole mention: all of its fragments, in the place of the first.
    text: the doc's, where it is known.
    """
    if not spans:
        return [], []
    text = doc_text(doc) if text is None else text
    views = context_views(doc, spans, context, text)
    mentions = [view.mention for view in views]
    defined = doc_definitions(doc, text, mentions) if use_abbreviations else []
    if defined:
        write_out = document_writer(text, defined)
        views = [with_mentions(view, write_out, span.start_char) for view, span in zip(views, spans, strict=True)]
    if holds_fragments(doc, spans_key):
        views = _whole_mentions(views, mentions, spans)
    return views, mentions


def _whole_mentions(views: Sequence[View], mentions: list[str], spans: Sequence[Span]) -> list[View]:
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
