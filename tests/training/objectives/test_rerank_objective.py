from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.vocab import Vocab
from thinc.api import Model

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.layers.hf.cross_encoder import CrossEncoder
from spacy_krissel.layers.ranked import RankedMention
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.training.objectives.reranking import (
    LinkerCandidates,
    RerankObjective,
    fit_nil_logit,
    fit_temperature,
)
from spacy_krissel.views import CandidateView, name_view

ZERO = np.zeros(2, dtype="float32")


def ranked(*logits):
    candidates = tuple(CandidateView((str(i),), (str(i),)) for i in range(len(logits)))
    return RankedMention(name_view("ms"), candidates, np.array(logits, dtype="float32"))


def test_step_passes_the_gradient_to_the_model():
    """The model gets the gradient of the loss on top of the linker's logits, mention by mention."""
    seen = []

    def forward(model, mentions, is_train):
        return np.array([0, 0.5, 1], dtype="float32"), lambda gradient: seen.append(gradient) or []

    loss = RerankObjective(SoftmaxLoss()).step(
        Model("m", forward), [ranked(1, 0.5), ranked(3)], [1, 0]
    )
    # Both logits of the first are 1: half and half; the second has no other.
    assert loss == pytest.approx(np.log(2) / 2)
    np.testing.assert_allclose(seen[0], [0.25, -0.25, 0], atol=1e-6)


@pytest.fixture(scope="module")
def pairs(tiny_bert):
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = CrossEncoder(
        str(tiny_bert),
        window=16,
        candidate_window=16,
        transformer_config=no_dropout,
        pooling="mean",
    )
    model.initialize()
    head = model.layers[0].layers[0].layers[1]
    head.set_param("W", np.random.default_rng(0).normal(size=(1, 32), scale=0.1).astype("float32"))
    return model


def test_adversarial_examples_raise_the_loss(pairs):
    """A step of no length doubles the loss and every gradient; one along the gradient's sign raises
    the loss."""
    mentions = [
        RankedMention(
            name_view("ms"),
            (CandidateView(("cold",), ("cold",)), CandidateView(("ms",), ("ms", "a b"))),
            ZERO,
        ),
        RankedMention(
            name_view("fever"),
            (CandidateView(("fever",), ("fever", "hot")), CandidateView(("a",), ("a",))),
            ZERO,
        ),
    ]
    transformer = pairs.layers[0].layers[0].layers[0].shims[0].transformer

    def update(weight, epsilon=0.0):
        transformer.zero_grad()
        objective = RerankObjective(SoftmaxLoss(), fgsm_weight=weight, fgsm_epsilon=epsilon)
        loss = objective.step(pairs, mentions, [1, 0])
        return loss, transformer.embeddings.LayerNorm.weight.grad.numpy().copy()

    (plain, gradient), (double, twice) = update(0.0), update(1.0)
    assert double == pytest.approx(2 * plain, rel=1e-5)
    np.testing.assert_allclose(twice, 2 * gradient, rtol=1e-4, atol=1e-7)
    assert plain < update(1.0, 0.001)[0] - plain < update(1.0, 0.01)[0] - plain
    assert update(0.5, 0.01)[0] - plain == pytest.approx(
        0.5 * (update(1.0, 0.01)[0] - plain), rel=1e-4
    )


def test_adversarial_examples_need_a_transformer():
    with pytest.raises(KrisselError, match="K637"):
        model = Model(
            "m",
            lambda model, mentions, is_train: (np.zeros(2, dtype="float32"), lambda gradient: []),
        )
        RerankObjective(SoftmaxLoss(), fgsm_weight=1.0).step(model, [ranked(1, 0.5)], [1])


def test_empty_batch_is_skipped_with_a_warning():
    with pytest.warns(KrisselWarning, match="KW625.* 1 of 1 .*candidates"):
        assert RerankObjective(SoftmaxLoss()).step(Model("m", None), [], []) == 0


@pytest.fixture
def draws():
    """Return whether each of 1000 names is hidden, and whether its entity is withheld."""
    doc = Doc(Vocab(), words=["ms"] * 1000)
    doc.ents = [Span(doc, i, i + 1, label="X", kb_id="T1") for i in range(1000)]
    kb = SimpleNamespace(entities=SimpleNamespace(rows=np.array, names=SimpleNamespace(take=list)))
    seen = {}

    def unseen(views, hidden, k):
        seen["hidden"] = hidden
        return [(["T1", "T2", "T3"], np.zeros(3, dtype="float32"))] * len(views)

    def draw(nil_score=None, **settings):
        def described(view, named, scores, *, hidden):
            return ranked(*scores)

        linker = LinkerCandidates(
            kb,
            lambda doc, spans: spans,
            lambda doc, spans: spans,
            unseen,
            described,
            1.0,
            nil_score,
        )
        mentions, _ = RerankObjective(SoftmaxLoss(), **settings).mentions(
            [Example(doc, doc)], "", linker
        )
        most = 3 + (nil_score is not None)
        return seen["hidden"], [len(mention.logits) < most for mention in mentions]

    return draw


