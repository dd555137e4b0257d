import sys

import numpy as np
import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from lab.name_words import doc_words, split_words
from lab.spans.baselines import BiEncoder, FuzzyMatch, RuleMatch

from spacy_krissel.errors import KrisselError
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import write_store

NLP = spacy.blank("en")
ENTITIES = [
    Entity("F1", "Knee pain", ("pain in the knee",)),
    Entity("F2", "swelling of knee", ("knee swelling",)),
    Entity("F3", "headache", ("head pain",)),
    Entity("F4", "can't sleep", ("insomnia",)),
    Entity("F5", "pain"),
    Entity("F6", "of the", ("±",)),
]
IDS = [entity.id for entity in ENTITIES]


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    return write_store(ENTITIES, tmp_path_factory.mktemp("baselines") / "store")


@pytest.fixture(scope="module")
def fuzzy(findings):
    pytest.importorskip("rapidfuzz")
    return FuzzyMatch(findings)


def words_at(doc, pieces):
    return [doc[start:end].text for start, end in pieces]


def test_words_of_docs_and_names_are_split_the_same_way():
    doc = NLP("I can't sleep; X-RAY.")
    assert (
        [word.text for word in doc_words(doc)]
        == split_words(doc.text)
        == "i can t sleep x ray".split()
    )
    tokens = {word.text: doc[word.start : word.end].text for word in doc_words(doc)}
    assert tokens == {
        "i": "I",
        "can": "can't",
        "t": "n't",
        "sleep": "sleep",
        "x": "X",
        "ray": "RAY",
    }


@given(st.text())
def test_words_of_arbitrary_text_are_split_the_same_way(text):
    doc = NLP(text)
    assert [word.text for word in doc_words(doc)] == split_words(text)
    assert all(0 <= word.start < word.end <= len(doc) for word in doc_words(doc))


def test_rule_matches_across_stop_words(findings):
    doc = NLP("Pain and SWELLING in my knee")
    spans = RuleMatch(findings).spans(doc, IDS)
    assert words_at(doc, spans["F2"]) == ["SWELLING", "knee"]
    assert words_at(doc, spans["F5"]) == ["Pain"]
    # "swelling" stands between, and that is no stop word
    assert spans["F1"] == spans["F3"] == spans["F6"] == ()


def test_rule_takes_the_longest_of_overlapping_matches(tmp_path):
    store = write_store(
        [Entity("E", "back ache", ("chronic back ache", "ache", "ache relief"))], tmp_path / "store"
    )
    doc = NLP("chronic back ache relief, ache")
    assert words_at(doc, RuleMatch(store, stop=()).spans(doc, ["E"])["E"]) == [
        "chronic back ache",
        "ache",
    ]
    # "back" is a stop word of spaCy's.
    assert words_at(doc, RuleMatch(store).spans(doc, ["E"])["E"]) == ["chronic", "ache", "ache"]


def test_rule_can_match_words_in_any_order(findings):
    doc = NLP("pain of head")
    assert RuleMatch(findings).spans(doc, ["F3"]) == {"F3": ()}
    assert words_at(doc, RuleMatch(findings, any_order=True).spans(doc, ["F3"])["F3"]) == [
        "pain",
        "head",
    ]


