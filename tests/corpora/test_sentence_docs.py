"""Sentences as documents of their own."""

import spacy
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.corpora.annotation import AnnotatedText, Mention
from spacy_krissel.corpora.docs import sentence_docs, to_doc
from spacy_krissel.corpora.report import CorpusReport
from spacy_krissel.mentions.discontinuous import DocMention
from spacy_krissel.mentions.gold_mentions import gold_mentions

NLP = spacy.blank("en")


def mention(text, kb_id, *fragments):
    """A mention of the given parts of `text`."""
    places = tuple(
        (text.index(fragment), text.index(fragment) + len(fragment)) for fragment in fragments
    )
    return Mention(places, " ".join(fragments), "Finding", kb_id)


def split(text, *mentions):
    report = CorpusReport()
    doc = to_doc(AnnotatedText("7", text, list(mentions)), NLP, report=CorpusReport())
    return list(sentence_docs(doc, report=report)), report


def test_each_sentence_keeps_its_mentions():
    text = "Gout  recurred. Pain and swelling in knee!\n"
    mentions = [
        mention(text, "D1", "Gout"),
        mention(text, "D2", "Pain", "knee"),
        mention(text, "D3", "swelling in knee"),
    ]
    (first, second), report = split(text, *mentions)
    assert (first.text, second.text) == ("Gout  recurred.", "Pain and swelling in knee!")
    assert [doc.user_data["krissel_id"] for doc in (first, second)] == ["7:1", "7:2"]
    assert gold_mentions(first) == [DocMention("D1", "Finding", ((0, 1),))]
    assert gold_mentions(second) == [
        DocMention("D3", "Finding", ((2, 5),)),
        DocMention("D2", "Finding", ((0, 1), (4, 5))),
    ]
    assert [(ent.text, ent.label_, ent.kb_id_) for ent in second.ents] == [
        ("swelling in knee", "Finding", "D3")
    ]
    assert "krissel_disjoint" not in first.spans
    assert report.to_dict()["counts"] == {"sentences": 2}


def test_a_heading_is_a_sentence_and_a_single_line_end_is_no_boundary():
    docs, _ = split("Results\n\nPain was\nsevere.\n \nEnd")
    assert [doc.text for doc in docs] == ["Results", "Pain was\nsevere.", "End"]


def test_a_mention_across_sentences_joins_them():
    text = "See E. coli here. Pain! In knee too. End."
    docs, report = split(text, mention(text, "D1", "E. coli"), mention(text, "D2", "Pain", "knee"))
    assert [doc.text for doc in docs] == ["See E. coli here.", "Pain! In knee too.", "End."]
    assert [[found.kb_id for found in gold_mentions(doc)] for doc in docs] == [["D1"], ["D2"], []]
    # The tokenizer keeps "E." whole, so that the second mention alone meets a border.
    assert (report["across_sentences"], report["joined_sentences"], report["sentences"]) == (
        1,
        1,
        3,
    )


def test_white_space_gives_no_docs():
    assert split(" \n\n ")[0] == split("")[0] == []


@given(st.text(st.sampled_from("ab. !\n"), max_size=40), st.data())
def test_no_mention_is_lost(text, data):
    place = st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(sorted).map(tuple)
    mentions = []
    for number, fragments in enumerate(
        data.draw(st.lists(st.lists(place, min_size=1, max_size=3), max_size=4))
    ):
        stated = " ".join(text[first:last] for first, last in fragments)
        mentions.append(Mention(tuple(fragments), stated, "", f"D{number}"))
    doc = to_doc(AnnotatedText("7", text, mentions), NLP, report=CorpusReport())

    def said(doc):
        return sorted(
            (m.kb_id, [doc[start:end].text for start, end in m.fragments])
            for m in gold_mentions(doc)
        )

    docs = list(sentence_docs(doc, report=CorpusReport()))
    assert sorted(found for each in docs for found in said(each)) == said(doc)
    assert "".join("".join(each.text.split()) for each in docs) == "".join(text.split())
    assert sum(len(each.ents) for each in docs) == len(doc.ents)
