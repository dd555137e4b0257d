"""PEL's eq. 3 and 4."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from spacy_krissel.losses.proxy import ProxyLoss
from spacy_krissel.losses.softmax import SoftmaxLoss


def batch(q, k, seed=0):
    """Scores as cosines, a gold column each, and negatives among the others; some rows may have
    none."""
    random = np.random.default_rng(seed)
    gold = random.integers(k, size=q)
    negatives = random.random((q, k)) < 0.7
    negatives[np.arange(q), gold] = False
    return random.uniform(-1, 1, (q, k)), gold, negatives


def masks(gold, negatives):
    return np.arange(negatives.shape[1])[None] == gold[:, None], negatives


def equation_3(scores, gold, negatives, alpha, delta):
    total = 0.0
    for i, row in enumerate(scores):
        total += math.log(1 + math.exp(-alpha * (row[gold[i]] - delta)))
        there = [s for s, is_negative in zip(row, negatives[i], strict=True) if is_negative]
        total += math.log(1 + sum(math.exp(alpha * (s + delta)) for s in there))
    return total / len(scores)


def equation_4(scores, gold, negatives, alpha, delta):
    gradient = np.zeros_like(scores)
    for i, row in enumerate(scores):
        positive = math.exp(-alpha * (row[gold[i]] - delta))
        gradient[i, gold[i]] = -alpha * positive / (1 + positive)
        chosen = np.flatnonzero(negatives[i])
        terms = [math.exp(alpha * (row[e] + delta)) for e in chosen]
        for e, term in zip(chosen, terms, strict=True):
            gradient[i, e] = alpha * term / (1 + sum(terms))
    return gradient / len(scores)


def test_the_loss_agrees_with_hand_computed_values():
    # One mention, alpha 2, delta 0.1; its entity scores .5, two negatives .2 and -.3, another
    # candidate does not count. Pull: log(1 + e^-0.8) = 0.371101. Push: log(1 + e^0.6 + e^-0.4) =
    # log 3.492439 = 1.250600.
    scores, positives = np.array([[0.2, 0.5, 0.9, -0.3]]), np.array([[False, True, False, False]])
    gradient, loss = ProxyLoss(alpha=2.0, delta=0.1)(
        scores, positives, np.array([[True, False, False, True]])
    )
    assert loss == pytest.approx(1.621701, abs=1e-6)
    # Gold: -2 e^-0.8 / (1 + e^-0.8); negatives: 2 e^0.6 / 3.492439 and 2 e^-0.4 / 3.492439.
    assert_allclose(gradient, [[1.043465, -0.620051, 0, 0.383870]], atol=1e-6)


@given(
    st.integers(1, 6),
    st.integers(1, 7),
    st.sampled_from([0.5, 4.0, 32.0]),
    st.sampled_from([0.0, 0.05, -0.2]),
    st.integers(0, 99),
)
def test_loss_and_gradient_equal_equations_3_and_4(q, k, alpha, delta, seed):
    scores, gold, negatives = batch(q, k, seed)
    gradient, loss = ProxyLoss(alpha=alpha, delta=delta)(scores, *masks(gold, negatives))
    assert loss == pytest.approx(
        equation_3(scores, gold, negatives, alpha, delta), rel=1e-6, abs=1e-9
    )
    assert_allclose(
        gradient, equation_4(scores, gold, negatives, alpha, delta), rtol=1e-6, atol=1e-9
    )


def test_the_gradient_equals_torch():
    torch = pytest.importorskip("torch")
    scores, gold, negatives = batch(5, 6, seed=1)
    leaf = torch.tensor(scores, requires_grad=True)
    exponents = torch.where(torch.tensor(negatives), torch.exp(4 * (leaf + 0.1)), 0.0).sum(dim=1)
    theirs = torch.log1p(
        torch.exp(-4 * (leaf[torch.arange(5), torch.tensor(gold)] - 0.1))
    ) + torch.log1p(exponents)
    theirs.mean().backward()
    gradient, loss = ProxyLoss(alpha=4.0, delta=0.1)(scores, *masks(gold, negatives))
    assert loss == pytest.approx(theirs.mean().item())
    assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_negatives_keep_their_gradient_when_the_positive_is_close():
    """The paper's reason for the loss: cross-entropy's gradient vanishes there."""
    scores, positives = np.array([[0.99, -0.02]]), np.array([[True, False]])
    proxy = ProxyLoss()(scores, positives, ~positives)[0][0, 1]
    entropy = SoftmaxLoss(temperature=1 / 32)(scores, positives, ~positives)[0][0, 1]
    assert proxy > 10 and entropy < 1e-10
