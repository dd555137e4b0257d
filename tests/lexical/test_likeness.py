"""Likeness of texts to the names of a vocabulary."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.lexical.likeness import N_BUCKETS, Likeness, features

NAMES = [
    f"{organ} {kind}" for organ in ("renal", "liver", "heart") for kind in ("cancer", "fibrosis")
]
PHRASES = [
    "patients treated",
    "significant increase",
    "control group",
    "protein bound",
    "high dose",
]


@pytest.fixture(scope="module")
def model():
    return Likeness.fit(NAMES, PHRASES)


def test_names_of_the_same_kind_are_more_alike_than_phrases(model):
    alike = model(["lung cancer", "renal fibroses", "treated group", "dose increase"])
    assert alike[:2].min() > alike[2:].max()


@given(st.lists(st.text("abc de-", max_size=12), max_size=5))
def test_values_are_those_of_the_regression(texts):
    model = Likeness(np.random.default_rng(0).normal(size=N_BUCKETS).astype(np.float16), 0.5)
    expected = features(texts) @ model.weights.astype(float) + 0.5 if texts else []
    assert model(texts) == pytest.approx(expected, abs=1e-5)


def test_saved_weights_give_the_same_values(model):
    again = Likeness.from_bytes(model.to_bytes())
    assert (again([*NAMES, *PHRASES]) == model([*NAMES, *PHRASES])).all()
    with pytest.raises(ValueError, match="bytes"):
        Likeness.from_bytes(model.to_bytes()[:-2])


def test_without_names_or_phrases_all_texts_are_alike():
    for names, phrases in ((NAMES, []), ([], PHRASES)):
        assert not Likeness.fit(names, phrases)(["lung cancer", ""]).any()
