"""Phrases of biomedical text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.lexical.phrases import is_ordinary, read_phrases

PHRASES = read_phrases()


@pytest.mark.parametrize("word", ["pain", "Hypertension", "hemolytic anemia"])
def test_words_of_texts_are_ordinary(word):
    assert is_ordinary(word)


@pytest.mark.parametrize("symbol", ["p53", "PAIN", "pAIN", "Brca1", "TP53", "", "frda"])
def test_symbols_are_not_ordinary(symbol):
    assert not is_ordinary(symbol)


@given(st.sampled_from(PHRASES))
def test_case_and_digits_decide(phrase):
    plain = phrase.lower()
    assert is_ordinary(plain) == (not any(map(str.isdigit, plain)))
    assert not is_ordinary(plain + "7")
    if plain[1:] != plain[1:].upper():
        assert not is_ordinary(plain.upper())
