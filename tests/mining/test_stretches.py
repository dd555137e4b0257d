import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mining.stretches import Stretches, Words
from spacy_krissel.mining.text_folding import fold_case, forms

wild = st.text(st.characters(codec=None) | st.sampled_from("abAB "), max_size=40)
pairs = st.text("aAb\x01\U0010ffff", max_size=12)


def both_hashes(plain, start=0, end=None):
    stretches = Stretches(plain, fold_case(plain))
    place = np.array([start]), np.array([len(plain) if end is None else end])
    return int(stretches.hashes(*place)[0]), int(stretches.plain_hashes(*place)[0])


@given(wild, wild, wild)
def test_the_hash_of_a_stretch_is_of_its_characters_alone(left, text, right):
    alone = Stretches(text, text)
    place = np.array([0]), np.array([len(text)])
    plain = int(alone.hashes(*place)[0])
    key = int(Stretches(fold_case(text), fold_case(text)).hashes(*place)[0])
    assert both_hashes(left + text + right, len(left), len(left + text)) == (key, plain)


@given(pairs, pairs)
def test_other_characters_have_another_hash(one, other):
    keys, plains = zip(both_hashes(one), both_hashes(other), strict=True)
    assert (plains[0] == plains[1]) == (one == other)
    assert (keys[0] == keys[1]) == (fold_case(one) == fold_case(other))


@given(wild)
def test_capitals(text):
    key = fold_case(text)
    stretches = Stretches(text, key)
    starts, ends = (np.ravel(places) for places in np.mgrid[: len(text) + 1, : len(text) + 1])
    assert stretches.has_capital(starts, ends).tolist() == [
        text[start:end] != key[start:end] for start, end in zip(starts, ends, strict=True)
    ]
    assert len(stretches) == len(text)


@given(wild)
def test_words(text):
    form = forms(text, fold=False).words[1:-1]
    words = Words(form)
    assert [form[start:end] for start, end in zip(words.starts, words.ends, strict=True)] == form.split()
    places = np.arange(-1, len(form) + 1)
    assert words.inside(places).tolist() == [0 <= i < len(form) and form[i] != " " for i in places]


def test_no_text():
    assert len(Words("").starts) == 0
    assert len(Stretches("", "").hashes(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))) == 0
