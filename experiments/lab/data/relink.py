"""Gold documents with other ids."""

from collections.abc import Callable

from spacy.tokens import Doc, Span, SpanGroup

from spacy_krissel.mentions.gold_ids import split_ids


def relink(doc: Doc, rewrite: Callable[[str], str]) -> None:
    """Give every mention of `doc` the id that `rewrite` makes of its own, in place.

    Mentions are those of `doc.ents` and of all groups of spans; labels, and what is said about
    tokens outside mentions, stay. The labels of the whole text (`doc.cats`) are rewritten with
    them; one that becomes "no concept" is taken off.
    """

    def relinked(span: Span) -> Span:
        kb_id = rewrite(span.kb_id_)
        return Span(doc, span.start, span.end, label=span.label, kb_id=kb_id, span_id=span.id)

    doc.set_ents([relinked(span) for span in doc.ents], default="unmodified")
    for key, group in list(doc.spans.items()):
        spans = [relinked(span) for span in group]
        doc.spans[key] = SpanGroup(doc, name=group.name, attrs=dict(group.attrs), spans=spans)
    doc.cats = {
        concept: value for id_, value in doc.cats.items() for concept in split_ids(rewrite(id_))
    }
