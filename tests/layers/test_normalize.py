import numpy
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from spacy_krissel.layers.normalize import normalize_rows


def test_rows_have_unit_length_and_keep_their_direction():
    Y = normalize_rows().predict(numpy.asarray([[3.0, 4.0], [0.0, -2.0]], dtype="f"))
    assert_allclose(Y, [[0.6, 0.8], [0.0, -1.0]], rtol=1e-6)


def test_a_row_of_zeros_stays_zero_and_gets_no_gradient():
    Y, backprop = normalize_rows().begin_update(numpy.zeros((1, 3), dtype="f"))
    assert not Y.any()
    assert not backprop(numpy.ones((1, 3), dtype="f")).any()


@given(
    arrays("float32", (3, 4), elements=st.floats(-3, 3, width=32)),
    arrays("float32", (3, 4), elements=st.floats(-1, 1, width=32)),
)
def test_the_gradient_equals_central_differences(X, dY):
    # away from zero, where the function has no gradient
    X[numpy.linalg.norm(X, axis=1) < 0.5, 0] = 1.0
    Y, backprop = normalize_rows().begin_update(X)
    dX = backprop(dY)
    assert Y.dtype == dX.dtype == numpy.float32

    def objective(x):
        x = x.astype("float64")
        return float((x / numpy.linalg.norm(x, axis=1, keepdims=True) * dY).sum())

    eps = 1e-4
    for i in numpy.ndindex(*X.shape):
        step = numpy.zeros(X.shape)
        step[i] = eps
        numeric = (objective(X + step) - objective(X - step)) / (2 * eps)
        assert_allclose(dX[i], numeric, atol=2e-4)
