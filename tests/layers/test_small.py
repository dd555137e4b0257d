import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from thinc.api import Adam, set_dropout_rate

from spacy_krissel.layers.identity import fingerprint
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.views import View, name_view

SHAPE = {"width": 8, "rows": 512, "context_rows": 256, "hidden": 6}
VIEWS = [
    View("relapses of ", "multiple sclerosis", " in a patient"),
    name_view("MS"),
    View("", "Mitral stenosis", " with a murmur"),
    View("a case of ", "MS", "", masked=True),
]
WILD = st.text(st.characters(exclude_categories=()), max_size=20)


@pytest.fixture
def make():
    def make(*, trained=False, **changes):
        """trained: with no weight at zero."""
        model = SmallEncoder(**{**SHAPE, **changes})
        model.initialize(X=VIEWS)
        random = np.random.default_rng(1)
        for node in model.walk() if trained else ():
            for name in node.param_names:
                values = random.normal(scale=0.5, size=node.get_param(name).shape)
                node.set_param(name, values.astype("float32"))
        return model

    return make


def test_vectors_have_unit_length_if_normalized(make):
    model = make()
    vectors = model.predict(VIEWS)
    assert vectors.shape == (4, 8) == (4, model.get_dim("nO"))
    assert vectors.dtype == np.float32
    assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert model.predict([]).shape == (0, 8)
    lengths = np.linalg.norm(make(normalize=False).predict(VIEWS), axis=1)
    assert not np.allclose(lengths, 1, atol=1e-3)


def test_one_mention_in_two_contexts_has_two_vectors(make):
    a, b = make(trained=True).predict(
        [View("relapses of ", "MS", ""), View("a murmur of ", "MS", "")]
    )
    assert not np.allclose(a, b, atol=1e-2)


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(
    "views", [VIEWS, [*VIEWS, View("seen ", "MS", " again"), VIEWS[0]], VIEWS[1:2] * 3, []]
)
def test_predicted_vectors_equal_those_of_training(make, views, normalize):
    model = make(trained=True, normalize=normalize)
    vectors, _ = model.begin_update(views)
    assert_allclose(model.predict(views), vectors, atol=1e-5)
    dY = np.random.default_rng(4).standard_normal(vectors.shape, dtype=np.float32)
    gradients = []
    for is_train in (True, False):
        other = model.copy()
        other(views, is_train)[1](dY)
        node = next(node for node in other.walk() if node.name == "small_encoder")
        of_tables = [array for bags in node.layers for array in bags.shims[0]._summed()]
        gradients.append([*(node.get_grad(name) for name in node.param_names), *of_tables])
    for expected, gradient in zip(*gradients, strict=True):
        assert_allclose(gradient, expected, atol=1e-5)


def test_mask_hides_the_mention(make):
    model = make(trained=True)
    views = [View("relapses of ", mention, "", masked=True) for mention in ("MS", "asthma")]
    a, b, plain = model.predict([*views, views[0]._replace(masked=False)])
    assert_allclose(a, b, atol=1e-6)
    assert not np.allclose(a, plain, atol=1e-2)


@settings(max_examples=50)
@given(st.lists(st.builds(View, WILD, WILD, WILD, st.booleans()), max_size=5))
def test_arbitrary_texts_give_finite_vectors_independent_of_the_batch(views):
    model = SmallEncoder(**SHAPE)
    model.initialize()
    vectors = model.predict([*views, *VIEWS])
    assert np.isfinite(vectors).all()
    assert_allclose(vectors[len(views) :], model.predict(VIEWS), atol=1e-5)
    for view, vector in zip(views, vectors, strict=False):
        assert_allclose(model.predict([view])[0], vector, atol=1e-5)


