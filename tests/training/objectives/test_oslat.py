"""OSLAT's training steps."""

import numpy as np
import pytest
import spacy
from spacy.tokens import DocBin
from spacy.training import Example
from thinc.api import Adam, fix_random_seed

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.layers.label_attention import (
    LabelAttention,
    PresenceInput,
    attend,
    mean_states,
    presence_layer,
)
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.layers.token_states import WordStates
from spacy_krissel.losses.focal import FocalLoss
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.training.objectives.oslat import LabelAttentionObjective

NLP = spacy.blank("en")
LOSS = SoftmaxLoss(temperature=0.5, positives="mean")
TEXTS = [
    ("relapses and a cold in this man", ["T01", "T05"]),
    ("nothing was found", []),
    ("the patient had migraine", ["T07"]),
]


def make_doc(text, entities):
    doc = NLP.make_doc(text)
    doc.cats = dict.fromkeys(entities, 1.0)
    return doc


@pytest.fixture
def examples():
    return [Example(NLP.make_doc(text), make_doc(text, entities)) for text, entities in TEXTS]


@pytest.fixture
def model():
    fix_random_seed(0)
    tokens = WordStates(SmallEncoder(width=8, rows=256, context_rows=64, hidden=4, normalize=False))
    model = LabelAttention(tokens, classifier="pair", scale=0.7)
    model.initialize(X=[text for text, _ in TEXTS])
    layer = presence_layer(model)
    layer.set_param("W", np.random.default_rng(0).normal(size=layer.get_dim("nI")).astype("f"))
    return model


@pytest.fixture
def make_objective(toy_store):
    def make(loss=True, presence=True, **settings):
        losses = LOSS if loss else None, FocalLoss() if presence else None
        objective = LabelAttentionObjective(
            *losses, **{"n_negatives": 4, "max_synonyms": 2, **settings}
        )
        objective.initialize(toy_store)
        return objective

    return make


def queries(model, names):
    return mean_states(model.predict(names))[0]


def test_negatives_are_never_entities_of_the_text(make_objective, examples, toy_names, toy_store):
    objective = make_objective(n_negatives=len(toy_names))
    drawn = set()
    for _ in range(20):
        first, second = objective._named(examples)
        assert first.text == TEXTS[0][0] and second.text == TEXTS[2][0]
        assert [len(group) for group in first.names] == [
            min(3, len(toy_names[entity])) for entity in TEXTS[0][1]
        ]
        for group, entity in zip(first.names, TEXTS[0][1], strict=True):
            assert set(group) <= set(toy_names[entity]) and len(set(group)) == len(group)
        for text in (first, second):
            entities = TEXTS[0][1] if text is first else TEXTS[2][1]
            for name in text.others:
                assert not set(toy_store.find(name)) & set(entities), (
                    "a homonym of the text's entity is no negative"
                )
        drawn.update(first.others)
    # All the names of other entities come up in time, not their preferred ones alone.
    assert any(name not in [names[0] for names in toy_names.values()] for name in drawn)


def test_the_loss_is_the_mean_over_entities_of_texts(make_objective, examples, model):
    objective = make_objective(presence=False)
    named = make_objective(presence=False)._named(examples)
    expected = []
    for each in named:
        (states,) = [model.predict([each.text])]
        for group in each.names:
            if len(group) > 1:
                found, _ = attend(queries(model, [*group, *each.others]), states.vectors, 0.7)
                units = found.contexts / np.linalg.norm(found.contexts, axis=1, keepdims=True)
                positives = np.arange(1, len(units))[None] < len(group)
                expected.append(LOSS(units[:1] @ units[1:].T, positives, ~positives)[1])
    assert len(expected) > 1
    assert objective.update(model, examples) == pytest.approx(np.mean(expected), rel=1e-5)


