import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from thinc.api import fix_random_seed

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.heads import ProjectedEncoder
from spacy_krissel.layers.identity import fingerprint
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.views import View, name_view

VIEWS = [View("a case of ", "MS", " in spring"), name_view("MS"), name_view("cold")]


def small(width=8):
    return SmallEncoder(width=width, rows=64, context_rows=64, hidden=8, seed=1)


@pytest.fixture
def make():
    def make(**settings):
        fix_random_seed(0)
        model = ProjectedEncoder(small(), **{"width": 3, **settings})
        model.initialize(X=VIEWS)
        return model

    return make


@pytest.mark.parametrize("normalize", [False, True])
def test_the_projection_is_a_matrix_product(make, normalize):
    model = make(normalize=normalize)
    expected = model.layers[0].predict(VIEWS) @ model.get_param("W")
    if normalize:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert_allclose(model.predict(VIEWS), expected, atol=1e-6)
    assert model.get_dim("nO") == 3 and model.get_dim("nI") == 8


def test_the_initial_projection_preserves_expected_inner_products():
    """Columns are orthogonal, and as long as leaves the expected inner product."""
    model = ProjectedEncoder(small(width=64), width=16)
    model.initialize(X=VIEWS)
    W = model.get_param("W")
    assert_allclose(W.T @ W, 4 * np.eye(16), atol=1e-5)
    assert W.dtype == np.float32


@pytest.mark.parametrize("normalize", [False, True])
def test_gradients_equal_central_differences(make, normalize):
    model = make(normalize=normalize)
    d_vectors = np.random.default_rng(0).normal(size=(3, 3)).astype("float32")
    _, backprop = model.begin_update(VIEWS)
    backprop(d_vectors)
    gradient = model.get_grad("W")
    W = model.get_param("W").copy()
    for place in np.ndindex(*W.shape):
        values = []
        for step in (1e-2, -1e-2):
            moved = W.copy()
            moved[place] += step
            model.set_param("W", moved)
            values.append(float((model.predict(VIEWS) * d_vectors).sum()))
        assert gradient[place] == pytest.approx((values[0] - values[1]) / 2e-2, rel=2e-2, abs=2e-3)


def test_the_encoder_gets_its_gradient(make):
    model = make()
    seen = []
    model.layers[0]._func = lambda layer, X, is_train: (
        np.ones((3, 8), dtype="float32"),
        lambda dY: seen.append(dY),
    )
    d_vectors = np.arange(9, dtype="float32").reshape(3, 3)
    model.begin_update(VIEWS)[1](d_vectors)
    assert_allclose(seen[0], d_vectors @ model.get_param("W").T)


@pytest.mark.parametrize("normalize", [False, True])
def test_layer_norms_equal_torch(make, normalize):
    """`LayerNorm, Linear, LayerNorm`: vectors, and the gradients of all weights and of the
    encoder's output."""
    model = make(normalize=normalize, layer_norm=True)
    random = np.random.default_rng(0)
    given = random.normal(size=(3, 8)).astype("float32")
    norms, seen = model.layers[1:3], []
    model.layers[0]._func = lambda layer, X, is_train: (given, seen.append)
    for node in norms:
        for name in ("G", "b"):
            node.set_param(name, random.normal(size=node.get_param(name).shape).astype("float32"))
    places = [(norms[0], "G"), (norms[0], "b"), (model, "W"), (norms[1], "G"), (norms[1], "b")]
    vectors, *weights = (
        torch.tensor(each, dtype=torch.float64, requires_grad=True)
        for each in (given, *(node.get_param(name) for node, name in places))
    )
    G, b, W, last_G, last_b = weights
    inner = torch.nn.functional.layer_norm(vectors, (8,), G, b, eps=1e-8)
    expected = torch.nn.functional.layer_norm(inner @ W, (3,), last_G, last_b, eps=1e-8)
    if normalize:
        expected = torch.nn.functional.normalize(expected)
    d_vectors = random.normal(size=(3, 3)).astype("float32")
    found, backprop = model.begin_update(VIEWS)
    backprop(d_vectors)
    (expected * torch.tensor(d_vectors)).sum().backward()
    assert_allclose(found, expected.detach(), atol=1e-5)
    assert_allclose(seen[0], vectors.grad, atol=1e-4)
    for (node, name), weight in zip(places, weights, strict=True):
        assert_allclose(node.get_grad(name), weight.grad, atol=1e-4)


def test_with_layer_norms_squared_lengths_equal_the_width(make):
    vectors = make(layer_norm=True).predict(VIEWS)
    assert_allclose((vectors**2).sum(axis=1), 3, rtol=1e-4)


def test_vectors_survive_saving_and_loading(make):
    for layer_norm in (False, True):
        model, other = (
            make(layer_norm=layer_norm),
            ProjectedEncoder(small(), width=3, layer_norm=layer_norm),
        )
        other.from_bytes(model.to_bytes())
        assert_allclose(other.predict(VIEWS), model.predict(VIEWS), atol=1e-7)
        for node in other.layers[1:]:
            node.set_param("b", node.get_param("b") + 1)
        trained = other.predict(VIEWS)
        other.initialize(X=VIEWS)
        assert_allclose(
            other.predict(VIEWS), trained, err_msg="initialized again, it keeps its weights"
        )
        other.from_bytes(model.to_bytes())
        others = [fingerprint(make(normalize=True)), fingerprint(make(layer_norm=not layer_norm))]
        assert fingerprint(other) == fingerprint(model) not in others


def test_invalid_widths_raise(make):
    with pytest.raises(KrisselError, match="K006.*'width'.*1 or more"):
        make(width=0)
    with pytest.raises(KrisselError, match="K006.*'width'.*encoder's 8"):
        make(width=9)
