import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from spacy_krissel.losses.multi_similarity import make_multi_similarity


def equation_2(positive_scale, negative_scale, epsilon):
    """Eq. 2 of SapBERT, term by term; as printed, α is the negatives' scale and β the positives'."""

    def equation(units, positives, negatives):
        n = len(units)
        total = 0.0
        for i in range(n):
            far = sum(math.exp(negative_scale * (units[i] @ units[k] - epsilon)) for k in negatives[i])
            near = sum(math.exp(-positive_scale * (units[i] @ units[p] - epsilon)) for p in positives[i])
            total += math.log(1 + far) / negative_scale + math.log(1 + near) / positive_scale
        return total / n

    return equation


def test_loss_is_equation_2(restated):
    restated(make_multi_similarity, equation_2(2, 50, 0.5))
    restated(lambda miner: make_multi_similarity(alpha_goes_with="negatives", miner=miner), equation_2(50, 2, 0.5))
    restated(lambda miner: make_multi_similarity(1.0, 40.0, 1.0, miner=miner), equation_2(1, 40, 1))


def test_batch_worked_by_hand():
    # Two names of one entity at 60° (cosine 0.5) and one of another at 90° from the first, 150° from the second
    # (cosines 0 and -0.8660). α = 2 with positives, β = 4 with negatives, ε = 0.5.
    # Anchor 1: 1/4 log(1 + e^(4(0 - .5)) ) + 1/2 log(1 + e^0) = .25 * .126928 + .5 * .693147 = .378306
    # Anchor 2: 1/4 log(1 + e^(4(-.866025 - .5))) + .346574 = .25 * .004226 + .346574 = .347630
    # Anchor 3: no positive; 1/4 log(1 + e^-2 + e^-5.464102) = .25 * log(1.139570) = .032663
    # Mean: .758599 / 3 = .252866.
    vectors = np.array([[1, 0], [0.5, math.sqrt(0.75)], [0, -1]])
    labels = np.array([0, 0, 1])
    assert make_multi_similarity(2, 4, 0.5)(vectors, labels)[1] == pytest.approx(0.252866, abs=2e-6)
    # The other way round anchor 1 has 1/2 log(1 + e^-1) + 1/4 log 2 = .156631 + .173287 = .329918,
    # anchor 2 1/2 log(1 + e^-2.732051) + .173287 = .031528 + .173287 = .204814,
    # anchor 3 1/2 log(1 + e^-1 + e^-2.732051) = .179873; mean .238202.
    swapped = make_multi_similarity(2, 4, 0.5, alpha_goes_with="negatives")
    assert swapped(vectors, labels)[1] == pytest.approx(0.238202, abs=2e-6)


def test_gradient_equals_that_of_torch(names):
    torch = pytest.importorskip("torch")
    vectors, labels = names(10, 5)
    leaf = torch.tensor(vectors, requires_grad=True)
    units = torch.nn.functional.normalize(leaf, dim=1)
    cosines = units @ units.T
    same = torch.tensor(labels[:, None] == labels[None])
    near = (torch.exp(-2 * (cosines - 0.5)) * (same & ~torch.eye(10, dtype=torch.bool))).sum(1)
    far = (torch.exp(50 * (cosines - 0.5)) * ~same).sum(1)
    (torch.log(1 + near) / 2 + torch.log(1 + far) / 50).mean().backward()
    assert_allclose(make_multi_similarity()(vectors, labels)[0], leaf.grad.numpy(), rtol=1e-8, atol=1e-12)
