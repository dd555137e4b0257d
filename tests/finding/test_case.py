"""Where the capitals of a text let a mention differ from its name."""

import string
from itertools import pairwise

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from spacy_krissel.finding.case import (
    MAX_LOWER,
    MIN_LOWER,
    Capitals,
    capital_runs,
    lower_case_words,
)
from spacy_krissel.finding.finder import NameFinder
from spacy_krissel.finding.table import NameBags

PLAIN = sorted(word for word in lower_case_words() if 4 <= len(word) <= MAX_LOWER)


def found(text, *names):
    finder = NameFinder(NameBags.of([(name, i) for i, name in enumerate(names)], names))
    return [(match.text, match.named.name) for match in finder.find([text])[0]]


# Capitals that no ordinary word has ---------------------------------------------------------------


@pytest.mark.parametrize(
    "name, mention",
    [
        ("HELA", "HeLa"),
        ("HTERT", "hTERT"),
        ("HEP3B", "Hep3B"),
        ("JURKAT", "Jurkat"),
        ("VERO", "Vero"),
        ("ISHIKAWA", "Ishikawa"),
        ("MOLT 4", "Molt-4"),
        ("SK-LOVO", "SK-LoVo"),
    ],
)
def test_a_name_in_capitals_is_found_in_other_capitals(name, mention):
    assert found(f"{mention} cells, or {mention}.", name) == [(mention, name)] * 2
    # The name in the same case is better.
    assert found(f"{mention} cells", name, mention) == [(mention, mention)]


@pytest.mark.parametrize(
    "name, text",
    [
        ("CAT", "Cat"),
        ("WAS", "Was"),
        ("AIDS", "Aids"),
        ("FOCUS", "Focus"),
        ("BEAR", "Bears"),
        ("HDLS", "HDLs"),
        ("T-ALL", "T All"),
        ("TO-PP", "to PP"),
        ("HELA", "hela"),
        ("CHED", "cheD"),
        ("FRDA", "Frda"),
        ("ARNT", "Arnt"),
        ("IGE", "IgE"),
        # A part of a compound, and a surname.
        ("MANN", "Mann-Whitney"),
        ("LEMLI", "Smith-Lemli"),
        ("VERO", "Vero et al."),
        # Neither has a case that is known.
        ("StAR", "Star"),
        ("mRNA", "MRNA"),
        ("flip", "FLIP"),
        ("ache", "AChE"),
    ],
)
def test_a_word_or_another_acronym_is_no_name(name, text):
    assert found(f"We saw {text} there, and {text}", name) == []


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PLAIN), st.sampled_from([str.lower, str.capitalize]))
def test_a_plain_word_is_never_an_acronym(word, written):
    assert found(f"{written(word)} was seen. The {written(word)}", word.upper()) == []


@settings(max_examples=100, deadline=None)
@given(st.text(string.ascii_letters, min_size=4, max_size=MAX_LOWER))
@example("HeLa")
def test_a_word_with_several_capitals_is_the_name_in_capitals(word):
    assume(sum(map(str.isupper, word)) > 1 and not word.removesuffix("s").isupper())
    assert found(f"a {word} cell", word.upper())[:1] == [(word, word.upper())]


# Text in capitals ---------------------------------------------------------------------------------

ORGANS = ["liver", "heart", "lung", "brain", "pons", "spleen"]


def test_short_names_are_found_in_text_in_capitals():
    text = "LIVER: NORMAL, 5 cm.\nHEART AND LUNGS ARE CLEAR.\nNO PAIN IN BRAIN; PONS, SPLEEN NORMAL"
    expected = ["LIVER", "HEART", "LUNGS", "BRAIN", "PONS", "SPLEEN"]
    assert [mention for mention, _ in found(text, *ORGANS)] == expected
    # Nor does the case of other names count there.
    assert found("WE SAW HELA CELLS THERE", "HeLa") == [("HELA", "HeLa")]


@pytest.mark.parametrize(
    "text",
    [
        "The LIVER study",
        "LIVER, HEART",
        "PONS",
        "The LIVER, HEART and LUNG trials",
        "(LIVER) HEART: GBVT, KQX, ZZPQ, HJKL, DFGH, WVT, XCV",
        "THE STUDY WAS STOPPED EARLY.\nIn LIVER it was not",
    ],
)
def test_capitals_in_other_text_are_acronyms(text):
    assert found(text, "liver", "heart", "lung", "pons") == []


def test_acronyms_are_found_in_text_in_capitals_as_before():
    text = "THE PATIENT HAS AIDS AND A COLD, NOT WAS"
    assert found(text, "AIDS", "cold", "WAS", "aid") == [("AIDS", "AIDS"), ("COLD", "cold")]


SENTENCES = st.lists(st.sampled_from(PLAIN), min_size=3, max_size=8).map(" ".join)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(SENTENCES, st.booleans()), min_size=1, max_size=6),
    st.sampled_from([". ", "\n", "? ", "; "]),
)
def test_runs_are_the_sentences_in_capitals(sentences, end):
    parts = [(s.upper() if is_upper else s) + end for s, is_upper in sentences]
    text = "".join(parts)
    runs = capital_runs(text)
    inside = [any(first <= i < last for first, last in runs) for i in range(len(text))]
    assert all(inside[i] == char.isupper() for i, char in enumerate(text) if char.isalpha())


@settings(max_examples=100, deadline=None)
@given(st.text(st.sampled_from("ABab .\n;!?éÉßİ-\u0301\ud8005中"), max_size=60))
def test_runs_of_any_text(text):
    runs = capital_runs(text)
    assert all(0 <= first < last <= len(text) for first, last in runs)
    assert all(one[1] <= two[0] for one, two in pairwise(runs))
    for start in range(len(text)):
        Capitals(text).is_free(start, min(start + 4, len(text)))


def test_each_character_of_a_text_is_read_once():
    text = "LIVER. " * 50_000
    assert capital_runs(text) == [(0, len(text))]
    capitals = Capitals(text)
    assert all(capitals.is_free(start, start + 5) for start in range(0, len(text), 7))
    assert capital_runs(("LIVER " * 3 + ". x y abc. ") * 20_000)[1][0] > 0


def test_words_in_lower_case():
    words = lower_case_words()
    assert all(word.islower() and MIN_LOWER <= len(word) <= MAX_LOWER for word in words)
    assert {"cat", "was", "liver", "focus"} <= words and words.isdisjoint(("hela", "jurkat"))
