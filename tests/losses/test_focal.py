"""Focal loss, as OSLAT's classifier has it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses.focal import FocalLoss, make_focal_loss


def restated(logits, truths, alpha, gamma):
    total = 0.0
    for logit, truth in zip(logits, truths, strict=True):
        p = 1 / (1 + math.exp(-logit))
        p, a = (p, alpha) if truth else (1 - p, 1 - alpha)
        total -= a * (1 - p) ** gamma * math.log(p)
    return total / len(logits)


def test_worked_by_hand():
    # p = 1/2 of a positive: .25 · .25 · log 2 = .0433217; and p = .2, of a negative: .75 · .04 · −log .8 = .0066943.
    _, loss = FocalLoss()(np.array([0.0, -math.log(4)]), np.array([1, 0]))
    assert loss == pytest.approx((0.0433217 + 0.0066943) / 2, abs=1e-6)


@given(st.lists(st.tuples(st.floats(-8, 8), st.booleans()), min_size=1, max_size=9), st.sampled_from([0.0, 1.0, 2.0]))
def test_is_its_equation(rows, gamma):
    logits, truths = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    _, loss = FocalLoss(gamma=gamma)(logits, truths)
    assert loss == pytest.approx(restated(logits, truths, 0.25, gamma), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("alpha, gamma", [(0.25, 2.0), (0.5, 0.0)])
def test_gradient_equals_central_differences(alpha, gamma):
    loss = make_focal_loss(alpha, gamma)
    logits, truths = np.random.default_rng(0).normal(size=9) * 3, np.arange(9) % 3 == 0
    gradient, _ = loss(logits, truths)
    for i in range(9):
        moved = [logits.copy(), logits.copy()]
        moved[0][i] += 1e-6
        moved[1][i] -= 1e-6
        high, low = (loss(each, truths)[1] for each in moved)
        assert gradient[i] == pytest.approx((high - low) / 2e-6, rel=1e-4, abs=1e-8)


def test_far_logits_stay_numbers():
    gradient, loss = FocalLoss()(np.array([1e4, -1e4, 1e4, -1e4]), np.array([1, 0, 0, 1]))
    assert np.isfinite(gradient).all() and np.isfinite(loss)


@pytest.mark.parametrize("settings", [{"alpha": 0.0}, {"alpha": 1.0}, {"gamma": -1.0}])
def test_refuses_wrong_settings(settings):
    with pytest.raises(KrisselError, match=next(iter(settings))):
        FocalLoss(**settings)
