import math

import numpy as np
import pytest

from spacy_krissel.losses.triplet import make_max_margin_triplet


def equation(units, positives, negatives, margin=0.2):
    terms = [
        math.dist(units[a], units[p]) - math.dist(units[a], units[k]) + margin
        for a in range(len(units))
        for p in positives[a]
        for k in negatives[a]
    ]
    active = [term for term in terms if term > 0]
    return sum(active) / max(1, len(active))


def test_loss_is_the_equation(restated):
    restated(make_max_margin_triplet, equation)
    restated(lambda miner: make_max_margin_triplet(1.0, miner), lambda *batch: equation(*batch, margin=1.0))


def test_batch_worked_by_hand():
    # 0° and 60° are 1 apart; 90° of another entity is 1.414214 from the first and .517638 from the second; α = 0.2.
    # (0°, 60°, 90°): 1 - 1.414214 + .2 < 0. (60°, 0°, 90°): 1 - .517638 + .2 = .682362, the only one that counts.
    vectors = np.array([[1, 0], [0.5, math.sqrt(0.75)], [0, 1]])
    assert make_max_margin_triplet()(vectors, np.array([0, 0, 1]))[1] == pytest.approx(0.682362, abs=1e-6)
    # With α = 0.5 both: (.085786 + .982362) / 2.
    assert make_max_margin_triplet(0.5)(vectors, np.array([0, 0, 1]))[1] == pytest.approx(0.534074, abs=1e-6)


def test_nothing_left_to_learn():
    vectors = np.array([[1, 0], [1, 0.01], [-1, 0], [-1, 0.01]])
    gradient, loss = make_max_margin_triplet()(vectors, np.array([0, 0, 1, 1]))
    assert loss == 0 and not gradient.any()
