import pytest
import spacy
from spacy.tokens import Span

from spacy_krissel.training.data.linked import linked_mentions
from spacy_krissel.views import View


@pytest.fixture
def doc():
    doc = spacy.blank("en")("Cold and flu and asthma and MS")
    ids = {0: "D1", 2: "NIL", 4: "", 6: "D2"}
    doc.ents = [Span(doc, i, i + 1, label="X", kb_id=id_) for i, id_ in ids.items()]
    doc.spans["nested"] = [Span(doc, 2, 5, kb_id="D3"), Span(doc, 4, 5, kb_id="D4"), Span(doc, 0, 1)]
    return doc


def test_mentions_without_an_entity_are_left_out(doc):
    expected = [("D1", View("", "Cold", " and flu and asthma and MS")), ("D2", View(doc.text[:-2], "MS", ""))]
    assert linked_mentions(doc) == expected
    # As the linker's setting `spans_key` says "the entities of the doc".
    assert linked_mentions(doc, "") == expected


def test_mentions_of_a_span_group(doc):
    assert [(id_, view.mention) for id_, view in linked_mentions(doc, "nested")] == [
        ("D3", "flu and asthma"),
        ("D4", "asthma"),
    ]
    assert linked_mentions(doc, "missing") == []
