import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from spacy_krissel.losses.circle import make_circle
from spacy_krissel.losses.hard_pairs import HardPairMiner
from spacy_krissel.losses.pairs import all_pairs


def equation(units, positives, negatives, margin=0.25, scale=256.0):
    total = 0.0
    for i in range(len(units)):
        far = near = 0.0
        for k in negatives[i]:
            cosine = units[i] @ units[k]
            far += math.exp(scale * max(0, cosine + margin) * (cosine - margin))
        for p in positives[i]:
            cosine = units[i] @ units[p]
            near += math.exp(-scale * max(0, 1 + margin - cosine) * (cosine - (1 - margin)))
        total += math.log1p(far * near)
    return total / len(units)


def test_loss_is_the_equation(restated):
    def smaller(margin, scale):
        return lambda *batch: equation(*batch, margin=margin, scale=scale)

    # At the paper's γ of 256 the restatement's exponents overflow.
    restated(lambda miner: make_circle(0.25, 80.0, miner), smaller(0.25, 80.0))
    restated(lambda miner: make_circle(0.4, 3.0, miner), smaller(0.4, 3.0))


def test_batch_worked_by_hand():
    # Cosines .5 (0°, 60°), 0 (0°, 90°), .866025 (60°, 90°); m = .25, γ = 4.
    # Positive: a = .75, exponent -4 * .75 * (.5 - .75) = .75. Negatives: a = .25, 4 * .25 * (-.25) = -.25; and
    # a = 1.116025, 4 * 1.116025 * .616025 = 2.75.
    # log(1 + e^.5) = .974077, log(1 + e^3.5) = 3.529750, nothing at the third: 4.503827 / 3 = 1.501276.
    vectors = np.array([[1, 0], [0.5, math.sqrt(0.75)], [0, 1]])
    assert make_circle(0.25, 4.0)(vectors, np.array([0, 0, 1]))[1] == pytest.approx(1.501276, abs=2e-6)


@pytest.mark.parametrize("scale", [4.0, 256.0])
@pytest.mark.parametrize("miner", [None, HardPairMiner()])
def test_gradient_equals_that_of_torch_with_weights_held(names, scale, miner):
    torch = pytest.importorskip("torch")
    vectors, labels = names(10, 5)
    leaf = torch.tensor(vectors, requires_grad=True)
    units = torch.nn.functional.normalize(leaf, dim=1)
    cosines = units @ units.T
    pairs = all_pairs(labels)
    if miner is not None:
        pairs = miner(cosines.detach().numpy(), pairs)
    positives, negatives = map(torch.tensor, pairs)
    held = cosines.detach()
    far = scale * (held + 0.25).clamp(min=0) * (cosines - 0.25)
    near = -scale * (1.25 - held).clamp(min=0) * (cosines - 0.75)
    loss = torch.tensor(0.0)
    for i in range(10):
        if positives[i].any() and negatives[i].any():
            sums = torch.logsumexp(far[i][negatives[i]], 0) + torch.logsumexp(near[i][positives[i]], 0)
            loss = loss + torch.nn.functional.softplus(sums, threshold=1e9) / 10
    loss.backward()
    gradient, value = make_circle(0.25, scale, miner)(vectors, labels)
    assert value == pytest.approx(loss.item())
    assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-8, atol=1e-10)
