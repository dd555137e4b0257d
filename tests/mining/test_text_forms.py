import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mining.text_forms import SpanHashes, Words, fold_case, forms, plain_form

wild = st.text(st.characters(codec=None) | st.sampled_from("abAB "), max_size=40)
pairs = st.text("aAb\x01\U0010ffff", max_size=12)


def both_hashes(plain, start=0, end=None):
    spans = SpanHashes(plain, fold_case(plain))
    place = np.array([start]), np.array([len(plain) if end is None else end])
    return int(spans.hashes(*place)[0]), int(spans.plain_hashes(*place)[0])


@given(wild, wild, wild)
def test_hash_of_a_span_is_independent_of_its_context(left, text, right):
    alone = SpanHashes(text, text)
    place = np.array([0]), np.array([len(text)])
    plain = int(alone.hashes(*place)[0])
    key = int(SpanHashes(fold_case(text), fold_case(text)).hashes(*place)[0])
    assert both_hashes(left + text + right, len(left), len(left + text)) == (key, plain)


@given(pairs, pairs)
def test_hashes_are_equal_only_for_equal_text(one, other):
    keys, plains = zip(both_hashes(one), both_hashes(other), strict=True)
    assert (plains[0] == plains[1]) == (one == other)
    assert (keys[0] == keys[1]) == (fold_case(one) == fold_case(other))


@given(wild)
def test_capitals_in_spans_are_found(text):
    key = fold_case(text)
    spans = SpanHashes(text, key)
    starts, ends = (np.ravel(places) for places in np.mgrid[: len(text) + 1, : len(text) + 1])
    assert spans.has_capital(starts, ends).tolist() == [
        text[start:end] != key[start:end] for start, end in zip(starts, ends, strict=True)
    ]
    assert len(spans) == len(text)


@given(wild)
def test_words_match_str_split(text):
    form = forms(text, fold=False).words
    words = Words(form)
    assert [
        form[start:end] for start, end in zip(words.starts, words.ends, strict=True)
    ] == form.split()
    places = np.arange(-1, len(form) + 1)
    assert words.inside(places).tolist() == [0 <= i < len(form) and form[i] != " " for i in places]


def test_empty_text_has_no_words_and_no_hashes():
    assert len(Words("").starts) == 0
    assert (
        len(SpanHashes("", "").hashes(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)))
        == 0
    )


any_text = st.text(st.characters(codec=None), max_size=60) | st.text(
    "aZİıßſΣςσµμé\u0301 \n\u00a0\u2013-_'’", max_size=30
)


@given(any_text, st.booleans())
def test_forms_keep_offsets(text, fold):
    plain, key, words = forms(text, fold)
    assert len(plain) == len(key) == len(words) == len(text)
    for char, kept in zip(key, words, strict=True):
        assert kept == (char if char.isalnum() or "\u0300" <= char <= "\u036f" else " ")


@given(any_text)
def test_fold_case_is_per_character_and_stable(text):
    assert fold_case(text) == "".join(map(fold_case, text))
    assert fold_case(fold_case(text)) == fold_case(text)


def test_characters_with_longer_lower_case_are_kept():
    assert len("İ".lower()) == 2
    assert fold_case("İ LUNG") == "İ lung"
    assert fold_case("ΟΔΟΣ Σ") == fold_case("οδος ς") == "οδοσ σ"


def test_plain_form_normalizes_typography_only():
    assert plain_form("Charcot–Marie‐Tooth’s\u00a0Disease\n") == "Charcot-Marie-Tooth's Disease "
    assert plain_form("5 \u00b5g") == plain_form("5 \u03bcg")
    # An em dash parts sentences; it joins no name.
    assert plain_form("a—b") == "a—b"


def test_combining_marks_belong_to_words():
    decomposed = unicodedata.normalize("NFD", "Ménière")
    assert forms(decomposed, fold=False).words == decomposed
