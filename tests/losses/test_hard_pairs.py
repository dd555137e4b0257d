import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from pair_losses import mined

from spacy_krissel.losses.hard_pairs import HardPairMiner, distances
from spacy_krissel.training.scores import label_pairs


def at(*degrees):
    """Unit vectors at these angles: those of two at 60° are 1 apart."""
    radians = np.radians(degrees)
    return np.stack([np.cos(radians), np.sin(radians)], axis=1)


def mine(units, labels, margin):
    positives, negatives = HardPairMiner(margin)(units @ units.T, *label_pairs(np.array(labels)))
    return [sorted(map(tuple, np.argwhere(mask).tolist())) for mask in (positives, negatives)]


def test_mined_pairs_agree_with_hand_computed_values():
    # Entity 0 at 0° and 60°, 1 apart; entity 1 at 72° and 180°.
    # |0°-72°| = 1.1756, |60°-72°| = 0.2091, |60°-180°| = 1.7321, |0°-180°| = 2, |72°-180°| =
    # 1.6180. λ = -0.2: a triplet is hard when |a - p| ≥ |a - n| - 0.2.
    #   a = 0°: p 1; n at 72°: 1 ≥ 0.9756, hard; n at 180°: 1 < 1.8.
    #   a = 60°: p 1; n at 72°: 1 ≥ 0.0091, hard; n at 180°: 1 < 1.5321.
    #   a = 72°: p 1.6180; n at 0°: ≥ 0.9756, hard; n at 60°: hard.
    #   a = 180°: p 1.6180; n at 0°: 1.6180 < 1.8; n at 60°: 1.6180 ≥ 1.5321, hard.
    units, labels = at(0, 60, 72, 180), [0, 0, 1, 1]
    every_positive = [(0, 1), (1, 0), (2, 3), (3, 2)]
    assert mine(units, labels, -0.2) == [every_positive, [(0, 2), (1, 2), (2, 0), (2, 1), (3, 1)]]
    # λ = 0: only what stands nearer than the positive, or as near. 0° and 180° have nothing of
    # that.
    assert mine(units, labels, 0.0) == [[(1, 0), (2, 3)], [(1, 2), (2, 0), (2, 1)]]
    # λ = 1: |a - p| ≥ |a - n| + 1, at 72° and 60° alone: 1.6180 ≥ 1.2091.
    assert mine(units, labels, 1.0) == [[(2, 3)], [(2, 1)]]
    assert mine(units, labels, -2.0) == [
        every_positive,
        [(0, 2), (0, 3), (1, 2), (1, 3), (2, 0), (2, 1), (3, 0), (3, 1)],
    ]


@given(
    st.integers(1, 9),
    st.integers(1, 4),
    st.sampled_from([-0.5, -0.2, 0.0, 0.4]),
    st.integers(0, 99),
)
def test_mined_pairs_equal_equation_1(n, width, margin, seed):
    random = np.random.default_rng(seed)
    units = random.standard_normal((n, width)) + 1e-3
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    labels = random.integers(0, 3, n)
    pairs = HardPairMiner(margin + 1e-7)(units @ units.T, *label_pairs(labels))
    for mask, lists in zip(pairs, mined(units, labels, margin + 1e-7), strict=True):
        assert [np.flatnonzero(row).tolist() for row in mask] == lists


def test_the_papers_margin_is_the_default():
    units, labels = at(0, 60, 72, 180), np.array([0, 0, 1, 1])
    found, expected = (
        miner(units @ units.T, *label_pairs(labels))
        for miner in (HardPairMiner(), HardPairMiner(-0.2))
    )
    for ours, theirs in zip(found, expected, strict=True):
        assert_array_equal(ours, theirs)


def test_without_positives_or_negatives_there_are_no_hard_pairs():
    assert mine(at(0, 1, 2), [0, 1, 2], -0.2) == [[], []]
    assert mine(at(0, 90, 180), [5, 5, 5], -0.2) == [[], []]
    assert mine(at(0), [0], -0.2) == [[], []]


def test_an_easy_batch_has_no_hard_pairs():
    """Entities already well apart: a step on them would teach nothing."""
    assert mine(at(0, 2, 90, 92), [0, 0, 1, 1], -0.2) == [[], []]


def test_distances_are_derived_from_cosines():
    assert_allclose(distances(np.array([[1, 0], [-1, 0.5]])), [[0, np.sqrt(2)], [2, 1]])
    # Rounding can leave a cosine above 1.
    assert distances(np.array([[1 + 1e-9]])) == 0
