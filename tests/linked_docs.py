"""Docs with mentions that have candidates, and what a writer of `render/formats` makes of them."""

import io

import spacy

from spacy_krissel.mentions.gold_mentions import ID_KEY
from spacy_krissel.render.formats import WRITERS

NLP = spacy.blank("en")


def linked_doc(text, id_, mentions):
    """mentions: start, end, label and candidates, of which the first is the link."""
    doc = NLP.make_doc(text)
    doc.user_data[ID_KEY] = id_
    ents = []
    for start, end, label, candidates in mentions:
        span = doc.char_span(
            start, end, label=label, kb_id=candidates[0]["id"] if candidates else ""
        )
        span._.krissel_candidates = candidates
        ents.append(span)
    doc.set_ents(ents)
    return doc


def written(ending, *docs):
    file_ = io.BytesIO()
    WRITERS[ending](iter(docs), "", file_)
    return file_.getvalue()
