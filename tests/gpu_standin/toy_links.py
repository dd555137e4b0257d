"""Texts with a mention each, and what a pipeline finds in them."""

from spacy.language import Language
from spacy.tokens import Doc

TEXTS = (
    ("Demyelinating lesions and relapses point to MS in this woman.", "MS"),
    ("Sneezing and a running nose for a week: common cold, caught at school.", "common cold"),
    ("A lump on the mammogram was breast cancer.", "breast cancer"),
    ("Wheezing at night from asthma was relieved.", "asthma"),
)


def link(nlp: Language) -> list[list[tuple[str, float]]]:
    """Return the entities that a pipeline finds in each of `TEXTS`, with their scores."""
    docs = []
    for text, mention in TEXTS:
        doc = nlp.make_doc(text)
        start = text.index(mention)
        doc.ents = [doc.char_span(start, start + len(mention), label="Disease")]
        docs.append(doc)
    for _, pipe in nlp.pipeline:
        docs = list(pipe.pipe(docs))
    return [found_in(doc) for doc in docs]


def found_in(doc: Doc) -> list[tuple[str, float]]:
    """Return the candidates of a doc's mentions, or the entities that an extractor found."""
    entities = doc._.krissel_entities if doc.has_extension("krissel_entities") else None
    if entities:
        return [(each["id"], each["score"]) for each in entities]
    return [(each["id"], each["score"]) for ent in doc.ents for each in ent._.krissel_candidates]
