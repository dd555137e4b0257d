import math

import numpy as np
import pytest

from spacy_krissel.losses.lifted_structure import make_lifted_structure


def equation(units, positives, negatives, margin=0.5):
    terms = []
    for i in range(len(units)):
        for j in positives[i]:
            far = sum(math.exp(margin - math.dist(units[i], units[k])) for k in negatives[i])
            far += sum(math.exp(margin - math.dist(units[j], units[k])) for k in negatives[j])
            both = math.log(far) + math.dist(units[i], units[j]) if far else -math.inf
            terms.append(max(0.0, both) ** 2)
    return sum(terms) / (2 * max(1, len(terms)))


def test_loss_is_the_equation(restated):
    restated(make_lifted_structure, equation)
    restated(lambda miner: make_lifted_structure(1.0, miner), lambda *batch: equation(*batch, margin=1.0))


def test_batch_worked_by_hand():
    # 0° and 60°, 1 apart, with 90° of another entity 1.414214 and .517638 away; α = 1.
    # J = log(e^-.414214 + e^.482362) + 1 = log(.660859 + 1.619895) + 1 = 1.824506, for either order of the pair.
    # The sum over two ordered pairs by twice their number: 1.824506² / 2 = 1.664411.
    vectors = np.array([[1, 0], [0.5, math.sqrt(0.75)], [0, 1]])
    assert make_lifted_structure(1.0)(vectors, np.array([0, 0, 1]))[1] == pytest.approx(1.664411, abs=5e-6)
