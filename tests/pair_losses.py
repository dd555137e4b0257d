"""Parts shared by the tests of losses over labelled names: batches, pairs by brute force, and
properties of every loss.
"""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from spacy_krissel.losses.hard_pairs import HardPairMiner
from spacy_krissel.training.objectives.sapbert import SelfAlignmentObjective

# Two names of one entity at 0° and 60°, one of another at 90°: cosines .5, 0 and .866025.
THREE = np.array([[1, 0], [0.5, math.sqrt(0.75)], [0, 1]]), np.array([0, 0, 1])


def of_names(loss, miner=None):
    """The loss of vectors (n, d) with labels (n,), and its gradient, by way of their cosines."""
    return SelfAlignmentObjective(loss, miner).label_loss


def names(n=6, width=3, seed=0, dtype=np.float64):
    """Vectors (n, width) with labels: three entities of 3, 2 and 1 names for n = 6, in no order."""
    random = np.random.default_rng(seed)
    labels = np.array([0, 1, 0, 2, 1, 0, 3, 3, 1, 4])[np.arange(n) % 10]
    return random.standard_normal((n, width)).astype(dtype), labels


def mined(units, labels, margin=None):
    """(positives, negatives) of each anchor as lists, by eq. 1 of SapBERT over every triplet; None:
    all pairs."""
    n = len(units)
    positives = [[p for p in range(n) if p != a and labels[p] == labels[a]] for a in range(n)]
    negatives = [[k for k in range(n) if labels[k] != labels[a]] for a in range(n)]
    if margin is None:
        return positives, negatives
    hard = [(set(), set()) for _ in range(n)]
    for a in range(n):
        for p in positives[a]:
            for k in negatives[a]:
                if not math.dist(units[a], units[p]) < math.dist(units[a], units[k]) + margin:
                    hard[a][0].add(p)
                    hard[a][1].add(k)
    return [sorted(p) for p, _ in hard], [sorted(k) for _, k in hard]


def assert_restated(loss, equation):
    """The loss is `equation(units, positives, negatives)`, over all pairs and over mined ones."""
    seen = set()
    for n in (2, 5, 6, 10):
        for seed in range(6):
            for margin in (None, -0.2, 0.3):
                vectors, labels = names(n, 4, seed)
                units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
                expected = equation(units, *mined(units, labels, margin))
                miner = None if margin is None else HardPairMiner(margin=margin)
                found = of_names(loss, miner)(vectors, labels)[1]
                assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
                seen.add(round(found, 6))
    assert len(seen) > 20


def assert_gradient_equals_central_differences(loss, size=1e-6):
    for seed in range(3):
        for miner in (None, HardPairMiner()):
            vectors, labels = names(10, 4, seed)
            function = of_names(loss, miner)
            gradient, value = function(vectors, labels)
            assert value > 0 and np.abs(gradient).max() > 1e-3
            numeric = np.zeros_like(vectors)
            for place in np.ndindex(*vectors.shape):
                step = np.zeros_like(vectors)
                step[place] = size
                high, low = (function(vectors + each, labels)[1] for each in (step, -step))
                numeric[place] = (high - low) / (2 * size)
            assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-7)


def assert_order_and_length_do_not_count(loss):
    vectors, labels = names(10, 4)
    order = np.random.default_rng(0).permutation(10)
    gradient, value = of_names(loss)(vectors, labels)
    scaled_gradient, scaled_value = of_names(loss)(vectors * 3, labels)
    assert scaled_value == pytest.approx(value)
    assert_allclose(scaled_gradient, gradient / 3, atol=1e-12)
    assert_allclose((gradient * vectors).sum(axis=1), 0, atol=1e-12)
    other_gradient, other_value = of_names(loss)(vectors[order], 7 - labels[order])
    assert other_value == pytest.approx(value)
    assert_allclose(other_gradient, gradient[order], atol=1e-12)


def assert_names_of_one_entity_are_no_negatives(loss):
    """Three names of one entity, far apart: a loss that took the third for a negative would push it
    away."""
    vectors = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]])
    gradient, _ = of_names(loss)(vectors, np.array([0, 0, 0, 1]))
    for i in range(3):
        # Down the gradient, each comes nearer to the other two.
        others = vectors[[j for j in range(3) if j != i]]
        assert (others @ -gradient[i] >= -1e-12).all()


def assert_stays_finite_and_keeps_dtype_and_input(loss):
    vectors, labels = names(10, 4, dtype=np.float32)
    vectors[2] = vectors[0]  # two names with the very same vector,
    vectors[3] = vectors[1]  # of one entity and of two
    vectors[4] = 0
    before = vectors.copy()
    for miner in (None, HardPairMiner()):
        with np.errstate(all="raise", under="ignore"):
            gradient, value = of_names(loss, miner)(vectors, labels)
        assert (
            np.isfinite(gradient).all()
            and gradient.dtype == np.float32
            and gradient.shape == vectors.shape
        )
        assert np.isfinite(value) and isinstance(value, float)
    assert_array_equal(vectors, before)
    assert not gradient[4].any()


def assert_nothing_to_learn_without_pairs(loss):
    vectors, _ = names(4)
    for labels in (np.arange(4), np.zeros(4, dtype=int)):
        gradient, value = of_names(loss, HardPairMiner())(vectors, labels)
        assert value == 0 and not gradient.any()
    gradient, value = of_names(loss)(vectors[:1], np.zeros(1, dtype=int))
    assert value == 0 and not gradient.any()


PROPERTIES = (
    assert_order_and_length_do_not_count,
    assert_names_of_one_entity_are_no_negatives,
    assert_stays_finite_and_keeps_dtype_and_input,
    assert_nothing_to_learn_without_pairs,
)
