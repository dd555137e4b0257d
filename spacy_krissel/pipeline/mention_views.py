"""What the spans of a doc are to an encoder."""

from typing import List, Sequence

from spacy.tokens import Doc, Span

from ..views import View, doc_text, mention_view, name_view
from .abbreviations import long_forms, write_out


def mention_views(doc: Doc, spans: Sequence[Span], *, use_context: bool, use_abbreviations: bool) -> List[View]:
    """The view of each of a doc's spans: in its context or alone, with abbreviations written out or as they stand."""
    if not spans:
        return []
    if use_context:
        text = doc_text(doc)
        views = [mention_view(text, span.start_char, span.end_char) for span in spans]
    else:
        views = [name_view(span.text) for span in spans]
    if use_abbreviations:
        mentions = write_out([view.mention for view in views], long_forms(doc))
        views = [view._replace(mention=mention) for view, mention in zip(views, mentions)]
    return views
