"""The linked mentions of a doc, as views."""

from typing import List, Optional, Tuple

from spacy.tokens import Doc

from ..views import View, span_view

NIL = "NIL"


def linked_mentions(doc: Doc, spans_key: Optional[str] = None) -> List[Tuple[str, View]]:
    """(entity id, view) of every span that is linked to an entity, in document order; NIL and unlinked ones left out.

    spans_key: read `doc.spans[spans_key]`; None or "" reads `doc.ents`.
    """
    spans = doc.spans.get(spans_key, ()) if spans_key else doc.ents
    return [(span.kb_id_, span_view(span)) for span in spans if span.kb_id_ and span.kb_id_ != NIL]
