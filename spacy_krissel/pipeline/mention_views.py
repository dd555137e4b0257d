"""What the spans of a doc are to an encoder."""

from typing import List, Optional, Sequence

from spacy.tokens import Doc, Span

from ..corpora.sentences import context_views
from ..views import View, with_mentions
from .abbreviations import long_forms, write_out


def mention_views(doc: Doc, spans: Sequence[Span], *, context: Optional[str], use_abbreviations: bool) -> List[View]:
    """The view of each of a doc's spans in its context (`context_views`), with abbreviations written out or as they
    stand."""
    views = context_views(doc, spans, context)
    forms = long_forms(doc) if views and use_abbreviations else {}
    return [with_mentions(view, lambda mention: write_out(mention, forms)) for view in views] if forms else views