@pytest.mark.parametrize("normalize", [True, False])
def test_gradient_equals_central_differences(make, normalize):
    """Compare all weights and read table rows, for a random linear function of the vectors."""
    model = make(trained=True, normalize=normalize)
    weights = np.random.default_rng(2).standard_normal((4, 8))

    def value():
        return float((model.predict(VIEWS).astype("float64") * weights).sum())

    arrays = {}
    for i, node in enumerate(model.walk()):
        for name in node.param_names:
            arrays[f"{i} {name}"] = node.get_param(name)
        for shim in node.shims:
            arrays[f"{i} table"] = shim.table
    before = {name: array.copy() for name, array in arrays.items()}
    random = np.random.default_rng(3)
    numeric = {}
    for name, array in arrays.items():
        # Along a random direction: single elements drown in the rounding of float32.
        direction = random.standard_normal(array.shape).astype("float32")
        step = 2e-3
        array += step * direction
        up = value()
        array -= 2 * step * direction
        numeric[name] = (direction, (up - value()) / (2 * step))
        array[...] = before[name]
    _, backprop = model.begin_update(VIEWS)
    backprop(weights.astype("float32"))
    eps = rate = 1e5
    model.finish_update(Adam(rate, eps=eps, grad_clip=0.0, L2=0.0, use_averages=False))
    assert len(numeric) >= 6
    for i, node in enumerate(model.walk()):
        # With an eps far above the gradient, Adam's first step is along it.
        scale = rate / eps * np.sqrt(1 - 0.999)
        after = {f"{i} {name}": node.get_param(name) for name in node.param_names}
        after.update({f"{i} table": shim.table for shim in node.shims})
        for name, array in after.items():
            gradient = (before[name] - array) / scale
            direction, expected = numeric[name]
            size = np.linalg.norm(gradient) * np.linalg.norm(direction)
            assert gradient.any()
            assert float((gradient * direction).sum()) == pytest.approx(
                expected, abs=2e-3 * size + 1e-3
            ), name


def test_training_brings_pairs_together(make):
    model = make()
    optimizer = Adam(0.01, use_averages=False)

    def similarity():
        vectors = model.predict(VIEWS)
        return float(vectors[0] @ vectors[1]), float(vectors[0] @ vectors[2])

    before = similarity()
    for _ in range(30):
        vectors, backprop = model.begin_update(VIEWS)
        gradient = np.zeros_like(vectors)
        gradient[0], gradient[1] = vectors[2] - vectors[1], -vectors[0]
        gradient[2] = vectors[0]
        backprop(gradient)
        model.finish_update(optimizer)
        optimizer.step_schedules()
    pair, other = similarity()
    assert pair > before[0] + 0.2 and other < before[1]


def test_a_bytes_round_trip_keeps_vectors_and_fingerprint(make):
    model = make(trained=True)
    data = model.to_bytes()
    loaded = SmallEncoder(**SHAPE).from_bytes(data)
    assert loaded.to_bytes() == data
    assert fingerprint(loaded) == fingerprint(model)
    assert (loaded.predict(VIEWS) == model.predict(VIEWS)).all()
    assert (pickle.loads(pickle.dumps(model)).predict(VIEWS) == model.predict(VIEWS)).all()


def test_the_seed_changes_the_fingerprint(make):
    assert fingerprint(make(seed=1)) != fingerprint(make(seed=2))


def test_dropout_is_applied_in_training_only(make):
    model = make(trained=True)
    set_dropout_rate(model, 0.5)
    assert (model.predict(VIEWS) == model.predict(VIEWS)).all()
    np.random.seed(0)
    assert not np.allclose(model.begin_update(VIEWS)[0], model.begin_update(VIEWS)[0], atol=1e-3)
    set_dropout_rate(model, 0.0)
    assert_allclose(model.begin_update(VIEWS)[0], model.predict(VIEWS), atol=1e-6)


def test_without_context_only_the_mention_counts(make):
    model = make(trained=True)
    a, b, c = model.predict(
        [
            name_view("breast neoplasms"),
            name_view("Breast-Neoplasms"),
            View("(", "breast neoplasms", ")"),
        ]
    )
    assert_allclose(a, b, atol=1e-6)
    assert_allclose(a, c, atol=1e-6)
