"""Supervised NT-Xent, as OSLAT aligns names with it (§3.1)."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses.supervised_nt_xent import SupervisedNTXent, make_supervised_nt_xent


def restated(vectors, labels, temperature):
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    losses = []
    for i in range(len(units)):
        positives = [p for p in range(len(units)) if p != i and labels[p] == labels[i]]
        if not positives:
            continue
        total = sum(math.exp(units[i] @ units[a] / temperature) for a in range(len(units)) if a != i)
        losses.append(-sum(math.log(math.exp(units[i] @ units[p] / temperature) / total) for p in positives))
        losses[-1] /= len(positives)
    return sum(losses) / len(losses)


@pytest.mark.parametrize("temperature", [1.0, 0.07])
@pytest.mark.parametrize("n", [3, 6, 10])
def test_is_its_equation(names, n, temperature):
    vectors, labels = names(n, 4)
    assert SupervisedNTXent(temperature=temperature)(vectors, labels)[1] == pytest.approx(
        restated(vectors, labels, temperature)
    )


def test_worked_by_hand():
    # Both names of entity 0 have cosine 1 with each other and 0 with the third: log(e + 1) − 1 for each.
    loss = SupervisedNTXent(temperature=1.0)
    assert loss(np.array([[2.0, 0], [3.0, 0], [0, 1.0]]), np.array([0, 0, 1]))[1] == pytest.approx(0.313262, abs=1e-6)


def test_gradient_equals_central_differences(names):
    vectors, labels = names(8, 3)
    loss = make_supervised_nt_xent(0.3)
    gradient, _ = loss(vectors, labels)
    for place in np.ndindex(*vectors.shape):
        moved = [vectors.copy(), vectors.copy()]
        moved[0][place] += 1e-6
        moved[1][place] -= 1e-6
        high, low = (loss(each, labels)[1] for each in moved)
        assert gradient[place] == pytest.approx((high - low) / 2e-6, rel=1e-4, abs=1e-7)


def test_without_a_pair_there_is_nothing_to_learn():
    gradient, loss = SupervisedNTXent()(np.eye(3), np.arange(3))
    assert loss == 0
    assert_array_equal(gradient, np.zeros((3, 3)))


def test_refuses_what_does_not_fit():
    with pytest.raises(KrisselError, match="K631"):
        SupervisedNTXent()(np.eye(3), np.arange(2))
    with pytest.raises(KrisselError, match="temperature"):
        SupervisedNTXent(temperature=0)
