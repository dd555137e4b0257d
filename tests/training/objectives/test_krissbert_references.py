"""αL + βL' of the contrastive objective (KRISSBERT §3.5)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from thinc.api import Adam

from spacy_krissel.errors import KrisselError
from spacy_krissel.layers.referenced import ReferencedEncoder
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.ontology.held_out import HeldOut
from spacy_krissel.training.objectives.krissbert import ContrastiveObjective
from spacy_krissel.views import ReferenceParts, reference_view

IDS = ("T01", "T02", "T03")


@pytest.fixture
def make(toy_store):
    def make(ontology=toy_store, **settings):
        defaults = {
            "reference_loss": SoftmaxLoss(temperature=0.3),
            "p_mask": 0,
            "p_replace": 0,
            "held_out": 0.0,
        }
        objective = ContrastiveObjective(SoftmaxLoss(temperature=0.5), **{**defaults, **settings})
        objective.initialize(ontology)
        return objective

    return make


@pytest.fixture
def examples(make_example):
    return [make_example(entity, left, "ms") for left in ("the ", "in a ") for entity in IDS]


@pytest.fixture
def references(toy_store):
    return [reference_view(toy_store.get(entity)) for entity in IDS]


@pytest.fixture
def encoder(toy_store, views):
    def small(seed):
        return SmallEncoder(width=8, rows=512, context_rows=256, hidden=4, seed=seed)

    model = ReferencedEncoder(small(1), small(2))
    model.initialize(X=[*views, *map(reference_view, toy_store)])
    return model


def equation(objective, mentions, references, alpha, beta):
    """αL + βL', each by its own equation."""

    def terms(scores, positives, leave_out):
        for i, row in enumerate(scores):
            kept = [np.exp(score) for k, score in enumerate(row) if not (leave_out and k == i)]
            yield -np.log(np.exp(row[positives[i]]) / sum(kept))

    n = len(mentions)
    among = np.mean(list(terms(mentions @ mentions.T / 0.5, [i ^ 1 for i in range(n)], True)))
    across = np.mean(list(terms(mentions @ references.T / 0.3, [i // 2 for i in range(n)], False)))
    return alpha * among + beta * across


@pytest.mark.parametrize("alpha, beta", [(0.5, 0.5), (1.0, 1.0), (0.0, 0.7), (0.3, 0.0)])
@pytest.mark.parametrize("chunk_size", [0, 2, 4])
def test_update_uses_the_weighted_loss(
    make, examples, references, encoder, take_step, alpha, beta, chunk_size
):
    objective = make(alpha=alpha, beta=beta, chunk_size=chunk_size)
    views = [view for _, pair in objective.pairs(examples) for view in pair]
    mentions, known = encoder.predict(views), encoder.predict(references)
    losses = []
    before, after = take_step(
        encoder, lambda model: losses.append(objective.update(model, examples))
    )
    expected = equation(
        objective, mentions.astype(np.float64), known.astype(np.float64), alpha, beta
    )
    assert losses == [pytest.approx(expected, rel=1e-5)]

    def accumulate(model):
        """The two losses one after the other, each of vectors of its own."""
        vectors, backprop = model.begin_update([*views, *references])
        gradient = np.zeros_like(vectors)
        among, across = ContrastiveObjective(SoftmaxLoss(0.5)), make(alpha=0.0, beta=1.0)
        gradient[: len(views)] += alpha * among.joint_loss(vectors[: len(views)])[0]
        backprop(gradient + beta * across.joint_loss(vectors)[0])

    _, wanted = take_step(encoder, accumulate)
    for name in before:
        assert_allclose(
            after[name], wanted[name], atol=1e-4 * np.abs(wanted[name] - before[name]).max() + 1e-7
        )
    assert any((before[name] != after[name]).any() for name in before)


def test_joint_gradient_includes_the_weights(make):
    """Central differences over mentions and references together."""
    objective = make(alpha=0.4, beta=0.9)
    vectors = np.random.default_rng(0).standard_normal((6, 3))
    gradient, _ = objective.joint_loss(vectors)
    for place in np.ndindex(*vectors.shape):
        step = np.zeros_like(vectors)
        step[place] = 1e-5
        numeric = (
            objective.joint_loss(vectors + step)[1] - objective.joint_loss(vectors - step)[1]
        ) / 2e-5
        assert gradient[place] == pytest.approx(numeric, rel=1e-6, abs=1e-8)


def test_references_with_weight_zero_are_not_encoded(make, examples, encoder):
    seen = []
    reference = encoder.layers[1]
    forward = reference._func
    reference._func = lambda model, X, is_train: seen.append(len(X)) or forward(model, X, is_train)
    make(beta=0.0).update(encoder, examples)
    assert seen == []
    make(alpha=0.0).update(encoder, examples)
    assert seen == [3]


def test_references_show_the_encoders_parts_and_no_held_out_name(make, toy_store, toy_names):
    objective = make(held_out=0.5, seed=3)
    held_out = HeldOut(0.5, 3)
    entity = toy_store.get("T01")
    shown = [name for name in toy_names["T01"] if not held_out(entity, name)]
    assert 1 <= len(shown) < len(toy_names["T01"])
    view = objective.reference("T01", ReferenceParts())
    assert view.mention == "; ".join(shown) and view.left == "T047" and view.reference
    assert objective.reference("T01", ReferenceParts(types=False)).left == ""
    assert objective.reference("T01", ReferenceParts(aliases=False)).mention == shown[0]


@pytest.mark.parametrize("chunk_size", [0, 4])
def test_training_brings_mentions_near_their_references(
    make, make_example, toy_store, encoder, chunk_size
):
    """With the mention pairs switched off, references alone teach (− mention pair contrast)."""
    objective = make(alpha=0.0, chunk_size=chunk_size)
    contexts = {"T01": "relapses", "T02": "murmur", "T03": "smoker", "T04": "sneezing"}
    examples = [
        make_example(id_, f"{side} {contexts[id_]} ", "it")
        for id_ in contexts
        for side in ("a", "no")
    ]
    known = [reference_view(toy_store.get(id_)) for id_ in contexts]
    optimizer = Adam(0.02, use_averages=False)
    for _ in range(60):
        objective.update(encoder, examples)
        encoder.finish_update(optimizer)
        optimizer.step_schedules()
    views = [view for _, pair in objective.pairs(examples) for view in pair]
    scores = encoder.predict(views) @ encoder.predict(known).T
    assert (scores.argmax(axis=1) == np.arange(8) // 2).all()


def test_encoder_without_references_raises(make, examples, encoder):
    with pytest.raises(KrisselError, match="K636.*ReferencedEncoder"):
        make().update(encoder.layers[0], examples)
    # Without a reference loss either is fine.
    assert make(reference_loss=None).update(encoder, examples) > 0


def test_references_need_an_ontology(make, examples, encoder):
    with pytest.raises(KrisselError, match="K639.*`ontology`.*reference_loss"):
        make(ontology=None)
    objective = ContrastiveObjective(SoftmaxLoss(), p_replace=0, reference_loss=SoftmaxLoss())
    with pytest.raises(KrisselError, match="K639.*`ontology`.*reference_loss"):
        objective.update(encoder, examples)
    assert make(ontology=None, beta=0.0).update(encoder, examples) > 0


@pytest.mark.parametrize(
    "settings, named",
    [
        ({"alpha": 0, "beta": 0}, "alpha"),
        ({"alpha": 0, "reference_loss": None}, "alpha"),
    ],
)
def test_invalid_weights_raise(settings, named):
    settings = {"reference_loss": SoftmaxLoss(), **settings}
    with pytest.raises(KrisselError, match=f"K006.*{named}"):
        ContrastiveObjective(SoftmaxLoss(), **settings)
