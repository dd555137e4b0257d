import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from thinc.api import Adam

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.hf.cross_encoder import CrossEncoder, pair_pieces
from spacy_krissel.layers.ranked import RankedMention
from spacy_krissel.views import CandidateView, View

NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def candidate(*parts):
    return CandidateView(parts[:1], parts)


MENTIONS = [
    RankedMention(
        View("The patient had ", "ms", " and fever. "),
        (
            candidate("multiple sclerosis", "ms"),
            candidate("cold"),
            candidate("acute lung injury", "a", "b"),
        ),
        np.zeros(3, dtype="float32"),
    ),
    RankedMention(
        View("", "cold", ""), (candidate("cold"), candidate("fever")), np.zeros(2, dtype="float32")
    ),
]


@pytest.fixture
def make(tiny_bert):
    def make(trained=True, **settings):
        settings = {
            "window": 24,
            "candidate_window": 16,
            "transformer_config": NO_DROPOUT,
            **settings,
        }
        model = CrossEncoder(str(tiny_bert), **settings)
        model.initialize(X=MENTIONS)
        if trained:
            model.layers[0].layers[0].layers[1].set_param(
                "W", np.random.default_rng(0).normal(size=(1, 32)).astype("float32")
            )
        return model

    return make


def shim_of(model):
    return model.layers[0].layers[0].layers[0].shims[0]


def torch_only(model, bound, pooling="cls"):
    """One pair at a time, by torch alone."""
    shim = shim_of(model)
    head = model.layers[0].layers[0].layers[1]
    W, b = (torch.tensor(head.get_param(name)) for name in ("W", "b"))
    scores = []
    for row in pair_pieces(shim.tokenizer, MENTIONS, 24, 16):
        hidden = shim.transformer(torch.tensor(row.ids[None].astype("int64"))).last_hidden_state[0]
        hidden = {
            "cls": hidden[0],
            "mean": hidden.mean(0),
            "marker": hidden[[row.start, row.end]].mean(0),
        }[pooling]
        scores.append(bound * torch.tanh((W @ hidden + b)[0] / bound))
    return torch.stack(scores)


def test_an_untrained_cross_encoder_scores_zero(make):
    assert (make(trained=False).predict(MENTIONS) == np.zeros(5)).all()


@pytest.mark.parametrize("batch_pieces", [1, 40, 4096])
def test_scores_equal_torch(make, batch_pieces):
    model = make(batch_pieces=batch_pieces, bound=2.0)
    expected = torch_only(model, 2.0).detach().numpy()
    assert np.abs(expected).max() > 0.1
    assert_allclose(model.predict(MENTIONS), expected, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "marker"])
def test_each_pooling_equals_torch(make, pooling):
    model = make(pooling=pooling)
    scores = model.predict(MENTIONS)
    assert_allclose(scores, torch_only(model, 1.0, pooling).detach().numpy(), atol=1e-5)
    assert np.abs(scores - torch_only(model, 1.0).detach().numpy()).max() > 5e-4
    other = CrossEncoder(
        "nothing is read from here", window=24, candidate_window=16, pooling=pooling
    )
    assert_allclose(other.from_bytes(model.to_bytes()).predict(MENTIONS), scores, atol=1e-6)


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("batch_pieces", [1, 4096])
def test_gradients_equal_torch(make, batch_pieces, pooling):
    model = make(batch_pieces=batch_pieces, pooling=pooling)
    weights = torch.tensor([1.0, -2, 0.5, 3, 1])
    (torch_only(model, 1.0, pooling) * weights).sum().backward()
    named = dict(shim_of(model).transformer.named_parameters())
    expected = {name: p.grad.clone() for name, p in named.items() if p.grad is not None}
    shim_of(model).transformer.zero_grad()
    _, backprop = model.begin_update(MENTIONS)
    backprop(weights.numpy())
    assert len(expected) > 20
    for name, gradient in expected.items():
        assert_allclose(named[name].grad, gradient, atol=2e-5)


def test_training_changes_scores_towards_the_gradient(make):
    model, optimizer = make(trained=False), Adam(0.002, use_averages=False)
    for _ in range(30):
        scores, backprop = model.begin_update(MENTIONS)
        backprop(np.array([1, -1, 0, -1, 1], dtype="float32"))
        model.finish_update(optimizer)
    scores = model.predict(MENTIONS)
    assert scores[1] > scores[0] + 0.3 and scores[3] > scores[4] + 0.3 and np.abs(scores).max() <= 1


def test_scores_survive_saving_and_loading(make, tiny_bert):
    model = make()
    other = CrossEncoder("nothing is read from here", window=24, candidate_window=16).from_bytes(
        model.to_bytes()
    )
    assert_allclose(other.predict(MENTIONS), model.predict(MENTIONS), atol=1e-6)
    assert other.to_bytes() == model.to_bytes()


def test_no_mentions_give_empty_scores(make):
    scores, backprop = make().begin_update([])
    assert scores.shape == (0,) and backprop(scores) == []


def test_use_before_initialization_raises_a_coded_error(tiny_bert):
    with pytest.raises(KrisselError, match="K405"):
        CrossEncoder(str(tiny_bert)).predict(MENTIONS)


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"bound": 0.0}, "K006.*'bound'"),
        ({"window": 64, "candidate_window": 16}, "K404.*80"),
    ],
)
def test_invalid_settings_raise(make, settings, message):
    with pytest.raises(KrisselError, match=message):
        make(**settings)
