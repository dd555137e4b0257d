import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.ontology.folding import fold_name


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
