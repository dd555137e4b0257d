import numpy as np
import pytest
from thinc.api import Model

from spacy_krissel.layers.hf.transformer import add_name_view
from spacy_krissel.layers.identity import fingerprint
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.views import View, name_view

VIEWS = [View("a case of ", "MS", " in spring"), name_view("MS"), View("left ", "hidden", " right", masked=True)]


@pytest.fixture
def encoder():
    return SmallEncoder(width=8, rows=64, context_rows=64, hidden=8, seed=1)


def test_adds_the_vector_of_the_name_to_mentions_that_show_it(encoder):
    model = add_name_view(encoder, 0.5)
    model.initialize(X=VIEWS)
    alone = encoder.predict(VIEWS)
    expected = alone.copy()
    expected[0] += 0.5 * encoder.predict([name_view("MS")])[0]
    np.testing.assert_allclose(model.predict(VIEWS), expected, atol=1e-6)
    assert model.get_dim("nO") == 8
    assert model.predict([VIEWS[2]])[0] == pytest.approx(alone[2], abs=1e-6)


def test_gradient_reaches_both_views():
    """Against a linear stand-in whose gradients are known: each vector is one weight times the length of the text."""
    seen = []

    def forward(model, X, is_train):
        def backprop(dY):
            seen.append((list(X), dY.copy()))
            return []

        return np.array([[len(view.left + view.mention + view.right)] for view in X], dtype=np.float32), backprop

    model = add_name_view(Model("lengths", forward, dims={"nO": 1}), 2.0)
    vectors, backprop = model(VIEWS, is_train=True)
    assert vectors.tolist() == [[len("a case of MS in spring") + 2 * 2], [2], [len("left hidden right")]]
    backprop(np.array([[1], [10], [100]], dtype=np.float32))
    views, gradient = seen[0]
    assert views == [*VIEWS, name_view("MS")]
    assert gradient.tolist() == [[1], [10], [100], [2]]


def test_weight_is_part_of_the_fingerprint():
    prints = set()
    for weight in (0.5, 1.0):
        model = add_name_view(SmallEncoder(width=8, rows=64, context_rows=64, hidden=8), weight)
        model.initialize(X=VIEWS)
        prints.add(fingerprint(model))
    assert len(prints) == 2