def test_hiding_depends_on_seed_and_probability(draws):
    assert draws(seed=1)[0] == draws(seed=1)[0] != draws(seed=2)[0]
    assert sum(draws(p_hide=0.3)[0]) == pytest.approx(300, abs=60)
    assert not any(draws(p_hide=0.0)[0]) and all(draws(p_hide=1.0)[0])


@given(st.floats(0.01, 100), st.integers(0, 9))
def test_temperature_scales_with_the_scores(unit, seed):
    random = np.random.default_rng(seed)
    scores = [random.normal(size=6) for _ in range(50)]
    gold = [int((each + random.normal(size=6) * 0.3).argmax()) for each in scores]
    found = fit_temperature([each * unit for each in scores], gold)
    assert found == pytest.approx(unit * fit_temperature(scores, gold), rel=1e-6)


def test_temperature_maximizes_the_likelihood():
    """Gold drawn from softmax(scores / .05) itself."""
    random = np.random.default_rng(0)
    scores = [random.normal(size=8) * 0.1 for _ in range(3000)]
    shares = [np.exp(each / 0.05) / np.exp(each / 0.05).sum() for each in scores]
    gold = [int(random.choice(8, p=each)) for each in shares]
    assert fit_temperature(scores, gold) == pytest.approx(0.05, rel=0.15)


def test_temperature_is_finite_if_the_linker_is_always_correct():
    """Two candidates: likeliest is log-odds of log(.99 / .01) between them, with one answer in
    fifty open."""
    found = fit_temperature([np.array([1.0, 0.0])] * 9, [0] * 9)
    assert 1 / found == pytest.approx(np.log(99), rel=0.06)


@pytest.mark.parametrize("scores, gold", [([], []), ([np.ones(1)], [0]), ([np.ones(3)], [1])])
def test_temperature_defaults_to_one(scores, gold):
    assert fit_temperature(scores, gold) == 1.0


def test_invalid_settings_raise():
    with pytest.raises(KrisselError, match="K006.*'n_candidates'"):
        RerankObjective(SoftmaxLoss(), n_candidates=1)


def test_withholding_depends_on_seed_and_probability(draws):
    settings = {"nil_score": 0.0, "p_nil": 0.3}
    assert (
        draws(seed=1, **settings)[1] == draws(seed=1, **settings)[1] != draws(seed=2, **settings)[1]
    )
    assert sum(draws(**settings)[1]) == pytest.approx(300, abs=60)
    assert not any(draws()[1]) and not any(draws(nil_score=0.0)[1])


def test_nil_logit_matches_a_hand_computed_value():
    """Candidates 2 and 0, the first right: the likelihood of x is .5 (2 - log(e^2 + 1 + e^x)) + .5
    (x - log(1 + e^x)), and its derivative .5 / (1 + e^x) - .5 e^x / (e^2 + 1 + e^x) is 0 at e^2x =
    e^2 + 1, x = 1.063464."""
    assert fit_nil_logit([np.array([2.0, 0.0])], [0], 0.5) == pytest.approx(1.063464, abs=0.03)
    # Where more is NIL, it is put higher.
    logits = [
        fit_nil_logit([np.array([2.0, 0.0]), np.array([0.5, 1.0])], [0, 1], p)
        for p in (0.1, 0.5, 0.9)
    ]
    assert logits == sorted(logits) and len(set(logits)) == 3


def test_nil_logit_has_a_default_without_competing_candidates():
    assert fit_nil_logit([], [], 0.5) == 0.0
    # A mention that had one candidate: without it, NIL is sure at any log-odds; with it, the lower
    # the better.
    assert fit_nil_logit([np.array([1.0])], [0], 0.5) == pytest.approx(-4.0)


@pytest.mark.parametrize("logits", [(0, 0, 0), (9, -3, 1)])
def test_without_a_bound_the_loss_uses_only_the_models_scores(tiny_bert, logits):
    """−log softmax of the head's scores (§3.6), whatever the linker says, and its gradient."""
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    model = CrossEncoder(
        str(tiny_bert), window=16, candidate_window=16, bound=None, transformer_config=no_dropout
    )
    model.initialize()
    head = model.layers[0].layers[1]
    head.set_param("W", np.random.default_rng(0).normal(size=(1, 32)).astype("float32"))
    mention = ranked(*logits)
    scores = model.predict([mention]) + mention.logits
    # The same in any unit of the linker's scores.
    np.testing.assert_allclose(scores, model.predict([ranked(0, 0, 0)]), atol=1e-5)
    odds = np.exp(scores) / np.exp(scores).sum()
    assert RerankObjective(SoftmaxLoss()).step(model, [mention], [0]) == pytest.approx(
        -np.log(odds[0]), abs=1e-5
    )
    # The bias of a linear head gets the sum of the scores' gradients, which is 0 for a softmax.
    assert head.get_grad("b")[0] == pytest.approx((odds - [1, 0, 0]).sum(), abs=1e-5)
    assert np.abs(head.get_grad("W")).max() > 0
