"""OSLAT's eq. 4."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses.label_synonym import LabelSynonymNCE, make_label_synonym_nce


def restated(contexts, n_positives, temperature):
    unit = [row / math.sqrt(sum(x * x for x in row)) for row in contexts]
    scores = [sum(a * b for a, b in zip(unit[0], row, strict=True)) / temperature for row in unit[1:]]
    total = sum(math.exp(score) for score in scores)
    return -sum(math.log(math.exp(score) / total) for score in scores[:n_positives]) / n_positives


def test_worked_by_hand():
    # Cosines with the first: 1 of the synonym, 0 and -1 of the others; −log(e / (e + 1 + 1/e)) = log(1.503215).
    contexts = np.array([[2.0, 0.0], [5.0, 0.0], [0.0, 3.0], [-1.0, 0.0]])
    _, loss = LabelSynonymNCE(temperature=1.0)(contexts, 1)
    assert loss == pytest.approx(0.407606, abs=1e-6)


@given(st.integers(1, 4), st.integers(0, 5), st.sampled_from([0.07, 0.5, 2.0]), st.integers(0, 99))
def test_is_equation_4(n_positives, n_negatives, temperature, seed):
    contexts = np.random.default_rng(seed).normal(size=(1 + n_positives + n_negatives, 3))
    _, loss = LabelSynonymNCE(temperature=temperature)(contexts, n_positives)
    assert loss == pytest.approx(restated(contexts, n_positives, temperature), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_gradient_equals_central_differences(temperature):
    loss = make_label_synonym_nce(temperature)
    contexts = np.random.default_rng(1).normal(size=(7, 4))
    gradient, _ = loss(contexts, 2)
    step = 1e-6
    for place in np.ndindex(*contexts.shape):
        moved = [contexts.copy(), contexts.copy()]
        moved[0][place] += step
        moved[1][place] -= step
        high, low = (loss(each, 2)[1] for each in moved)
        assert gradient[place] == pytest.approx((high - low) / (2 * step), rel=1e-4, abs=1e-7)


def test_length_does_not_matter():
    contexts = np.random.default_rng(2).normal(size=(5, 3))
    lengths = np.array([1.0, 2.0, 0.5, 9.0, 0.1])[:, None]
    loss = LabelSynonymNCE()
    assert loss(contexts * lengths, 2)[1] == pytest.approx(loss(contexts, 2)[1])


@pytest.mark.parametrize("n_positives", [0, 3])
def test_refuses_what_has_no_synonym(n_positives):
    with pytest.raises(KrisselError, match="K640"):
        LabelSynonymNCE()(np.eye(3), n_positives)


def test_refuses_a_temperature_of_nothing():
    with pytest.raises(KrisselError, match="temperature"):
        LabelSynonymNCE(temperature=0)
