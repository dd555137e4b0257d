"""What the spans of a doc are to an encoder."""

from typing import List, Optional, Sequence

from spacy.tokens import Doc, Span

from ..corpora.sentences import sentence_views
from ..views import View, doc_text, mention_view, name_view, with_mentions
from .abbreviations import long_forms, write_out

CONTEXTS = ("window", "sentence")


def mention_views(doc: Doc, spans: Sequence[Span], *, context: Optional[str], use_abbreviations: bool) -> List[View]:
    """The view of each of a doc's spans, with abbreviations written out or as they stand.

    context: "window", the text about each span; "sentence", its sentence, with the other spans there as mates; None,
        the span alone.
    """
    if not spans:
        return []
    if context == "sentence":
        views = sentence_views(doc, spans)
    elif context == "window":
        text = doc_text(doc)
        views = [mention_view(text, span.start_char, span.end_char) for span in spans]
    else:
        views = [name_view(span.text) for span in spans]
    forms = long_forms(doc) if use_abbreviations else {}
    return [with_mentions(view, lambda mention: write_out(mention, forms)) for view in views] if forms else views
