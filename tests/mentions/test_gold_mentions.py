import pytest
import spacy
from spacy.tokens import Span

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.mentions.gold_mentions import Corrections, document_id, gold_spans


@pytest.fixture
def doc():
    doc = spacy.blank("en")("Cold and flu")
    doc.ents = [Span(doc, 0, 1, label="X", kb_id="D1")]
    return doc


def test_gold_spans_come_from_the_span_group_or_the_ents(doc):
    assert [span.text for span in gold_spans(doc)] == ["Cold"]
    doc.spans["krissel"] = [Span(doc, 0, 3), Span(doc, 2, 3)]
    doc.spans["own"] = [Span(doc, 2, 3)]
    # All mentions of the corpus, those that `doc.ents` cannot hold included.
    assert [span.text for span in gold_spans(doc)] == ["Cold and flu", "flu"]
    assert [span.text for span in gold_spans(doc, "own")] == ["flu"]
    assert list(gold_spans(doc, "missing")) == []


def test_document_without_an_id_is_identified_by_its_text(doc):
    other = spacy.blank("en")("Cold and flu")
    assert document_id(doc) == document_id(other) != document_id(spacy.blank("en")("Cold"))
    doc.user_data["krissel_id"] = 7
    assert document_id(doc) == "7"


def group(doc, *mentions):
    doc.spans["krissel"] = [
        Span(doc, start, end, label=label, kb_id=kb_id) for start, end, label, kb_id in mentions
    ]


def read(doc):
    corrections = Corrections()
    spans = gold_spans(doc, corrections=corrections)
    return [(span.start, span.end, span.label_, span.kb_id_) for span in spans], corrections


def test_corrected_entities_are_read_with_a_warning(doc):
    group(doc, (0, 1, "X", "D2"), (0, 3, "X", "D3"))
    found, corrections = read(doc)
    assert found == [(0, 1, "X", "D1"), (0, 3, "X", "D3")]
    assert (corrections.corrected, corrections.elsewhere, corrections.docs) == (1, 0, 1)
    with pytest.warns(KrisselWarning, match="KW030.*In 1 documents.*0-4.*1 mentions were read"):
        corrections.warn()
    # Whoever names the group has it as it is.
    assert [span.kb_id_ for span in gold_spans(doc, "krissel")] == ["D2", "D3"]


def test_entity_that_equals_a_mention_corrects_no_other(doc):
    mentions = [(0, 1, "X", "D1"), (0, 1, "Y", "D2"), (0, 1, "X", "D3")]
    group(doc, *mentions)
    found, corrections = read(doc)
    assert found == mentions and corrections == Corrections()


def test_correction_prefers_mentions_of_its_label(doc):
    group(doc, (0, 1, "X", "D7"), (0, 1, "Y", "D2"), (0, 1, "X", "D8"))
    assert read(doc)[0] == [(0, 1, "X", "D1"), (0, 1, "Y", "D2")]
    group(doc, (0, 1, "Z", "D7"))
    assert read(doc)[0] == [(0, 1, "X", "D1")]


def test_entity_without_a_link_corrects_nothing(doc):
    group(doc, (0, 1, "X", "D2"))
    doc.ents = [Span(doc, 0, 1, label="X")]
    found, corrections = read(doc)
    assert found == [(0, 1, "X", "D2")] and not corrections.docs


def test_linked_entity_outside_the_mentions_warns(doc):
    group(doc, (2, 3, "X", "D2"))
    found, corrections = read(doc)
    assert found == [(2, 3, "X", "D2")] and (corrections.corrected, corrections.elsewhere) == (0, 1)
    with pytest.warns(KrisselWarning, match="KW030.*1 linked entities"):
        corrections.warn()
