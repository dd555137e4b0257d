"""Which entities a text speaks of."""

import spacy
from lab.data.relink import relink
from spacy.tokens import DocBin, Span

from spacy_krissel.mentions.discontinuous import DISJOINT_KEY, DocMention, write_fragments
from spacy_krissel.mentions.gold_mentions import gold_mentions, text_labels

NLP = spacy.blank("en")


def make_doc():
    doc = NLP("pain and swelling in knee or knee")
    ids = ((2, 5, "C2"), (4, 5, "NIL"), (6, 7, "C3|C2+C4"), (3, 4, ""))
    doc.spans["krissel"] = [
        Span(doc, start, end, label="Finding", kb_id=kb_id) for start, end, kb_id in ids
    ]
    write_fragments(doc, [DocMention("C1|-1", "Finding", ((0, 1), (4, 5)))], DISJOINT_KEY)
    return doc


def test_labels_are_the_concepts_of_all_mentions():
    assert text_labels(make_doc()) == {"C2": 1.0, "C3": 1.0, "C4": 1.0, "C1": 1.0}
    assert text_labels(NLP("pain")) == {}


def test_labels_round_trip_through_a_file():
    doc = make_doc()
    doc.cats = text_labels(doc)
    (again,) = DocBin(docs=[doc]).get_docs(NLP.vocab)
    assert again.cats == text_labels(doc)


def test_relinking_mentions_updates_the_labels():
    """A benchmark for mentions outside the knowledge base removes entities in this way."""
    doc = make_doc()
    doc.cats = text_labels(doc)
    rewritten = {"C1|-1": "D1", "C1": "D1", "C2": "NIL", "C3|C2+C4": "C3|C4"}
    relink(doc, lambda id_: rewritten.get(id_, id_))
    assert doc.cats == {"C3": 1.0, "C4": 1.0, "D1": 1.0} and doc.cats == text_labels(doc)
    assert gold_mentions(doc)[-1] == DocMention("D1", "Finding", ((0, 1), (4, 5)))
    assert len({span.id_ for span in doc.spans[DISJOINT_KEY]}) == 1
