"""BELHD's eq. 1 and 2."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses.marginal import MarginalLikelihood, make_marginal_likelihood


def batch(q, n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(q, n)), rng.random((q, n)) < 0.7, rng.random((q, n)) < 0.3


def restated(scores, candidates, right, temperature):
    losses = []
    for row, among, correct in zip(scores / temperature, candidates, right, strict=True):
        total = sum(math.exp(s) for s, there in zip(row, among, strict=True) if there)
        likely = sum(
            math.exp(s) / total for s, there, is_right in zip(row, among, correct, strict=True) if there and is_right
        )
        if likely:
            losses.append(-math.log(likely))
    return sum(losses) / len(losses) if losses else 0.0


def test_worked_by_hand():
    # Candidates score 2, 1 and 0: .665241, .244728, .090031. The first and the last are right: -log .755272 = 0.280677.
    scores = np.array([[2.0, 9.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    candidates = np.array([[True, False, True, True], [True, True, False, False]])
    right = np.array([[True, True, False, True], [False, False, True, False]])
    gradient, loss = MarginalLikelihood()(scores, candidates, right)
    assert loss == pytest.approx(0.280677, abs=1e-6)
    # P(c|m) less the share among the right ones, .880797 and .119203; the second mention has no right candidate.
    expected = [[0.665241 - 0.880797, 0, 0.244728, 0.090031 - 0.119203], [0, 0, 0, 0]]
    assert_allclose(gradient, expected, atol=1e-6)


@given(st.integers(1, 6), st.integers(1, 7), st.sampled_from([0.05, 1.0, 3.0]), st.integers(0, 99))
def test_is_equations_1_and_2(q, n, temperature, seed):
    given_ = batch(q, n, seed)
    _, loss = MarginalLikelihood(temperature=temperature)(*given_)
    assert loss == pytest.approx(restated(*given_, temperature), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_gradient_equals_central_differences(temperature):
    loss = make_marginal_likelihood(temperature)
    scores, candidates, right = batch(5, 6, seed=4)
    gradient, _ = loss(scores, candidates, right)
    step = 1e-6
    for place in np.ndindex(*scores.shape):
        moved = [scores.copy(), scores.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        high, low = (loss(each, candidates, right)[1] for each in moved)
        assert gradient[place] == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-7)


def test_nothing_right():
    scores, candidates, _ = batch(3, 4)
    gradient, loss = MarginalLikelihood()(scores, candidates, np.zeros((3, 4), dtype=bool))
    assert loss == 0.0 and not gradient.any()


def test_far_scores_do_not_overflow_and_float32_stays():
    scores = np.array([[300.0, -300.0]], dtype="float32")
    gradient, loss = MarginalLikelihood()(scores, np.ones((1, 2), dtype=bool), np.array([[False, True]]))
    assert loss == pytest.approx(600) and np.isfinite(gradient).all() and gradient.dtype == np.float32


def test_shapes_and_settings_are_checked():
    scores, candidates, right = batch(3, 4)
    with pytest.raises(KrisselError, match="K638"):
        MarginalLikelihood()(scores, candidates[:2], right)
    with pytest.raises(KrisselError, match="K006.*temperature"):
        make_marginal_likelihood(0.0)
