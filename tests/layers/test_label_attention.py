"""Label attention (OSLAT eq. 2, 3 and 5)."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from thinc.api import Adam

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.label_attention import (
    LabelAttention,
    PresenceInput,
    attend,
    mean_states,
    predict,
    presence_layer,
)
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.layers.token_states import TokenStates, WordStates


def restated(queries, states, scale):
    weights, contexts = [], []
    for query in queries:
        exponents = [
            math.exp(scale * sum(a * b for a, b in zip(query, state, strict=True)))
            for state in states
        ]
        weights.append([each / sum(exponents) for each in exponents])
        contexts.append(
            sum(weight * state for weight, state in zip(weights[-1], states, strict=True))
        )
    return np.array(weights), np.array(contexts)


def make_model(**settings):
    tokens = WordStates(
        SmallEncoder(width=8, rows=128, context_rows=64, hidden=4, context_weight=0.1)
    )
    model = LabelAttention(tokens, **settings)
    model.initialize(X=["pain and swelling in knee", "knee pain"])
    return model


def test_attention_agrees_with_hand_computed_values():
    # Products 0, log 3 and 0: weights 1/5, 3/5, 1/5.
    states = np.array([[0.0, 1.0], [math.log(3), 0.0], [0.0, -1.0]])
    found, _ = attend(np.array([[1.0, 0.0]]), states)
    assert_allclose(found.weights, [[0.2, 0.6, 0.2]])
    assert_allclose(found.contexts, [[0.6 * math.log(3), 0.0]], atol=1e-12)


@given(st.integers(1, 5), st.integers(1, 6), st.sampled_from([0.5, 1.0, 4.0]), st.integers(0, 99))
def test_attention_equals_equations_2_and_3(m, n, scale, seed):
    rng = np.random.default_rng(seed)
    queries, states = rng.normal(size=(m, 3)), rng.normal(size=(n, 3))
    found, _ = attend(queries, states, scale)
    weights, contexts = restated(queries, states, scale)
    assert_allclose(found.weights, weights, rtol=1e-6)
    assert_allclose(found.contexts, contexts, rtol=1e-6, atol=1e-9)


def test_gradients_equal_central_differences():
    rng = np.random.default_rng(0)
    queries, states, weights = (
        rng.normal(size=(3, 4)),
        rng.normal(size=(5, 4)),
        rng.normal(size=(3, 4)),
    )

    def value(queries, states):
        return (attend(queries, states, 0.7)[0].contexts * weights).sum()

    _, backprop = attend(queries, states, 0.7)
    for which, gradient in enumerate(backprop(weights)):
        given_ = [queries, states]
        for place in np.ndindex(*given_[which].shape):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [each.copy() for each in given_]
                moved[which][place] += step
                ends.append(value(*moved))
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-7)


def test_token_means_and_their_gradient_agree_with_hand_computed_values():
    vectors = np.arange(12, dtype="float32").reshape(6, 2)
    states = TokenStates(vectors, np.array([2, 0, 4]), np.zeros((6, 2), dtype=np.int64))
    means, backprop = mean_states(states)
    assert_allclose(means, [[1, 2], [0, 0], [7, 8]])
    gradient = backprop(np.array([[2.0, 4.0], [9.0, 9.0], [4.0, 8.0]], dtype="float32"))
    assert_allclose(gradient, [[1, 2]] * 2 + [[1, 2]] * 4)


def test_texts_of_a_batch_are_independent():
    model = make_model()
    texts = [
        "pain and swelling in knee",
        "",
        "headache",
        "a long text about nothing that matters, with knee pain",
    ]
    together = model.predict(texts)
    assert_array_equal(together.lengths, [5, 0, 1, 10])
    for text, place in zip(texts, together.texts(), strict=True):
        alone = model.predict([text])
        assert_allclose(together.vectors[place], alone.vectors, atol=1e-6)
        assert_array_equal(together.offsets[place], alone.offsets)


@pytest.mark.parametrize("classifier", ["context", "pair"])
@pytest.mark.parametrize("hidden", [0, 6])
def test_gradients_of_the_classifier_equal_central_differences(classifier, hidden):
    layer = presence_layer(make_model(classifier=classifier, hidden=hidden))
    rng = np.random.default_rng(1)
    for name in layer.param_names:
        layer.set_param(name, rng.normal(size=layer.get_param(name).shape).astype("float64"))
    seen = PresenceInput(rng.normal(size=(5, 8)), rng.normal(size=(5, 8)))
    weights = rng.normal(size=5)
    _, backprop = layer.begin_update(seen)
    backprop(weights)
    for name in layer.param_names:
        value = layer.get_param(name)
        for place in np.ndindex(*value.shape):
            ends = []
            for step in (1e-3, -1e-3):
                moved = value.copy()
                moved[place] += step
                layer.set_param(name, moved)
                ends.append(float((layer.predict(seen) * weights).sum()))
            layer.set_param(name, value)
            assert layer.get_grad(name)[place] == pytest.approx(
                (ends[0] - ends[1]) / 2e-3, rel=1e-2, abs=1e-3
            )


@pytest.mark.parametrize("hidden", [0, 6])
def test_the_classifier_equals_its_formula(hidden):
    layer = presence_layer(make_model(classifier="pair", hidden=hidden))
    rng = np.random.default_rng(3)
    for name in layer.param_names:
        layer.set_param(name, rng.normal(size=layer.get_param(name).shape))
    contexts, queries = rng.normal(size=(2, 5, 8))
    for c, q, logit in zip(
        contexts, queries, layer.predict(PresenceInput(contexts, queries)), strict=True
    ):
        x = np.array([*c, *q, *(c * q), c @ q / np.linalg.norm(c) / np.linalg.norm(q)])
        if hidden:
            x = np.maximum(0, x @ layer.get_param("V") + layer.get_param("c"))
        assert logit == pytest.approx(x @ layer.get_param("W") + layer.get_param("b")[0])


def test_predict_uses_the_scale_of_the_model_and_returns_probabilities():
    model = make_model(classifier="pair", scale=3.0)
    rng = np.random.default_rng(4)
    layer = presence_layer(model)
    layer.set_param("W", rng.normal(size=layer.get_dim("nI")).astype("f"))
    queries, states = rng.normal(size=(3, 8)).astype("f"), rng.normal(size=(5, 8)).astype("f")
    found, probabilities = predict(model, queries, states)
    expected, _ = attend(queries, states, 3.0)
    np.testing.assert_array_equal(found.weights, expected.weights)
    logits = layer.predict(PresenceInput(expected.contexts, queries))
    np.testing.assert_allclose(probabilities, 1 / (1 + np.exp(-logits)), rtol=1e-6)


def test_the_paper_classifier_does_not_see_the_name():
    seen = PresenceInput(np.ones((2, 8), "f"), np.array([[1.0] * 8, [-1.0] * 8], "f"))
    rng = np.random.default_rng(2)
    for classifier in ("context", "pair"):
        layer = presence_layer(make_model(classifier=classifier))
        layer.set_param("W", rng.normal(size=layer.get_dim("nI")).astype("f"))
        first, second = layer.predict(seen)
        assert np.isclose(first, second) == (classifier == "context")


def test_the_model_survives_saving_and_loading(tmp_path):
    model = make_model(classifier="pair", hidden=6)
    again = make_model(classifier="pair", hidden=6)
    layer = presence_layer(model)
    layer.inc_grad("W", np.ones(6, "f"))
    model.finish_update(Adam(0.1, use_averages=False))
    again.from_bytes(model.to_bytes())
    assert again.to_bytes() == model.to_bytes()


def test_invalid_settings_raise():
    with pytest.raises(KrisselError, match="K006.*scale"):
        make_model(scale=0.0)
