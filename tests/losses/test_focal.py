"""Focal loss, as OSLAT's classifier has it."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.losses.focal import FocalLoss


def restated(logits, truths, alpha, gamma):
    total = 0.0
    for logit, truth in zip(logits, truths, strict=True):
        p = 1 / (1 + math.exp(-logit))
        p, a = (p, alpha) if truth else (1 - p, 1 - alpha)
        total -= a * (1 - p) ** gamma * math.log(p)
    return total / len(logits)


def test_the_loss_agrees_with_hand_computed_values():
    # p = 1/2 of a positive: .25 · .25 · log 2 = .0433217; and p = .2, of a negative: .75 · .04 ·
    # −log .8 = .0066943.
    positives = np.array([[True, False]])
    _, loss = FocalLoss()(np.array([[0.0, -math.log(4)]]), positives, ~positives)
    assert loss == pytest.approx((0.0433217 + 0.0066943) / 2, abs=1e-6)


@given(
    st.lists(st.tuples(st.floats(-8, 8), st.booleans()), min_size=1, max_size=9),
    st.sampled_from([0.0, 1.0, 2.0]),
)
def test_the_loss_equals_its_equation(rows, gamma):
    logits, truths = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    _, loss = FocalLoss(gamma=gamma)(logits[None], truths[None], ~truths[None])
    assert loss == pytest.approx(restated(logits, truths, 0.25, gamma), rel=1e-6, abs=1e-9)


def test_the_mean_is_over_masked_pairs_only():
    scores, positives = (
        np.array([[0.0, 5.0], [-math.log(4), 5.0]]),
        np.array([[True, False], [False, False]]),
    )
    _, loss = FocalLoss()(scores, positives, np.array([[False, False], [True, False]]))
    assert loss == pytest.approx((0.0433217 + 0.0066943) / 2, abs=1e-6)


def test_large_logits_stay_finite():
    positives = np.array([[True, False, False, True]])
    gradient, loss = FocalLoss()(np.array([[1e4, -1e4, 1e4, -1e4]]), positives, ~positives)
    assert np.isfinite(gradient).all() and np.isfinite(loss)
