import warnings
from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

from spacy_krissel.distributed.processes import gradient_norm
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.held_out import HeldOut
from spacy_krissel.ontology.store import write_store
from spacy_krissel.training.objectives import krissbert
from spacy_krissel.training.objectives.krissbert import ContrastiveObjective
from spacy_krissel.views import ReferenceParts, View, name_view

IN_CONTEXT = View("relapses of ", "MS", " were seen")


@pytest.fixture
def make(toy_store):
    def make(ontology=toy_store, **settings):
        objective = ContrastiveObjective(
            SoftmaxLoss(temperature=0.5), **{"held_out": 0.0, **settings}
        )
        objective.initialize(ontology)
        return objective

    return make


def kinds(objective, view=IN_CONTEXT, n=4000):
    """Count how often a view was masked, left, or replaced by which name."""
    counts = Counter()
    for _ in range(n):
        found = objective.augment("T01", view)
        assert (found.left, found.right) == (view.left, view.right)
        if found.masked:
            assert found.mention == view.mention
            counts["masked"] += 1
        else:
            counts[found.mention] += 1
    return counts


def test_masking_and_replacement_follow_their_probabilities(make, toy_names):
    counts = kinds(make(p_mask=0.3, p_replace=0.4))
    # Standard deviation of the count of 0.3 * 4000: 29.
    assert counts["masked"] == pytest.approx(1200, abs=150)
    synonyms = [name for name in toy_names["T01"] if name != "MS"]
    for name in synonyms:
        assert counts[name] == pytest.approx(1600 / 4, abs=90)
    # Those that are neither masked nor replaced.
    assert counts["MS"] == pytest.approx(1200, abs=150)
    assert sum(counts.values()) == 4000


@pytest.mark.parametrize(
    "settings, expected",
    [({"p_mask": 1, "p_replace": 0}, {"masked"}), ({"p_mask": 0, "p_replace": 0}, {"MS"})],
)
def test_probabilities_of_zero_and_one_are_exact(make, settings, expected):
    assert set(kinds(make(**settings), n=50)) == expected


def test_replacement_is_never_the_mentions_own_name(make, tmp_path):
    """In any case and punctuation; an entity that has no other name keeps its mention."""
    entities = [
        Entity("D1", "Asthma", ("ASTHMA", "asthma.", "bronchial asthma")),
        Entity("D2", "Flu", ("FLU",)),
    ]
    objective = make(write_store(entities, tmp_path / "store"), p_mask=0, p_replace=1)
    for mention in ("asthma", "Asthma"):
        assert objective.augment("D1", View("a ", mention, "")).mention == "bronchial asthma"
    assert objective.augment("D2", View("a ", "flu", "")).mention == "flu"


def test_cached_entities_are_limited(make, toy_store, monkeypatch):
    monkeypatch.setattr(krissbert, "MAX_CACHED", 3)
    objective = make(p_mask=0, p_replace=1)
    found = []
    for id_ in [*toy_store.ids] * 2:
        found.append(
            (
                objective.reference(id_, ReferenceParts()),
                objective.augment(id_, View("a ", "x", "")),
            )
        )
        assert max(len(objective._names), len(objective._references)) <= 3
    assert [view for view, _ in found[: len(toy_store)]] == [
        view for view, _ in found[len(toy_store) :]
    ]


def test_names_without_context_are_not_augmented(make):
    objective = make(p_mask=0.5, p_replace=0.5)
    assert all(objective.augment("T01", name_view("MS")) == name_view("MS") for _ in range(100))
    # One side is context enough.
    for view in (View("a ", "MS", ""), View("", "MS", " b")):
        assert kinds(objective, view, 100)["masked"] > 20


def test_held_out_names_are_never_inserted(make, toy_store, toy_names):
    settings = {"p_mask": 0, "p_replace": 1, "held_out": 0.5, "seed": 3}
    entity = toy_store.get("T01")
    allowed = {name for name in toy_names["T01"] if not HeldOut(0.5, 3)(entity, name)}
    assert 1 <= len(allowed) < len(toy_names["T01"])
    assert set(kinds(make(**settings), n=300)) == allowed
    assert set(kinds(make(**{**settings, "held_out": 1.0}), n=50)) == {toy_names["T01"][0]}


def test_same_seed_gives_the_same_augmentation(make):
    first, again, other = (make(p_mask=0.4, p_replace=0.4, seed=seed) for seed in (1, 1, 2))
    found = [
        [objective.augment("T01", IN_CONTEXT) for _ in range(50)]
        for objective in (first, again, other)
    ]
    assert found[0] == found[1] != found[2]


@pytest.mark.filterwarnings("ignore:.*KW602")
def test_pairs_are_the_first_two_mentions_of_each_entity(make, make_example):
    plain = make(p_mask=0, p_replace=0)
    examples = [
        make_example("T01", "a ", "MS"),
        make_example("T02", "b ", "MS"),
        make_example("T03", "c ", "single"),
        make_example("T02", "d ", "stenosis"),
        make_example("NIL", "e ", "nil"),
        make_example("NIL", "f ", "nil"),
        make_example("", "g ", "unlinked"),
        make_example("", "h ", "unlinked"),
        make_example("T01", "i ", "sclerosis"),
        make_example("T01", "j ", "third"),
    ]
    assert [view for _, pair in plain.pairs(examples) for view in pair] == [
        View("a ", "MS", ""),
        View("i ", "sclerosis", ""),
        View("b ", "MS", ""),
        View("d ", "stenosis", ""),
    ]


