"""Tokens of long words: as spaCy's of others, in time that grows with the length, and where they
are in the text."""

import time

import pytest
import spacy
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc

from spacy_krissel.serving.tokens import CACHED_WORDS, MAX_WORD, n_cut, remember_words, tokenized

NLP = spacy.blank("en")


@given(
    st.text("ab (\t\n'_𝛽-", max_size=2 * MAX_WORD),
    st.text("a(_ '", min_size=1, max_size=5),
    st.integers(0, 200),
)
def test_tokens_are_at_their_offsets_in_the_text(text, part, n):
    text = f"{text}{part * n}{text}"
    doc = tokenized(NLP, text)
    assert doc.text == text
    assert all(text[token.idx : token.idx + len(token)] == token.text for token in doc)


@given(st.text("ab (\t\n'_.", max_size=MAX_WORD))
def test_short_words_have_spacys_tokens(text):
    assert [*map(str, tokenized(NLP, text))] == [*map(str, NLP.make_doc(text))]


@given(st.text("ab ('.", max_size=40), st.text("ab ('.", max_size=40))
def test_long_word_leaves_other_tokens_unchanged(before, after):
    alone = [
        str(token) for part in (before, after) for token in NLP.make_doc(part) if not token.is_space
    ]
    doc = tokenized(NLP, f"{before} {'a(' * MAX_WORD} {after}")
    kept = [str(token) for token in doc if not token.is_space]
    n = sum(not token.is_space for token in NLP.make_doc(before))
    assert len(kept) == len(alone) + 2 * MAX_WORD and kept[:n] + kept[n + 2 * MAX_WORD :] == alone


@pytest.mark.parametrize(
    "part", ["(", ")", '"', "_", "$", "%", "=", "😀", "°", "§", ":)", "*", "'s", "a(", "http://"]
)
def test_long_run_takes_linear_time(part):
    """spaCy takes 16 times as long for four times as many, and for 8,000 some ten seconds."""
    start = time.perf_counter()
    doc = tokenized(NLP, part * 8_000)
    assert time.perf_counter() - start < 5.0 and doc.text == part * 8_000


@given(st.text("ab (\t\n'_.", max_size=MAX_WORD), st.integers(0, 3))
def test_words_that_are_cut_are_counted(text, n):
    assert n_cut(" ".join([text] * (n + 1))) == 0
    assert n_cut(f"{text} " + "a( " * n + " ".join(["(" * 200] * n)) == n
    # A long word of letters stays whole.
    assert n_cut("a" * 1_000) == 0


def test_tokenizer_cache_is_enlarged_but_never_reduced():
    nlp = spacy.blank("en")
    expected = [token.text for token in nlp("a (tumour-like) lesion")]
    remember_words(nlp)
    assert nlp.tokenizer.max_cache_size == CACHED_WORDS
    assert [token.text for token in nlp("a (tumour-like) lesion")] == expected
    nlp.tokenizer.max_cache_size = 2 * CACHED_WORDS
    remember_words(nlp)
    assert nlp.tokenizer.max_cache_size == 2 * CACHED_WORDS
    nlp.tokenizer = lambda text: Doc(nlp.vocab, text.split())
    remember_words(nlp)
