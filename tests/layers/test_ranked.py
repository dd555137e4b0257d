import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.layers.ranked import bounded

NUMBERS = st.floats(-1e6, 1e6, width=32)


@given(st.lists(NUMBERS, min_size=1, max_size=9), st.sampled_from([0.25, 1.0, 3.0]))
def test_bounded_scores_stay_within_the_bound_and_in_order(values, bound):
    X = np.sort(np.array(values, dtype="float32"))
    Y = bounded(bound).predict(X)
    assert (np.abs(Y) <= bound).all() and (np.diff(Y) >= 0).all()


def test_bounding_keeps_zero_and_nearly_keeps_small_scores():
    Y = bounded(2.0).predict(np.array([0, 0.01, 100], dtype="float32"))
    assert Y[0] == 0 and Y[1] == pytest.approx(0.01, rel=1e-4) and Y[2] == pytest.approx(2)


def test_gradient_equals_central_differences():
    model, X = bounded(1.5), np.array([-3, -0.2, 0, 0.7], dtype="float64")
    Y, backprop = model.begin_update(X)
    numeric = (model.predict(X + 1e-5) - model.predict(X - 1e-5)) / 2e-5
    np.testing.assert_allclose(backprop(np.ones_like(Y)), numeric, atol=1e-8)