def test_presence_loss_is_over_names_of_the_text_and_others(make_objective, examples, model):
    objective = make_objective(loss=False)
    named = make_objective(loss=False)._named(examples)
    logits, truths = [], []
    for each in named:
        names = [name for group in each.names for name in group]
        asked = queries(model, [*names, *each.others])
        found, _ = attend(asked, model.predict([each.text]).vectors, 0.7)
        logits.append(presence_layer(model).predict(PresenceInput(found.contexts, asked)))
        truths += [1] * len(names) + [0] * len(each.others)
    expected = FocalLoss()(
        np.concatenate(logits)[None], np.array(truths)[None] > 0, np.array(truths)[None] == 0
    )[1]
    assert objective.update(model, examples) == pytest.approx(expected, rel=1e-5)


def test_gradient_equals_central_differences(make_objective, examples, model):
    """Through attention, names and texts, down to a weight of the encoder."""
    make_objective(presence=False).update(model, examples)
    encoder = model.layers[0].layers[0]
    gradient, value = encoder.get_grad("W2").copy(), encoder.get_param("W2").copy()
    for place in [(0, 0), (3, 2), (1, 7)]:
        ends = []
        for step in (1e-2, -1e-2):
            moved = value.copy()
            moved[place] += step
            encoder.set_param("W2", moved)
            ends.append(make_objective(presence=False).update(model, examples))
        encoder.set_param("W2", value)
        assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-2, rel=2e-2, abs=1e-4)


def test_classifier_gradient_does_not_reach_the_encoder(make_objective, examples, model):
    make_objective(loss=False).update(model, examples)
    encoder = model.layers[0].layers[0]
    assert not encoder.has_grad("W2") and presence_layer(model).has_grad("W")


def test_a_frozen_encoder_reads_each_text_once(make_objective, examples, model, monkeypatch):
    objective = make_objective(loss=False, n_negatives=50)
    read = []
    real = type(model).predict
    # The class, since models take no attributes.
    monkeypatch.setattr(
        type(model), "predict", lambda self, texts: read.extend(texts) or real(self, texts)
    )
    losses = [objective.update(model, examples) for _ in range(30)]
    assert len(read) == len(set(read)) and TEXTS[0][0] in read
    assert len(set(losses)) > 1, "names are drawn anew"


def test_loss_falls(make_objective, examples, model):
    objective, optimizer = make_objective(n_negatives=50), Adam(0.02, use_averages=False)
    losses = []
    for _ in range(40):
        losses.append(objective.update(model, examples))
        model.finish_update(optimizer)
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])


def test_negatives_come_from_entities_of_the_training_texts(
    make_objective, examples, tmp_path, toy_names
):
    path = tmp_path / "train.spacy"
    DocBin(docs=[make_doc(*text) for text in TEXTS]).to_disk(path)
    objective = make_objective(seen=path, n_negatives=50)
    others = {
        name for _ in range(20) for each in objective._named(examples) for name in each.others
    }
    assert others and others <= {
        name for entity in ("T01", "T05", "T07") for name in toy_names[entity]
    }


def test_texts_without_entities_are_skipped(make_objective, model):
    objective = make_objective()
    with pytest.warns(KrisselWarning, match="KW625.* 1 of 1 .*text with an entity.*doc.cats"):
        assert objective.update(model, [Example(NLP.make_doc("a"), make_doc("a", []))]) == 0
    assert objective.update(model, [Example(NLP.make_doc("..."), make_doc("...", ["T01"]))]) == 0


def test_missing_ontology_or_entity_raises(make_objective, examples, model, tmp_path, toy_store):
    objective = LabelAttentionObjective(LOSS, None)
    with pytest.raises(KrisselError, match="K639.*ontology"):
        objective.update(model, examples)
    with pytest.raises(KrisselError, match="K639"):
        objective.initialize(None)
    with pytest.raises(KrisselError, match="does not contain 'C999'"):
        make_objective().update(model, [Example(NLP.make_doc("a"), make_doc("a", ["C999"]))])
    path = tmp_path / "train.spacy"
    DocBin(docs=[make_doc("a", ["C999"])]).to_disk(path)
    with pytest.raises(KrisselError, match="K639.*train.spacy"):
        make_objective(seen=path)


def test_invalid_settings_raise(make_objective):
    with pytest.raises(KrisselError, match="K006"):
        make_objective(loss=False, presence=False)
