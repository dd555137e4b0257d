import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.mining.text_folding import fold_case, forms, plain_form

any_text = st.text(st.characters(codec=None), max_size=60) | st.text(
    "aZİıßſΣςσµμé\u0301 \n\u00a0\u2013-_'’", max_size=30
)


@given(any_text, st.booleans())
def test_forms_keep_offsets(text, fold):
    plain, key, words = forms(text, fold)
    assert len(plain) == len(key) == len(text)
    assert len(words) == len(text) + 2
    assert words[0] == words[-1] == " "
    for char, kept in zip(key, words[1:-1], strict=True):
        assert kept == (char if char.isalnum() or "\u0300" <= char <= "\u036f" else " ")


@given(any_text)
def test_fold_case_is_per_character_and_stable(text):
    assert fold_case(text) == "".join(map(fold_case, text))
    assert fold_case(fold_case(text)) == fold_case(text)


def test_characters_whose_lower_case_is_longer_stay():
    assert len("İ".lower()) == 2
    assert fold_case("İ LUNG") == "İ lung"
    assert fold_case("ΟΔΟΣ Σ") == fold_case("οδος ς") == "οδοσ σ"


def test_plain_form_levels_typography_only():
    assert plain_form("Charcot–Marie‐Tooth’s\u00a0Disease\n") == "Charcot-Marie-Tooth's Disease "
    assert plain_form("5 \u00b5g") == plain_form("5 \u03bcg")
    # An em dash parts sentences; it joins no name.
    assert plain_form("a—b") == "a—b"


def test_combining_marks_belong_to_words():
    decomposed = unicodedata.normalize("NFD", "Ménière")
    assert forms(decomposed, fold=False).words == f" {decomposed} "
