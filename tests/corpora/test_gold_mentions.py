import pytest
import spacy
from spacy.tokens import Span

from spacy_krissel.corpora.gold_mentions import document_id, gold_spans


@pytest.fixture
def doc():
    doc = spacy.blank("en")("Cold and flu")
    doc.ents = [Span(doc, 0, 1, label="X", kb_id="D1")]
    return doc


def test_which_mentions_are_gold(doc):
    assert [span.text for span in gold_spans(doc)] == ["Cold"]
    doc.spans["krissel"] = [Span(doc, 0, 3), Span(doc, 2, 3)]
    doc.spans["own"] = [Span(doc, 2, 3)]
    # All mentions of the corpus, those that `doc.ents` cannot hold included.
    assert [span.text for span in gold_spans(doc)] == ["Cold and flu", "flu"]
    assert [span.text for span in gold_spans(doc, "own")] == ["flu"]
    assert list(gold_spans(doc, "missing")) == []


def test_a_document_without_an_id_is_known_by_its_text(doc):
    other = spacy.blank("en")("Cold and flu")
    assert document_id(doc) == document_id(other) != document_id(spacy.blank("en")("Cold"))
    doc.user_data["krissel_id"] = 7
    assert document_id(doc) == "7"
