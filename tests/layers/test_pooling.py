import numpy
import pytest
from numpy.testing import assert_allclose

from spacy_krissel.layers.hf.pooling import PieceVectors, pool
from spacy_krissel.layers.hf.wordpieces import Pieces


@pytest.fixture
def hidden():
    vectors = numpy.arange(2 * 4 * 2, dtype="f").reshape(2, 4, 2)
    vectors[1, 3:] = 1000.0  # padding
    pieces = Pieces(
        ids=numpy.zeros((2, 4), dtype="int64"),
        lengths=numpy.asarray([4, 3]),
        owners=numpy.asarray([0, 1]),
        starts=numpy.asarray([1, 0]),
        ends=numpy.asarray([3, 2]),
    )
    return PieceVectors(vectors, pieces)


@pytest.mark.parametrize(
    "how, expected",
    [
        ("cls", [[0, 1], [8, 9]]),
        ("mean", [[3, 4], [10, 11]]),
        ("marker", [[4, 5], [10, 11]]),
        ("mention", [[4, 5], [10, 11]]),
    ],
)
def test_pools_by_hand(hidden, how, expected):
    Y = pool(how).predict(hidden)
    assert Y.dtype == numpy.float32
    assert_allclose(Y, expected)


@pytest.fixture
def together(hidden):
    """Three views of two rows; the last two have a marker in common."""
    pieces = hidden.pieces._replace(owners=[1, 0, 0], starts=[0, 0, 1], ends=[2, 1, 2])
    return hidden._replace(pieces=pieces)


@pytest.mark.parametrize(
    "how, expected",
    [
        ("cls", [[8, 9], [0, 1], [0, 1]]),
        ("mean", [[10, 11], [3, 4], [3, 4]]),
        ("marker", [[10, 11], [1, 2], [3, 4]]),
        # Nothing stands between the markers of the last two.
        ("mention", [[10, 11], [1, 2], [3, 4]]),
    ],
)
def test_views_that_are_read_together(together, how, expected):
    assert_allclose(pool(how).predict(together), expected)


def test_what_stands_between_the_markers(hidden):
    pieces = hidden.pieces._replace(starts=numpy.asarray([0, 0]), ends=numpy.asarray([3, 2]))
    assert_allclose(pool("mention").predict(hidden._replace(pieces=pieces)), [[3, 4], [10, 11]])


@pytest.mark.parametrize("which", ["hidden", "together"])
@pytest.mark.parametrize("how", ["cls", "mean", "marker", "mention"])
def test_gradient_is_the_transpose(request, which, how):
    """Pooling is linear, so <Y(X), dY> == <X, backprop(dY)> for any dY."""
    hidden = request.getfixturevalue(which)
    rng = numpy.random.default_rng(0)
    Y, backprop = pool(how).begin_update(hidden)
    dY = rng.normal(size=Y.shape).astype("f")
    dX = backprop(dY)
    assert dX.shape == hidden.vectors.shape and dX.dtype == numpy.float32
    assert_allclose((Y * dY).sum(), (hidden.vectors * dX).sum(), rtol=1e-5)
    assert not dX[1, 3].any(), "padding gets no gradient"
