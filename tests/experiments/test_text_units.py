import pytest
import spacy
from lab.data.text_units import text_units

from spacy_krissel.corpora.docs import ID_KEY, write_gold_mentions
from spacy_krissel.errors import KrisselError
from spacy_krissel.mentions.discontinuous import DocMention
from spacy_krissel.mentions.gold_mentions import gold_mentions

NLP = spacy.blank("en")


def doc_of(text, *mentions):
    doc = NLP(text)
    doc.user_data[ID_KEY] = "d"
    doc.cats = {"C9": 1.0}
    write_gold_mentions(doc, [DocMention(kb_id, "X", fragments) for kb_id, fragments in mentions])
    return doc


def units(doc, unit):
    parts = list(text_units(doc, unit))
    assert all(not part.cats for part in parts)
    mentions = [
        [(mention.kb_id, mention.fragments) for mention in gold_mentions(part)] for part in parts
    ]
    return [
        (part.user_data[ID_KEY], part.text, found)
        for part, found in zip(parts, mentions, strict=True)
    ]


def test_docs_are_split_into_sentences():
    # 0 Pain 1 and 2 swelling 3 . 4 It 5 is 6 a 7 knee 8 .
    doc = doc_of("Pain and swelling. It is a knee.", ("C1", ((0, 1), (2, 3))), ("C2", ((7, 8),)))
    assert units(doc, "sentence") == [
        ("d:1", "Pain and swelling. ", [("C1", ((0, 1), (2, 3)))]),
        ("d:2", "It is a knee.", [("C2", ((3, 4),))]),
    ]


def test_a_mention_across_sentences_joins_them():
    doc = doc_of("Pain. Not here. In the knee. Gone.", ("C1", ((0, 1), (6, 7))), ("C2", ((2, 3),)))
    assert units(doc, "sentence") == [
        ("d:1", "Pain. Not here. In the knee. ", [("C2", ((2, 3),)), ("C1", ((0, 1), (6, 7)))]),
        ("d:2", "Gone.", []),
    ]


def test_docs_are_split_into_lines():
    doc = doc_of("\n  Pain\n\n \nknee  pain\n", ("C1", ((1, 2),)), ("C2", ((3, 4), (5, 6))))
    assert [token.text for token in doc] == ["\n  ", "Pain", "\n\n \n", "knee", " ", "pain", "\n"]
    assert units(doc, "line") == [
        ("d:2", "Pain", [("C1", ((0, 1),))]),
        ("d:3", "knee  pain", [("C2", ((0, 1), (2, 3)))]),
    ]
    assert units(doc_of(" \n"), "line") == units(doc_of(""), "sentence") == []


def test_the_doc_itself_can_be_the_unit():
    doc = doc_of("Pain. Knee.")
    assert list(text_units(doc, "doc")) == [doc] and doc.cats
    with pytest.raises(KrisselError, match="K006.*page"):
        list(text_units(doc, "page"))
