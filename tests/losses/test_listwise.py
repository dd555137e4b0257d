import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from spacy_krissel.losses.listwise import listwise_cross_entropy, make_listwise_cross_entropy


def term_by_term(corrections, logits, lengths, gold):
    losses, start = [], 0
    for length, right in zip(lengths, gold, strict=True):
        whole = [logits[i] + corrections[i] for i in range(start, start + length)]
        losses.append(-math.log(math.exp(whole[right]) / sum(map(math.exp, whole))))
        start += length
    return sum(losses) / len(losses)


def a_batch(lengths, seed=0):
    random = np.random.default_rng(seed)
    corrections, logits = random.standard_normal((2, sum(lengths)))
    return corrections, logits, lengths, [int(random.integers(length)) for length in lengths]


def test_worked_by_hand():
    # One mention of two candidates, log-odds 1 and 0; the second is right and its correction of 1 makes them even:
    # -log(1/2) = .693147. Another of one candidate alone costs nothing. Mean: .346574.
    gradient, loss = listwise_cross_entropy(np.array([0.0, 1, 5]), np.array([1.0, 0, -3]), [2, 1], [1, 0])
    assert loss == pytest.approx(0.346574, abs=1e-6)
    assert_allclose(gradient, [0.25, -0.25, 0], atol=1e-12)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.integers(0, 99))
def test_loss_is_the_equation(lengths, seed):
    batch = a_batch(lengths, seed)
    assert listwise_cross_entropy(*batch)[1] == pytest.approx(term_by_term(*batch), rel=1e-9, abs=1e-12)


def test_gradient_equals_that_of_torch():
    torch = pytest.importorskip("torch")
    corrections, logits, lengths, gold = a_batch([3, 5, 2])
    ours, _ = listwise_cross_entropy(corrections, logits, lengths, gold)
    leaf = torch.tensor(corrections, requires_grad=True)
    lists = torch.split(leaf + torch.tensor(logits), lengths)
    losses = [
        torch.nn.functional.cross_entropy(each[None], torch.tensor([g])) for each, g in zip(lists, gold, strict=True)
    ]
    torch.stack(losses).mean().backward()
    assert_allclose(ours, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_gradient_equals_central_differences():
    corrections, logits, lengths, gold = a_batch([4, 2], seed=1)
    gradient, _ = listwise_cross_entropy(corrections, logits, lengths, gold)
    for i in range(len(corrections)):
        step = np.zeros_like(corrections)
        step[i] = 1e-6
        up, down = (listwise_cross_entropy(corrections + s, logits, lengths, gold)[1] for s in (step, -step))
        assert gradient[i] == pytest.approx((up - down) / 2e-6, abs=1e-8)


def test_large_logits_and_the_dtype():
    logits = np.array([5e4, -5e4, 0], dtype="float32")
    gradient, loss = make_listwise_cross_entropy()(np.zeros(3, dtype="float32"), logits, [3], [0])
    assert loss == 0 and gradient.dtype == np.float32
    assert_allclose(gradient, 0)


def test_no_mentions():
    gradient, loss = listwise_cross_entropy(np.zeros(0), np.zeros(0), [], [])
    assert loss == 0 and gradient.shape == (0,)
