"""The projection head that only training sees."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.heads import HeadedEncoder
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.layers.warm_start import warm_start
from spacy_krissel.views import name_view

VIEWS = [name_view("knee pain"), name_view("headache"), name_view("pain in knee")]


def small():
    return SmallEncoder(width=8, rows=128, context_rows=64, hidden=4, normalize=False)


@pytest.fixture
def model():
    model = HeadedEncoder(small(), hidden=6, width=5)
    model.initialize(X=VIEWS)
    return model


def test_the_head_is_used_in_training_only(model):
    encoder, head = model.layers
    vectors = encoder.predict(VIEWS)
    assert_allclose(model.predict(VIEWS), vectors)
    found, _ = model.begin_update(VIEWS)
    first, second = head.layers
    inner = np.maximum(vectors @ first.get_param("W").T + first.get_param("b"), 0)
    assert_allclose(found, inner @ second.get_param("W").T + second.get_param("b"), atol=1e-5)
    assert found.shape == (3, 5) and model.get_dim("nO") == 8


def test_the_gradient_passes_through_the_head_to_the_encoder(model):
    weights = np.random.default_rng(0).normal(size=(3, 5)).astype("f")
    _, backprop = model.begin_update(VIEWS)
    backprop(weights)
    encoder = model.layers[0]
    gradient, value = encoder.get_grad("W2").copy(), encoder.get_param("W2").copy()
    for place in [(0, 0), (3, 7)]:
        ends = []
        for step in (1e-2, -1e-2):
            moved = value.copy()
            moved[place] += step
            encoder.set_param("W2", moved)
            ends.append(float((model(VIEWS, True)[0] * weights).sum()))
        encoder.set_param("W2", value)
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=3e-2, abs=1e-3)


def test_an_encoder_starts_from_a_headed_one_without_the_head(model):
    target = small()
    target.initialize(X=VIEWS)
    assert warm_start(model, target)
    assert_allclose(target.get_param("W1"), model.layers[0].get_param("W1"))


def test_invalid_settings_raise():
    with pytest.raises(KrisselError, match="K006.*hidden"):
        HeadedEncoder(small(), hidden=0)
