import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.layers.list_cross_encoder import dice


def test_dice_scores_agree_with_hand_computed_values():
    # " ms " has " ms" and "ms "; " mse " has " ms", "mse", "se ": one in common, 2 · 1 / (2 + 3).
    assert dice("MS", ["mse", "ms", "cold"]) == [pytest.approx(0.4), 1.0, 0.0]


def test_dice_ignores_word_order_case_and_punctuation():
    assert dice("breast neoplasms", ["Neoplasms, Breast"]) == [1.0]


@given(st.text(max_size=12), st.text(max_size=12))
def test_dice_is_symmetric_and_between_0_and_1(a, b):
    assert 0 <= dice(a, [b])[0] <= 1 and dice(a, [b]) == dice(b, [a])


def test_dice_of_empty_names_is_zero():
    assert dice("", [""]) == [0.0] and dice("cold", []) == []
