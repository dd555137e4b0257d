import numpy
import pytest
import torch
from numpy.testing import assert_allclose

from spacy_krissel.layers.hf.pooling import pool
from spacy_krissel.layers.hf.wordpieces import Pieces


@pytest.fixture
def hidden():
    vectors = numpy.arange(2 * 4 * 2, dtype="f").reshape(2, 4, 2)
    vectors[1, 3:] = 1000.0  # padding
    pieces = Pieces(
        ids=torch.zeros((2, 4), dtype=torch.int64),
        lengths=torch.tensor([4, 3]),
        owners=torch.tensor([0, 1]),
        starts=torch.tensor([1, 0]),
        ends=torch.tensor([3, 2]),
    )
    return torch.tensor(vectors), pieces


@pytest.mark.parametrize(
    "how, expected",
    [
        ("cls", [[0, 1], [8, 9]]),
        ("mean", [[3, 4], [10, 11]]),
        ("marker", [[4, 5], [10, 11]]),
        ("mention", [[4, 5], [10, 11]]),
    ],
)
def test_pooling_agrees_with_hand_computed_values(hidden, how, expected):
    Y = pool(how, *hidden)
    assert Y.dtype == torch.float32
    assert_allclose(Y, expected)


@pytest.fixture
def together(hidden):
    """Three views of two rows; the last two have a marker in common."""
    vectors, pieces = hidden
    owners, starts, ends = (torch.tensor(each) for each in ([1, 0, 0], [0, 0, 1], [2, 1, 2]))
    return vectors, pieces._replace(owners=owners, starts=starts, ends=ends)


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
def test_views_that_share_a_row_are_pooled_separately(together, how, expected):
    assert_allclose(pool(how, *together), expected)


def test_mention_pooling_averages_between_the_markers(hidden):
    vectors, pieces = hidden
    pieces = pieces._replace(starts=torch.tensor([0, 0]), ends=torch.tensor([3, 2]))
    assert_allclose(pool("mention", vectors, pieces), [[3, 4], [10, 11]])


@pytest.mark.parametrize("which", ["hidden", "together"])
@pytest.mark.parametrize("how", ["cls", "mean", "marker", "mention"])
def test_padding_gets_no_gradient(request, which, how):
    """Nor do 16 bits of autocast round what is pooled."""
    vectors, pieces = request.getfixturevalue(which)
    vectors.requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        Y = pool(how, vectors, pieces)
    dY = torch.randn(Y.shape, generator=torch.Generator().manual_seed(0))
    Y.backward(dY)
    # Pooling is linear.
    assert_allclose((Y * dY).sum().detach(), (vectors * vectors.grad).sum().detach(), rtol=1e-5)
    assert not vectors.grad[1, 3].any()
