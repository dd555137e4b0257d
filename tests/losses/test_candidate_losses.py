"""The losses of candidate retrieval: PEL's eq. 1 to 4."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses.candidate_cross_entropy import CandidateCrossEntropy, make_candidate_cross_entropy
from spacy_krissel.losses.proxy import ProxyLoss, make_proxy_loss

LOSSES = (ProxyLoss(alpha=3.0, delta=0.1), ProxyLoss(), CandidateCrossEntropy(), CandidateCrossEntropy(temperature=0.2))


def batch(q, n, seed=0):
    """Scores as cosines, a gold column each, and negatives among the others; some rows may have none."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(n, size=q)
    negatives = rng.random((q, n)) < 0.7
    negatives[np.arange(q), gold] = False
    return rng.uniform(-1, 1, (q, n)), gold, negatives


def equation_3(scores, gold, negatives, alpha, delta):
    total = 0.0
    for i, row in enumerate(scores):
        total += math.log(1 + math.exp(-alpha * (row[gold[i]] - delta)))
        total += math.log(
            1 + sum(math.exp(alpha * (s + delta)) for s, there in zip(row, negatives[i], strict=True) if there)
        )
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


def equation_1(scores, gold, negatives, temperature):
    total = 0.0
    for i, row in enumerate(scores / temperature):
        terms = [math.exp(s) for s, there in zip(row, negatives[i], strict=True) if there]
        total -= math.log(math.exp(row[gold[i]]) / (math.exp(row[gold[i]]) + sum(terms)))
    return total / len(scores)


def test_proxy_worked_by_hand():
    # One mention, alpha 2, delta 0.1; its entity scores .5, two negatives .2 and -.3, another candidate does not count.
    # Pull: log(1 + e^-0.8) = 0.371101. Push: log(1 + e^0.6 + e^-0.4) = log 3.492439 = 1.250600.
    scores, gold = np.array([[0.2, 0.5, 0.9, -0.3]]), np.array([1])
    negatives = np.array([[True, False, False, True]])
    gradient, loss = ProxyLoss(alpha=2.0, delta=0.1)(scores, gold, negatives)
    assert loss == pytest.approx(1.621701, abs=1e-6)
    # Gold: -2 e^-0.8 / (1 + e^-0.8); negatives: 2 e^0.6 / 3.492439 and 2 e^-0.4 / 3.492439.
    assert_allclose(gradient, [[1.043465, -0.620051, 0, 0.383870]], atol=1e-6)


def test_cross_entropy_worked_by_hand():
    # Softmax of (1, 2) for the two that count: .268941 and .731059; the loss is -log .731059 = 0.313262.
    scores, gold, negatives = np.array([[1.0, 2.0, 9.0]]), np.array([1]), np.array([[True, False, False]])
    gradient, loss = CandidateCrossEntropy()(scores, gold, negatives)
    assert loss == pytest.approx(0.313262, abs=1e-6)
    assert_allclose(gradient, [[0.268941, -0.268941, 0]], atol=1e-6)


@given(
    st.integers(1, 6),
    st.integers(1, 7),
    st.sampled_from([0.5, 4.0, 32.0]),
    st.sampled_from([0.0, 0.05, -0.2]),
    st.integers(0, 99),
)
def test_proxy_is_equations_3_and_4(q, n, alpha, delta, seed):
    given_ = batch(q, n, seed)
    gradient, loss = ProxyLoss(alpha=alpha, delta=delta)(*given_)
    assert loss == pytest.approx(equation_3(*given_, alpha, delta), rel=1e-6, abs=1e-9)
    assert_allclose(gradient, equation_4(*given_, alpha, delta), rtol=1e-6, atol=1e-9)


@given(st.integers(1, 6), st.integers(1, 7), st.sampled_from([0.05, 1.0, 3.0]), st.integers(0, 99))
def test_cross_entropy_is_equation_1(q, n, temperature, seed):
    given_ = batch(q, n, seed)
    _, loss = CandidateCrossEntropy(temperature=temperature)(*given_)
    assert loss == pytest.approx(equation_1(*given_, temperature), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_gradient_equals_central_differences(loss):
    scores, gold, negatives = batch(4, 5, seed=3)
    gradient, _ = loss(scores, gold, negatives)
    step = 1e-6
    for place in np.ndindex(*scores.shape):
        moved = [scores.copy(), scores.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        high, low = (loss(each, gold, negatives)[1] for each in moved)
        assert gradient[place] == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-7)


def test_gradient_equals_that_of_torch():
    torch = pytest.importorskip("torch")
    scores, gold, negatives = batch(5, 6, seed=1)
    leaf = torch.tensor(scores, requires_grad=True)
    rows = torch.arange(5)
    exponents = torch.where(torch.tensor(negatives), torch.exp(4 * (leaf + 0.1)), 0.0).sum(dim=1)
    theirs = torch.log1p(torch.exp(-4 * (leaf[rows, torch.tensor(gold)] - 0.1))) + torch.log1p(exponents)
    theirs.mean().backward()
    gradient, loss = ProxyLoss(alpha=4.0, delta=0.1)(scores, gold, negatives)
    assert loss == pytest.approx(theirs.mean().item())
    assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_far_scores_do_not_overflow_and_float32_stays(loss):
    scores = np.array([[300.0, -300.0]], dtype="float32")
    gradient, value = loss(scores, np.array([1]), np.array([[True, False]]))
    assert np.isfinite(value) and np.isfinite(gradient).all() and gradient.dtype == np.float32


def test_a_positive_pair_that_is_close_leaves_the_negatives_their_gradient():
    """What the paper has the loss for: cross-entropy's vanishes."""
    scores, gold, negatives = np.array([[0.99, -0.02]]), np.array([0]), np.array([[False, True]])
    proxy = ProxyLoss()(scores, gold, negatives)[0][0, 1]
    entropy = CandidateCrossEntropy(temperature=1 / 32)(scores, gold, negatives)[0][0, 1]
    assert proxy > 10 and entropy < 1e-10


@pytest.mark.parametrize("loss", LOSSES)
def test_shapes_are_checked(loss):
    scores, gold, negatives = batch(3, 4)
    for wrong in ((scores, gold[:2], negatives), (scores, gold, negatives[:, :3]), (scores[:0], gold[:0], negatives)):
        with pytest.raises(KrisselError, match="K635"):
            loss(*wrong)
    negatives[1, gold[1]] = True
    with pytest.raises(KrisselError, match="K635"):
        loss(scores, gold, negatives)


def test_settings():
    for make, setting in ((make_proxy_loss, {"alpha": 0}), (make_candidate_cross_entropy, {"temperature": -1})):
        with pytest.raises(KrisselError, match="K006"):
            make(**setting)
    with pytest.raises(KrisselError, match="K006"):
        make_proxy_loss(delta=float("inf"))
    assert (make_proxy_loss().alpha, make_proxy_loss().delta, make_candidate_cross_entropy().temperature) == (32, 0, 1)