def test_examples_without_a_partner_warn_once(make, make_example, small_encoder):
    """`accumulate_gradient` divides a batch of pairs in this way."""
    entities = ("T01", "T02", "T03", "T04")
    examples = [
        make_example(entity, left, "ms") for left in ("the ", "in a ") for entity in entities
    ]
    objective = make()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        objective.update(small_encoder.copy(), examples)
    with pytest.warns(KrisselWarning, match="KW602.* 2 of the 6 .*accumulate_gradient") as warned:
        for _ in range(3):
            objective.update(small_encoder.copy(), examples[:6])
    assert len(warned) == 1


def test_mentions_can_come_from_a_span_group(make, make_example):
    examples = [
        make_example(entity, left, "MS") for entity in ("T01", "T02") for left in ("the ", "in a ")
    ]
    for example in examples:
        example.reference.spans["sc"] = list(example.reference.ents)
        example.reference.ents = []
    settings = {"p_mask": 0, "p_replace": 0}
    objective = make(**settings)
    found = objective.pairs(examples, "sc")
    assert [[view.left for view in pair] for _, pair in found] == [["the ", "in a "]] * 2
    assert objective.pairs(examples) == objective.pairs(examples, "other") == []


def test_update_accumulates_the_gradient_of_the_loss(make, make_example, small_encoder, take_step):
    objective = make(p_mask=0, p_replace=0)
    examples = [
        make_example(entity, left, "ms")
        for entity in ("T01", "T02", "T03")
        for left in ("the ", "in a ")
    ]
    views = [view for _, pair in objective.pairs(examples) for view in pair]
    losses = []
    before, after = take_step(
        small_encoder, lambda model: losses.append(objective.update(model, examples))
    )
    gradient, loss = objective.joint_loss(small_encoder.predict(views))
    assert losses == [pytest.approx(loss, rel=1e-5)]
    _, expected = take_step(small_encoder, lambda model: model.begin_update(views)[1](gradient))
    for name in before:
        assert_allclose(
            after[name],
            expected[name],
            atol=1e-4 * np.abs(expected[name] - before[name]).max() + 1e-7,
        )
    assert any((before[name] != after[name]).any() for name in before)


@pytest.mark.parametrize("chunk_size", [0, 2])
def test_loss_falls(make, make_example, small_encoder, chunk_size):
    from thinc.api import Adam

    objective = make(p_mask=0.2, p_replace=0.2, chunk_size=chunk_size)
    examples = [
        make_example(entity, f"{side} {context} ", f"mention {entity}")
        for entity, context in (
            ("T01", "relapses"),
            ("T02", "murmur"),
            ("T03", "smoker"),
            ("T04", "sneezing"),
        )
        for side in ("with", "without")
    ]
    model, optimizer = small_encoder.copy(), Adam(0.02, use_averages=False)
    losses = []
    for _ in range(60):
        losses.append(objective.update(model, examples))
        model.finish_update(optimizer)
        optimizer.step_schedules()
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])


def test_a_batch_without_a_pair_is_skipped_with_a_warning(make, make_example, small_encoder):
    objective, model = make(), small_encoder.copy()
    objective.update(
        small_encoder.copy(), [make_example("T01", "a ", "x"), make_example("T01", "b ", "y")]
    )
    with pytest.warns(KrisselWarning, match="KW625.* 1 of 2 .*PairBatcher"):
        assert objective.update(model, [make_example("T01"), make_example("T02")]) == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert objective.update(model, []) == 0
    assert gradient_norm(model) == 0


def test_without_an_ontology_mentions_are_kept_with_a_warning(make, make_example, small_encoder):
    """There is no name to replace a mention with: it stays, and one warning says so."""
    with pytest.warns(KrisselWarning, match="KW626.*0.2.*ontology"):
        objective = make(ontology=None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(ontology=None, p_replace=0).augment("T01", IN_CONTEXT).mention == "MS"
        assert set(kinds(objective, n=50)) == {"masked", "MS"}
    # Never initialized at all, as after `spacy.load`.
    objective = ContrastiveObjective(SoftmaxLoss(), p_mask=0, p_replace=1.0)
    examples = [make_example(entity, left) for entity in ("T01", "T02") for left in ("a ", "b ")]
    with pytest.warns(KrisselWarning, match="KW626") as warned:
        losses = [objective.update(small_encoder.copy(), examples) for _ in range(3)]
    assert len(warned) == 1 and min(losses) > 0


def test_unknown_entity_raises(make):
    with pytest.raises(KrisselError, match="K106.*D404"):
        make(p_mask=0, p_replace=1).augment("D404", IN_CONTEXT)


def test_invalid_settings_raise():
    with pytest.raises(KrisselError, match=r"K006.*p_mask \+ p_replace"):
        ContrastiveObjective(SoftmaxLoss(), p_mask=0.6, p_replace=0.6)
