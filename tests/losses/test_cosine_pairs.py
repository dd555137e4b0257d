import math

import numpy as np
import pytest

from spacy_krissel.losses.cosine_pairs import make_cosine_pairs


def equation(units, positives, negatives, margin=0.0):
    cosines = units @ units.T
    near = [1 - cosines[i, p] for i in range(len(units)) for p in positives[i]]
    far = [max(0, cosines[i, k] - margin) for i in range(len(units)) for k in negatives[i]]
    return sum(near) / max(1, len(near)) + sum(far) / max(1, len(far))


def test_loss_is_the_equation(restated):
    restated(make_cosine_pairs, equation)
    restated(lambda miner: make_cosine_pairs(0.3, miner), lambda *batch: equation(*batch, margin=0.3))


def test_batch_worked_by_hand():
    # Cosines .5 (positive), 0 and .866025 (negative): .5 + .866025 / 2; a margin of 1 leaves the negatives out.
    vectors = np.array([[1, 0], [0.5, math.sqrt(0.75)], [0, 1]])
    labels = np.array([0, 0, 1])
    assert make_cosine_pairs()(vectors, labels)[1] == pytest.approx(0.933013, abs=1e-6)
    assert make_cosine_pairs(0.6)(vectors, labels)[1] == pytest.approx(0.5 + 0.133013, abs=1e-6)
    assert make_cosine_pairs(1.0)(vectors, labels)[1] == pytest.approx(0.5, abs=1e-6)
