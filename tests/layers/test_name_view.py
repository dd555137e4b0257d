import numpy as np
import pytest

from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.identity import fingerprint
from spacy_krissel.views import View, name_view

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MENTION = View("a case of ", "cold", " in spring")
# Their vectors are those of the views alone.
OTHERS = [
    name_view("cold"),
    View("left ", "hidden", " right", masked=True),
    View("", "cold; coryza", "of the nose", reference=True),
]
VIEWS = [MENTION, *OTHERS]


@pytest.fixture
def make(tiny_bert):
    def make(weight, **settings):
        model = TransformerEncoder(
            str(tiny_bert), name_weight=weight, transformer_config=NO_DROPOUT, **settings
        )
        model.initialize()
        return model

    return make


@pytest.mark.parametrize("normalize", [False, True])
def test_the_name_vector_is_added_to_mentions_in_context(make, normalize):
    model, plain = make(0.5, normalize=normalize), make(0.0, normalize=normalize)
    expected = plain.predict(VIEWS)
    expected[0] += 0.5 * plain.predict([name_view("cold")])[0]
    if normalize:
        expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict(VIEWS), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict(OTHERS), expected[1:], atol=1e-6)


def test_the_gradient_reaches_both_views(make):
    """The gradient equals that of the views and the name encoded one by one."""
    model, plain = make(2.0), make(0.0)
    dY = np.random.default_rng(0).normal(size=(4, 32)).astype("float32")
    model.begin_update(VIEWS)[1](dY)
    plain.begin_update([*VIEWS, name_view("cold")])[1](np.vstack((dY, 2 * dY[:1])))
    assert model.get_dim("nO") == 32
    weights = [
        next(s for node in m.walk() for s in node.shims).transformer.named_parameters()
        for m in (model, plain)
    ]
    for (name, found), (_, expected) in zip(*weights, strict=True):
        assert (found.grad is None) == (expected.grad is None), name
        if found.grad is not None:
            np.testing.assert_allclose(found.grad, expected.grad, atol=1e-5, err_msg=name)


def test_the_name_weight_is_part_of_the_fingerprint(make):
    assert len({fingerprint(make(weight)) for weight in (0.0, 0.5, 1.0)}) == 3
