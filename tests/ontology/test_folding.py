import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.ontology.folding import fold_name, spelling


@pytest.mark.parametrize(
    "text, folded",
    [
        ("  Smith-Lemli-Opitz   Syndrome ", "smith lemli opitz syndrome"),
        ("7-Dehydrocholesterol_Reductase (DHCR7)", "7 dehydrocholesterol reductase dhcr7"),
        ("Sjögren's", "sjögren s"),
        ("ﬁbrosis", "fibrosis"),
        ("Type Ⅱ", "type ii"),
        ("TGF-β", "tgf β"),
        ("±", "±"),
        (" -- ", "--"),
        ("", ""),
        (" ", ""),
        # J + caron has no capital letter of its own; its small form has, and both spellings are one name.
        ("J\u030c", "\u01f0"),
    ],
)
def test_folding(text, folded):
    assert fold_name(text) == folded


@given(st.text())
def test_folding_twice_changes_nothing(text):
    assert fold_name(fold_name(text)) == fold_name(text)


@given(st.text())
def test_folded_name_is_blank_only_for_blank_text(text):
    folded = fold_name(text)
    assert folded == folded.strip()
    if any(char.isalnum() for char in text):
        assert folded


@pytest.mark.parametrize(
    "texts",
    [
        ("IL-2", "IL2", "il 2"),
        ("TGF-β1", "TGFbeta 1", "TGF-beta1", "TGFB1"),
        ("caspase III", "Caspase-3 protein", "caspase 3"),
        ("NF-κB", "NFkappaB", "NF kappa B", "NFKB"),
        ("Rad51 gene", "RAD51 mRNA", "Rad51"),
        ("diabetes mellitus, type II", "Diabetes mellitus type 2"),
        ("Kv1.1", "Kv 1-1", "KV1 1"),
    ],
)
def test_spellings_of_one_name_differ(texts):
    assert len({spelling(text) for text in texts}) == 1


@pytest.mark.parametrize(
    "one, other",
    [
        ("IL-2", "IL-12"),
        ("p53", "p35"),
        ("vitamin D", "vitamin E"),
        ("gene", "protein"),
        ("V", "5"),
        ("i", "1"),
        ("miR-9-3", "miR-93"),
        ("Kv1.1", "Kv11"),
        ("protein C", "C"),
        ("G protein", "gamma"),
    ],
)
def test_two_names_are_spelt_alike(one, other):
    assert spelling(one) != spelling(other)


def test_symbols_have_a_spelling():
    assert spelling("±") == spelling("") == spelling(" - ") == ""


@given(st.text())
def test_the_spelling_of_a_folded_name_is_another(text):
    assert spelling(fold_name(text)) == spelling(text)
