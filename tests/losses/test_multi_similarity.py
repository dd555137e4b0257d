import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pair_losses import assert_restated, names, of_names

from spacy_krissel.losses.multi_similarity import MultiSimilarity


def equation_2(alpha, beta, epsilon):
    """Eq. 2 of SapBERT, term by term, α the positives' scale and β the negatives' as in Wang et
    al."""

    def equation(units, positives, negatives):
        n = len(units)
        total = 0.0
        for i in range(n):
            far = sum(math.exp(beta * (units[i] @ units[k] - epsilon)) for k in negatives[i])
            near = sum(math.exp(-alpha * (units[i] @ units[p] - epsilon)) for p in positives[i])
            total += math.log(1 + far) / beta + math.log(1 + near) / alpha
        return total / n

    return equation


def test_the_loss_equals_equation_2():
    assert_restated(MultiSimilarity(), equation_2(2, 50, 0.5))
    assert_restated(MultiSimilarity(50.0, 2.0), equation_2(50, 2, 0.5))
    assert_restated(MultiSimilarity(1.0, 40.0, 1.0), equation_2(1, 40, 1))


def test_the_loss_agrees_with_hand_computed_values():
    # Two names of one entity at 60° (cosine 0.5) and one of another at 90° from the first, 150°
    # from the second (cosines 0 and -0.8660). α = 2, β = 4, ε = 0.5.
    # Anchor 1: 1/4 log(1 + e^(4(0 - .5)) ) + 1/2 log(1 + e^0) = .25 * .126928 + .5 * .693147 =
    # .378306 Anchor 2: 1/4 log(1 + e^(4(-.866025 - .5))) + .346574 = .25 * .004226 + .346574 =
    # .347630 Anchor 3: no positive; 1/4 log(1 + e^-2 + e^-5.464102) = .25 * log(1.139570) = .032663
    # Mean: .758599 / 3 = .252866.
    vectors = np.array([[1, 0], [0.5, math.sqrt(0.75)], [0, -1]])
    labels = np.array([0, 0, 1])
    assert of_names(MultiSimilarity(2, 4, 0.5))(vectors, labels)[1] == pytest.approx(
        0.252866, abs=2e-6
    )
    # With the scales exchanged, anchor 1 has 1/2 log(1 + e^-1) + 1/4 log 2 = .156631 + .173287 =
    # .329918, anchor 2 1/2 log(1 + e^-2.732051) + .173287 = .031528 + .173287 = .204814, anchor 3
    # 1/2 log(1 + e^-1 + e^-2.732051) = .179873; mean .238202.
    assert of_names(MultiSimilarity(4, 2, 0.5))(vectors, labels)[1] == pytest.approx(
        0.238202, abs=2e-6
    )


def test_the_gradient_equals_torch():
    torch = pytest.importorskip("torch")
    vectors, labels = names(10, 5)
    leaf = torch.tensor(vectors, requires_grad=True)
    units = torch.nn.functional.normalize(leaf, dim=1)
    cosines = units @ units.T
    same = torch.tensor(labels[:, None] == labels[None])
    near = (torch.exp(-2 * (cosines - 0.5)) * (same & ~torch.eye(10, dtype=torch.bool))).sum(1)
    far = (torch.exp(50 * (cosines - 0.5)) * ~same).sum(1)
    (torch.log(1 + near) / 2 + torch.log(1 + far) / 50).mean().backward()
    assert_allclose(
        of_names(MultiSimilarity())(vectors, labels)[0], leaf.grad.numpy(), rtol=1e-8, atol=1e-12
    )
