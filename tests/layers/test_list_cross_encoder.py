import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import erf
from thinc.api import Adam

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.list_cross_encoder import (
    FEATURES,
    PARAMS,
    ListCrossEncoder,
    dice,
    read_lists,
)
from spacy_krissel.layers.ranked import RankedMention
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.views import CandidateView, View, name_view


def mention(view, logits, *names):
    candidates = tuple(CandidateView(each, each) for each in names)
    return RankedMention(view, candidates, np.array(logits, dtype="float32"))


MENTIONS = [
    mention(
        View("relapses of ", "MS", " in a man"),
        [2, 1.5, -30],
        ("multiple sclerosis", "MS"),
        ("mitral",),
        (),
    ),
    mention(View("", "cold", ""), [1, 1], ("common cold", "coryza", "cold"), ("cold temperature",)),
]


@pytest.fixture
def make():
    def make(trained=True, **settings):
        encoder = SmallEncoder(width=16, rows=512, context_rows=256, hidden=4)
        model = ListCrossEncoder(encoder, hidden=5, **settings)
        model.initialize(X=MENTIONS)
        if trained:
            random = np.random.default_rng(0)
            for name in PARAMS:
                shape = model.layers[0].get_param(name).shape
                model.layers[0].set_param(name, random.normal(size=shape).astype("float32") * 0.5)
        return model

    return make


def gelu(x):
    return x * (1 + erf(x / np.sqrt(2))) / 2


def one_by_one(model, mentions, n_names, bound):
    """The equations of the docstring for one mention and one candidate at a time."""
    inner = model.layers[0]
    W, U, V, b, A, B, b2, o = (inner.get_param(name).astype("float64") for name in PARAMS)
    encode = inner.layers[0].predict
    corrections = []
    for each in mentions:
        hidden = []
        m, context = encode([name_view(each.view.mention)])[0], encode([each.view])[0]
        for place, candidate in enumerate(each.candidates):
            names = candidate.names[:n_names] or ("",)
            vectors = encode([name_view(name) for name in names])
            c = vectors[np.argmax(vectors @ m)]
            letters = dice(each.view.mention, names)
            gap = max(each.logits[place] - each.logits[0], -10) / 10
            likeness = [c @ m, vectors[0] @ m, vectors[0] @ context, max(letters), letters[0]]
            f = np.array([gap, 1 / (place + 1), *likeness])
            hidden.append(gelu(f @ W + (m @ U) * (c @ V) + b))
        for h in hidden:
            g = gelu(h @ A + np.mean(hidden, axis=0) @ B + b2)
            corrections.append(bound * np.tanh(g @ o / bound))
    return corrections


@pytest.mark.parametrize("n_names, bound", [(1, 1.0), (3, 0.5)])
def test_corrections_equal_their_equations(make, n_names, bound):
    model = make(n_names=n_names, bound=bound)
    expected = one_by_one(model, MENTIONS, n_names, bound)
    assert np.abs(expected).max() > 0.1
    assert_allclose(model.predict(MENTIONS), expected, atol=1e-4)


def test_gradients_equal_central_differences(make):
    model = make()
    weights = np.array([1, -2, 0.5, 3, 1], dtype="float32")
    _, backprop = model.begin_update(MENTIONS)
    backprop(weights)
    inner = model.layers[0]
    for name in PARAMS:
        gradient, value = inner.get_grad(name).copy(), inner.get_param(name).copy()
        direction = np.random.default_rng(1).normal(size=value.shape).astype("float32")
        sums = []
        for sign in (1, -1):
            inner.set_param(name, value + sign * np.float32(1e-2) * direction)
            sums.append(float((model.predict(MENTIONS).astype("float64") * weights).sum()))
        inner.set_param(name, value)
        assert (gradient * direction).sum() == pytest.approx(
            (sums[0] - sums[1]) / 2e-2, abs=1e-2, rel=1e-2
        ), name


def test_an_untrained_cross_encoder_scores_zero(make):
    assert (make(trained=False).predict(MENTIONS) == np.zeros(5)).all()


def test_mentions_of_a_batch_are_independent(make):
    model = make()
    alone = [model.predict([each]) for each in MENTIONS]
    assert_allclose(model.predict(MENTIONS), np.concatenate(alone), atol=1e-6)


def test_candidates_of_a_list_influence_each_other(make):
    """The other candidates of the list influence the score of each candidate."""
    model, (first, _) = make(), MENTIONS
    less = first._replace(candidates=first.candidates[:2], logits=first.logits[:2])
    assert np.abs(model.predict([less]) - model.predict([first])[:2]).max() > 1e-4


def test_only_the_layers_above_the_encoder_are_trained(make):
    model = make(trained=False)
    encoder = model.layers[0].layers[0]
    before = encoder.to_bytes()
    optimizer = Adam(0.02, use_averages=False)
    for _ in range(30):
        _, backprop = model.begin_update(MENTIONS)
        backprop(np.array([0, -1, 0, -1, 1], dtype="float32"))
        model.finish_update(optimizer)
    scores = model.predict(MENTIONS)
    assert scores[1] > 0.3 and scores[3] > scores[4] + 0.1
    assert encoder.to_bytes() == before


def test_names_are_encoded_once_until_weights_are_loaded(make):
    model, other = make(), make()
    inner = model.layers[0]
    model.predict(MENTIONS)
    known = len(inner.shims[0]._vectors)
    model.predict(MENTIONS)
    assert len(inner.shims[0]._vectors) == known > 5
    random = np.random.default_rng(5)
    table = other.layers[0].layers[0].layers[0].layers[0].shims[0].table
    table[:] = random.normal(size=table.shape)
    other.layers[0].shims[0].clear()
    expected = other.predict(MENTIONS)
    model.from_bytes(other.to_bytes())
    assert_allclose(model.predict(MENTIONS), expected, atol=1e-6)


def test_scores_survive_saving_and_loading(make):
    model = make()
    other = ListCrossEncoder(SmallEncoder(width=16, rows=512, context_rows=256, hidden=4), hidden=5)
    other.from_bytes(model.to_bytes())
    assert_allclose(other.predict(MENTIONS), model.predict(MENTIONS), atol=1e-6)
    assert other.to_bytes() == model.to_bytes()


def test_no_mentions_give_empty_scores(make):
    scores, backprop = make().begin_update([])
    assert scores.shape == (0,) and backprop(scores) == []


def test_features_are_computed_per_candidate_of_a_batch(make):
    lists = read_lists(make().layers[0], MENTIONS)
    assert lists.features.shape == (5, len(FEATURES)) and list(lists.owner) == [0, 0, 0, 1, 1]
    assert_allclose(lists.features[:, 0], [0, -0.05, -1, 0, 0], atol=1e-6)


def test_invalid_settings_raise(make):
    with pytest.raises(KrisselError, match="K006.*'bound'"):
        make(bound=-1.0)
