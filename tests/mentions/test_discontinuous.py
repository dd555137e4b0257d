"""Mentions in several fragments, on docs and off them again."""

from itertools import pairwise

import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, DocBin, Span

from spacy_krissel.mentions.discontinuous import (
    DISJOINT_KEY,
    DocMention,
    join_fragments,
    read_fragments,
    write_fragments,
)
from spacy_krissel.mentions.gold_mentions import gold_mentions

NLP = spacy.blank("en")
KNEE_PAIN = DocMention("C1", "Finding", ((0, 1), (4, 5)))
KNEE_SWELLING = DocMention("C2", "Finding", ((2, 5),))


def make_doc() -> Doc:
    return NLP("pain and swelling in knee")


def test_fragments_round_trip_through_a_file():
    doc = make_doc()
    write_fragments(doc, [KNEE_PAIN, KNEE_SWELLING], "found")
    saved = DocBin(docs=[doc]).to_bytes()
    again = next(DocBin().from_bytes(saved).get_docs(spacy.blank("en").vocab))
    assert read_fragments(again, "found") == [KNEE_PAIN, KNEE_SWELLING]
    assert [span.text for span in again.spans["found"]] == ["pain", "knee", "swelling in knee"]


def test_two_mentions_of_one_concept_stay_separate():
    doc = make_doc()
    twice = [DocMention("C1", "Finding", ((0, 1),)), DocMention("C1", "Finding", ((4, 5),))]
    write_fragments(doc, twice, "found")
    assert read_fragments(doc, "found") == twice


def test_span_without_a_number_is_a_mention_of_its_own():
    doc = make_doc()
    doc.spans["found"] = [
        Span(doc, 0, 1, "Finding", kb_id="C1"),
        Span(doc, 4, 5, "Finding", kb_id="C1"),
    ]
    assert [mention.fragments for mention in read_fragments(doc, "found")] == [((0, 1),), ((4, 5),)]


def test_gold_mentions_are_continuous_and_discontinuous():
    doc = make_doc()
    doc.spans["krissel"] = [Span(doc, 2, 5, "Finding", kb_id="C2")]
    write_fragments(doc, [KNEE_PAIN], DISJOINT_KEY)
    assert gold_mentions(doc) == [KNEE_SWELLING, KNEE_PAIN]
    assert [mention.is_discontinuous for mention in gold_mentions(doc)] == [False, True]
    assert KNEE_PAIN.tokens == {0, 4}


def test_missing_span_group_has_no_mentions():
    assert read_fragments(make_doc(), "found") == []


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(1, 5)), max_size=8))
def test_joined_fragments_cover_the_same_tokens_and_never_touch(found):
    fragments = [(start, start + length) for start, length in found]
    joined = join_fragments(fragments)
    assert {i for start, end in joined for i in range(start, end)} == {
        i for s, e in fragments for i in range(s, e)
    }
    assert all(first[1] < second[0] for first, second in pairwise(joined))
