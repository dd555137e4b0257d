"""Scores and their gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from thinc.api import NumpyOps

from spacy_krissel.training.scores import Padding, cosines, inner, inner_pairs, label_pairs


def test_gradients_equal_those_of_torch():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(0)
    queries, keys = random.normal(size=(4, 3)), random.normal(size=(5, 3))
    weights, own_weights = random.normal(size=(4, 5)), random.normal(size=(4, 4))
    leaves = [torch.tensor(each, requires_grad=True) for each in (queries, keys)]
    normalized = torch.nn.functional.normalize(leaves[0], dim=1)
    for found, theirs, by in (
        (inner(queries, keys), leaves[0] @ leaves[1].T, weights),
        (inner_pairs(queries), leaves[0] @ leaves[0].T, own_weights),
        (cosines(queries), normalized @ normalized.T, own_weights),
    ):
        scores, backprop = found
        assert_allclose(scores, theirs.detach().numpy())
        expected = torch.autograd.grad(
            (theirs * torch.tensor(by)).sum(), leaves, allow_unused=True, retain_graph=True
        )
        gradients = backprop(by)
        for ours, gradient in zip(
            gradients if isinstance(gradients, tuple) else [gradients], expected, strict=False
        ):
            assert_allclose(ours, gradient.numpy(), atol=1e-12)


def test_a_vector_of_zeros_has_no_cosine_and_no_gradient():
    scores, backprop = cosines(np.array([[0.0, 0], [3, 4]], dtype="float32"))
    assert_allclose(scores, [[0, 0], [0, 1]])
    assert not backprop(np.ones((2, 2), dtype="float32"))[0].any()


def test_label_pairs_are_positive_for_equal_labels():
    positives, negatives = label_pairs(np.array([4, 7, 4]))
    assert_array_equal(positives, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    assert_array_equal(negatives, [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_padding_can_be_undone():
    values = np.array([1.0, 2, 3, 4], dtype="float32")
    padding = Padding(NumpyOps(), [1, 3], positive=[0, 2])
    rows = padding.pad(values)
    assert_array_equal(rows, [[1, 0, 0], [2, 3, 4]])
    assert_array_equal(padding.unpad(rows), values)
    assert rows.dtype == np.float32
    assert_array_equal(padding.positives, [[1, 0, 0], [0, 0, 1]])
    assert_array_equal(padding.negatives, [[0, 0, 0], [1, 1, 0]])


def test_padded_rows_begin_with_their_positives():
    padding = Padding(NumpyOps(), [1, 3], n_positives=[1, 2])
    assert_array_equal(padding.positives, [[1, 0, 0], [1, 1, 0]])
    assert_array_equal(padding.negatives, [[0, 0, 0], [0, 0, 1]])
