import math

import numpy as np
import pytest

from spacy_krissel.losses.nca import make_nca


def equation(units, positives, negatives, scale=20.0):
    total = 0.0
    for i in range(len(units)):
        if positives[i]:
            near, every = (
                sum(math.exp(-scale * math.dist(units[i], units[k]) ** 2) for k in group)
                for group in (positives[i], positives[i] + negatives[i])
            )
            total -= math.log(near / every)
    return total / len(units)


def test_loss_is_the_equation(restated):
    restated(make_nca, equation)
    restated(lambda miner: make_nca(1.0, miner), lambda *batch: equation(*batch, scale=1.0))


def test_batch_worked_by_hand():
    # Squared distances: 0°-60° 1, 0°-90° 2, 60°-90° .267949; scale 1.
    # log(1 + e^(1 - 2)) = .313262, log(1 + e^(1 - .267949)) = 1.124715; the third name has no positive.
    # Over the three names: 1.437977 / 3 = .479326.
    vectors = np.array([[1, 0], [0.5, math.sqrt(0.75)], [0, 1]])
    assert make_nca(1.0)(vectors, np.array([0, 0, 1]))[1] == pytest.approx(0.479326, abs=2e-6)