def test_rule_scores_count_matched_words(findings):
    docs = [NLP("pain in the knee"), NLP("head and knee"), NLP(""), NLP("the pain")]
    scores = RuleMatch(findings).scores(docs, IDS)
    assert scores.tolist() == [
        [3, 0.5, 0.5, 0, 2, 0],  # a match of two words, one of one, halves of names
        [0.5, 0.5, 0.5, 0, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [0.5, 0, 0.5, 0, 2, 0],
    ]
    assert RuleMatch(findings).scores(docs, IDS[::-1]).tolist() == scores[:, ::-1].tolist()
    assert RuleMatch(findings).scores([], IDS).shape == (0, 6)
    assert RuleMatch(findings).scores(docs, []).shape == (4, 0)


def test_fuzzy_finds_a_misspelling(fuzzy):
    doc = NLP("I had a bad hedache and my nee pain")
    spans = fuzzy.spans(doc, IDS)
    assert words_at(doc, spans["F3"]) == ["hedache"]  # 1 edit of 8 letters
    assert words_at(doc, spans["F1"]) == ["nee pain"]  # 1 edit of 9
    assert words_at(doc, spans["F5"]) == ["pain"]
    assert spans["F2"] == spans["F4"] == ()


def test_fuzzy_match_respects_its_threshold(findings, fuzzy):
    doc = NLP("hedache")
    assert FuzzyMatch(findings, threshold=0.875).spans(doc, ["F3"])["F3"] == ((0, 1),)
    assert FuzzyMatch(findings, threshold=0.88).spans(doc, ["F3"])["F3"] == ()
    pains = NLP("pains")
    # 4 of 5, just so
    assert FuzzyMatch(findings, threshold=0.8).spans(pains, ["F5"])["F5"] == ((0, 1),)
    with pytest.raises(KrisselError, match="K006.*threshold"):
        FuzzyMatch(findings, threshold=80)


def test_fuzzy_windows_do_not_overlap(findings):
    doc = NLP("knee pain, then kne pain and pain in the knee")
    everywhere = FuzzyMatch(findings).spans(doc, ["F1"])["F1"]
    assert words_at(doc, everywhere) == ["knee pain", "kne pain", "pain in the knee"]
    assert words_at(doc, FuzzyMatch(findings, best_only=True).spans(doc, ["F1"])["F1"]) == [
        "knee pain"
    ]


def test_fuzzy_scores_are_similarities_of_the_best_window(fuzzy, monkeypatch):
    docs = [NLP("hedache"), NLP("the"), NLP("pain, hedache")]
    scores = fuzzy.scores(docs, IDS)
    assert scores[0, 2] == scores[2, 2] == pytest.approx(7 / 8)
    assert scores[2, 4] == 1
    assert scores[1].tolist() == [0] * 6
    # "can t sleep" and "hedache" share their e and a.
    assert (scores <= 1).all() and scores[0, 3] < 0.5
    monkeypatch.setattr("lab.spans.baselines.BLOCK_CELLS", 1)
    assert (fuzzy.scores(docs, IDS) == scores).all()
    assert fuzzy.scores([NLP("the")], IDS).tolist() == [[0] * 6]
    assert fuzzy.scores(docs, []).shape == (3, 0)


def test_fuzzy_match_without_rapidfuzz_raises_with_the_extra_to_install(findings, monkeypatch):
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    with pytest.raises(KrisselError, match=r"K737.*spacy-krissel\[fuzzy\]"):
        FuzzyMatch(findings)


class Letters:
    """Counts of p, k and h; notes how often names were encoded."""

    calls = 0

    def encode_names(self, names):
        self.calls += 1
        return self.encode_texts(names)

    def encode_texts(self, texts):
        return np.array([[text.count(letter) for letter in "pkh"] for text in texts])


def test_the_bi_encoder_scores_by_the_best_name(findings):
    encoder = Letters()
    system = BiEncoder(findings, encoder)
    docs = [NLP("hhh"), NLP("xyz")]
    scores = system.scores(docs, ["F3", "F5", "F1"])
    # headache (0, 0, 2) is the text's direction, head pain (1, 0, 1) is not; "pain in the knee" is
    # (1, 1, 1).
    assert scores[0] == pytest.approx([1, 0, 3**-0.5])
    assert scores[1].tolist() == [0, 0, 0]
    system.scores(docs, ["F3", "F5", "F1"])
    assert encoder.calls == 1
    assert not hasattr(system, "spans")
    assert system.scores([], ["F1"]).shape == (0, 1)
