"""Plurals and their singulars."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mentions.plurals import singulars

PLURALS = {
    "coughs": "cough",
    "biopsies": "biopsy",
    "diagnoses": "diagnosis",
    "diseases": "disease",
    "viruses": "virus",
    "rashes": "rash",
    "varices": "varix",
    "indices": "index",
    "emboli": "embolus",
    "diverticula": "diverticulum",
    "ganglia": "ganglion",
    "fistulae": "fistula",
    "carcinomata": "carcinoma",
    "foramina": "foramen",
}


@pytest.mark.parametrize("plural", PLURALS)
def test_the_last_noun_may_be_in_the_plural(plural):
    assert PLURALS[plural] in [*singulars(plural)]
    assert f"two old {PLURALS[plural]}" in [*singulars(f"two old {plural}")]
    assert f"{PLURALS[plural]} of the liver" in [*singulars(f"{plural} of the liver")]


@pytest.mark.parametrize("word", ["", "gas", "abscess", "virus", "sepsis", "p53s", "cough", "a b"])
def test_other_words_have_no_singular(word):
    assert not [*singulars(word)]


@given(st.text("abcisuy m", max_size=30))
def test_only_a_word_changes(form):
    found = [*singulars(form)]
    assert form not in found and len(found) == len({*found})
    assert all(each.count(" ") == form.count(" ") for each in found)
