import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.ontology.tree_numbers import is_in_tree, tree_parts


@pytest.mark.parametrize(
    "number, tree, expected",
    [
        ("C04.588", "C04.588", True),
        ("C04.588.322", "C04.588", True),
        ("C04.588", "C04", True),
        ("C04.588", "C", True),
        ("C04.588", "C04.", True),
        ("C04.588", "C04.5", False),
        ("C04.588", "C0", False),
        ("C04", "C04.588", False),
        ("D04.588", "C04", False),
        ("A1.2.3.1", "A1.2", True),
        ("A1.20", "A1.2", False),
        ("A1", "A", True),
        ("C04", "", False),
        ("", "C04", False),
    ],
)
def test_a_prefix_counts_by_whole_parts(number, tree, expected):
    assert is_in_tree(number, tree) is expected


@given(st.text(), st.text())
def test_any_text_can_be_a_tree_number(number, below):
    assert all(tree_parts(number))
    assert is_in_tree(number, number) is bool(tree_parts(number))
    if (
        tree_parts(number)
        and not below.startswith(tuple("0123456789"))
        and "." not in below
        and below.strip()
    ):
        assert is_in_tree(f"C04.{number}", "C04")
