import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from spacy_krissel.losses.info_nce import InfoNCE
from spacy_krissel.losses.pair_nce import make_pair_nce


def equation(units, positives, negatives, temperature=0.07):
    terms = []
    for i in range(len(units)):
        far = sum(math.exp(units[i] @ units[k] / temperature) for k in negatives[i])
        for p in positives[i]:
            near = math.exp(units[i] @ units[p] / temperature)
            terms.append(-math.log(near / (near + far)))
    return sum(terms) / max(1, len(terms))


def test_loss_is_the_equation(restated):
    restated(make_pair_nce, equation)
    restated(lambda miner: make_pair_nce(0.5, miner), lambda *batch: equation(*batch, temperature=0.5))


def test_batch_worked_by_hand():
    # Two names at 0° and 60°, one of another entity at 90°; τ = 1: log(1 + e^(0 - .5)) = .474077 and
    # log(1 + e^(.866025 - .5)) = .892814; mean .683446. The third name has no positive and is no term.
    vectors = np.array([[1, 0], [0.5, math.sqrt(0.75)], [0, 1]])
    loss = make_pair_nce(1.0)(vectors, np.array([0, 0, 1]))[1]
    assert loss == pytest.approx(0.683446, abs=2e-6)


def test_two_names_an_entity_are_krissberts_pairs():
    vectors = np.random.default_rng(0).standard_normal((8, 5))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    gradient, loss = make_pair_nce(0.2)(vectors, np.arange(8) // 2)
    expected, expected_loss = InfoNCE(temperature=0.2)(vectors)
    assert loss == pytest.approx(expected_loss)
    # There without the step from a vector to its direction.
    expected -= vectors * (expected * vectors).sum(axis=1, keepdims=True)
    assert_allclose(gradient, expected, atol=1e-12)
