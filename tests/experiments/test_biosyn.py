"""BioSyn's training step: candidates from two searches, and a learned weight of lexical
similarity."""

import math

import numpy as np
import pytest
import spacy
from lab.biosyn import BioSynObjective
from numpy.testing import assert_allclose
from spacy.tokens import Span
from spacy.training import Example

from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.views import name_view

MENTIONS = {"rickets": "T12", "asthmas": "T07"}
TEMPERATURE = 0.5


@pytest.fixture
def examples():
    nlp = spacy.blank("en")
    doc = nlp.make_doc(" and ".join(MENTIONS))
    doc.ents = [
        Span(doc, 2 * i, 2 * i + 1, label="Disease", kb_id=id_)
        for i, id_ in enumerate(MENTIONS.values())
    ]
    return [Example(nlp.make_doc(doc.text), doc)]


@pytest.fixture
def model(toy_store):
    model = SmallEncoder(width=8, rows=512, context_rows=256, hidden=4, seed=1)
    model.initialize(X=[name_view(name) for _, name, _ in toy_store.names()])
    return model


@pytest.fixture
def make(toy_store):
    def make(**settings):
        loss = SoftmaxLoss(temperature=TEMPERATURE, positives="sum")
        objective = BioSynObjective(loss, index=ExactIndex, **settings)
        objective.initialize(toy_store)
        return objective

    return make


def vectors(model, texts):
    return np.asarray(model.predict([name_view(text) for text in texts]))


def test_half_of_the_candidates_are_lexical(make, model, toy_store):
    names = [name for _, name, _ in toy_store.names()]
    views = [name_view(mention) for mention in MENTIONS]
    queries = vectors(model, MENTIONS)
    found = make()._candidates(model, views, queries, 6)
    index = LexicalIndex.of(names, np.arange(len(names)))
    lexical = index.search(index.vectors(list(MENTIONS)), 3)
    for own, scores, row in zip(lexical, queries @ vectors(model, names).T, found, strict=True):
        own = own[own >= 0].tolist()
        near = [number for number in np.argsort(-scores, kind="stable") if number not in own]
        assert own and len(own) < 6
        assert row.tolist() == [*own, *near][:6]


def marginal_likelihood(model, toy_store, weight, numbers):
    """The loss by its equations, over the candidates `numbers` of each mention, which share
    none."""
    names = list(toy_store.names())
    index = LexicalIndex.of([name for _, name, _ in names], np.arange(len(names)))
    every = vectors(model, [name for _, name, _ in names])
    total = 0.0
    for (mention, entity), own in zip(MENTIONS.items(), numbers, strict=True):
        similarity = index.similarity(index.read([mention]), np.zeros(len(own), dtype=int), own)
        scores = (every[own] @ vectors(model, [mention])[0] + weight * similarity) / TEMPERATURE
        right = [toy_store.id_at(names[number][0]) == entity for number in own]
        total += math.log(np.exp(scores).sum()) - math.log(np.exp(scores[right]).sum())
    return total / len(MENTIONS)


def test_the_lexical_weight_follows_its_gradient(make, model, toy_store, examples):
    objective = make(n_candidates=6, sparse_rate=0.01)
    numbers = objective._candidates(
        model, [name_view(m) for m in MENTIONS], vectors(model, MENTIONS), 6
    )
    loss = objective.update(model, examples)
    assert_allclose(loss, marginal_likelihood(model, toy_store, 0.0, numbers), rtol=1e-4)
    up, down = (marginal_likelihood(model, toy_store, weight, numbers) for weight in (0.01, -0.01))
    assert up < down
    # The first step of Adam is its rate.
    assert objective.learned_settings == {"lexical_weight": pytest.approx(0.01, rel=1e-3)}
    assert objective.update(model, examples) == pytest.approx(
        marginal_likelihood(model, toy_store, 0.01, numbers), rel=1e-4
    )


def test_the_component_keeps_the_learned_weight(make, model, examples):
    nlp = spacy.blank("en")
    linker = nlp.add_pipe("krissel_linker", config={"context": "none"})
    linker.model, linker.objective = model, make(n_candidates=6)
    linker.update(examples)
    assert 0 < linker.cfg["lexical_weight"] == linker.objective.learned_settings["lexical_weight"]
