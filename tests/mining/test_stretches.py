import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mining.folding import forms
from spacy_krissel.mining.stretches import BASES, Stretches, Words

wild = st.text(st.characters(codec=None) | st.sampled_from("ab "), max_size=40)


@given(wild, wild, wild)
def test_the_hash_of_a_stretch_is_of_its_characters_alone(left, text, right):
    for base in range(len(BASES)):
        whole = Stretches(left + text + right, base)
        alone = Stretches(text, base)
        place = np.array([len(left)])
        assert whole.hashes(place, place + len(text)) == alone.hashes(np.array([0]), np.array([len(text)]))


@given(st.text("ab\x00\U0010ffff", max_size=12), st.text("ab\x00\U0010ffff", max_size=12))
def test_other_characters_have_another_hash(one, other):
    hashes = [[int(Stretches(text, base).hashes(*np.array([[0], [len(text)]]))[0]) for base in (0, 1)]
              for text in (one, other)]  # fmt: skip
    assert (hashes[0][0] == hashes[1][0]) == (hashes[0][1] == hashes[1][1]) == (one == other)


@given(wild)
def test_words(text):
    form = forms(text, fold=False).words[1:-1]
    words = Words(form)
    assert [form[start:end] for start, end in zip(words.starts, words.ends)] == form.split()
    places = np.arange(-1, len(form) + 1)
    assert words.inside(places).tolist() == [0 <= i < len(form) and form[i] != " " for i in places]


def test_no_text():
    assert len(Words("").starts) == 0
    assert len(Stretches("").hashes(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))) == 0
