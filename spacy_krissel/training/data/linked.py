"""The linked mentions of a doc, as views."""

from typing import Iterator, List, Optional, Sequence, Tuple

from spacy.tokens import Doc, Span
from spacy.training import Example

from ...mentions.contexts import context_views
from ...mentions.gold_ids import NIL
from ...views import View, span_view


def linked_mentions(doc: Doc, spans_key: Optional[str] = None) -> List[Tuple[str, View]]:
    """(entity id, view) of every span that is linked to an entity, in document order; NIL and unlinked ones left out.

    spans_key: read `doc.spans[spans_key]`; None or "" reads `doc.ents`.
    """
    return [(span.kb_id_, span_view(span)) for span in _linked_spans(doc, spans_key)]


def mentions_in_context(doc: Doc, context: Optional[str], spans_key: str = "") -> List[Tuple[str, View]]:
    """(entity id, view) of every linked span, in a context as `context_views` takes it; spans without a link are mates
    in their sentences too.
    """
    spans = list(doc.spans.get(spans_key, ()) if spans_key else doc.ents)
    found = zip(spans, context_views(doc, spans, context), strict=True)
    return [(span.kb_id_, view) for span, view in found if span.kb_id_ not in ("", NIL)]


def single_mentions(example: Example, spans_key: str = "") -> Iterator[Tuple[str, Example]]:
    """(entity id, example) of every linked mention of an example: one that has this mention alone linked.

    An example of one linked mention is given as it is.
    """
    spans = _linked_spans(example.reference, spans_key)
    if len(spans) == 1:
        yield spans[0].kb_id_, example
        return
    for span in spans:
        doc = example.reference.copy()
        alone = [Span(doc, span.start, span.end, label=span.label, kb_id=span.kb_id)]
        if spans_key:
            doc.spans[spans_key] = alone
        else:
            doc.ents = alone
        yield span.kb_id_, Example(example.predicted, doc)


def _linked_spans(doc: Doc, spans_key: Optional[str]) -> Sequence[Span]:
    spans = doc.spans.get(spans_key, ()) if spans_key else doc.ents
    return [span for span in spans if span.kb_id_ and span.kb_id_ != NIL]
