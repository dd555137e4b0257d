"""BELHD's training step: candidates of a document's mentions, shared among them."""

import numpy as np
import pytest
import spacy
from numpy.testing import assert_allclose
from spacy.tokens import Span
from spacy.training import Example

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.training.data.examples import mentions_in_context
from spacy_krissel.training.data.negatives import NearestEntities
from spacy_krissel.training.objectives.belhd import NameObjective
from spacy_krissel.views import View, name_view

NLP = spacy.blank("en")


def example(words, *mentions, spans_key=""):
    """mentions: (first word, word after the last, id)."""
    doc = NLP.make_doc(words)
    spans = [Span(doc, start, end, label="Disease", kb_id=kb_id) for start, end, kb_id in mentions]
    if spans_key:
        doc.spans[spans_key] = spans
    else:
        doc.ents = spans
    return Example(NLP.make_doc(words), doc)


@pytest.fixture
def examples():
    return [
        example("MS with a cold . No rickets here .", (0, 1, "T01"), (3, 4, "T04"), (6, 7, "T12")),
        example("flu or asthma", (0, 1, "T10"), (2, 3, "NIL")),
    ]


@pytest.fixture
def model(toy_store, views):
    model = SmallEncoder(width=8, rows=512, context_rows=256, hidden=4, seed=1)
    model.initialize(X=[*views, *(name_view(name) for _, name, _ in toy_store.names())])
    return model


@pytest.fixture
def make(toy_store):
    def make(loss=None, ontology=toy_store, **settings):
        settings = {"n_candidates": 3, "n_shared": 2, "index": ExactIndex, **settings}
        objective = NameObjective(loss or SoftmaxLoss(temperature=0.1, positives="sum"), **settings)
        objective.initialize(ontology)
        return objective

    return make


def brute_force(model, store, examples, n_candidates, n_shared):
    """For each mention: views, its own names, and those it shares, by sorting all names."""
    names = [(store.entity_at(row).id, name) for row, name, _ in store.names()]
    vectors = model.predict([name_view(name) for _, name in names])
    found = []
    for each in examples:
        mentions = mentions_in_context(each.reference, "sentence")
        scores = model.predict([view for _, view in mentions]) @ vectors.T
        own = [set(np.argsort(-row, kind="stable")[:n_candidates].tolist()) for row in scores]
        for i, (entity, view) in enumerate(mentions):
            others = set().union(*(mine for j, mine in enumerate(own) if j != i)) - own[i]
            shared = sorted(others, key=lambda name: -scores[i][name])[:n_shared]
            found.append((entity, view, own[i], set(shared)))
    return names, found


@pytest.mark.parametrize("n_shared", [0, 2, 50])
def test_candidates_are_own_and_shared_names(make, model, toy_store, examples, n_shared):
    """The loss sees each mention's nearest names, and the most similar of those that others of its
    document have."""
    seen = {}

    def loss(scores, positives, negatives):
        seen.update(scores=scores, candidates=positives | negatives, right=positives)
        return np.zeros_like(scores), 1.25

    objective = make(loss, n_shared=n_shared)
    assert objective.update(model, examples) == 1.25
    names, expected = brute_force(model, toy_store, examples, 3, n_shared)
    columns = sorted(set().union(*(own for *_, own, _ in expected)))
    assert seen["scores"].shape == (4, len(columns)), (
        "a name is encoded once, and an unlinked mention is none"
    )
    for i, (entity, view, own, shared) in enumerate(expected):
        assert {columns[j] for j in np.flatnonzero(seen["candidates"][i])} == own | shared
        is_right = np.array([names[column][0] == entity for column in columns])
        assert (is_right & seen["candidates"][i]).tolist() == seen["right"][i].tolist()
        vectors = model.predict([name_view(names[column][1]) for column in columns])
        assert_allclose(seen["scores"][i], vectors @ model.predict([view])[0], atol=1e-5)
    if not n_shared:
        assert (seen["candidates"].sum(axis=1) == 3).all()


def test_shared_candidates_equal_brute_force(make):
    """At the paper's 16 and 16: 300 mentions of documents of several sizes, that find some of 400
    names."""
    objective, random = make(n_candidates=16, n_shared=16), np.random.default_rng(0)
    documents = random.permutation(
        np.repeat(np.arange(60), random.multinomial(300 - 60, np.ones(60) / 60) + 1)
    )
    scores = random.normal(size=(300, 400)).astype("float32")
    own = [set(random.choice(400, 16, replace=False).tolist()) for _ in documents]
    is_own = np.array([[name in mine for name in range(400)] for mine in own])
    found = objective._shared(scores, is_own, documents)
    n_shared = set()
    for i, document in enumerate(documents):
        others = [own[j] for j in np.flatnonzero(documents == document) if j != i]
        pool = sorted(set().union(*others) - own[i], key=lambda name: -scores[i, name])
        assert set(np.flatnonzero(found[i]).tolist()) == set(pool[:16]), i
        n_shared.add(len(pool[:16]))
    assert n_shared >= {0, 16}


@pytest.mark.parametrize("temperature", [1.0, 0.1])
def test_loss_matches_the_papers_equations_1_and_2(make, model, toy_store, examples, temperature):
    """Eq. 1, the probability of a name among a mention's candidates; eq. 2, the sum of those of its
    entity's names, its negative logarithm averaged over the mentions that have one."""
    losses = []
    names, found = brute_force(model, toy_store, examples, 3, 2)
    for entity, view, own, shared in found:
        candidates = sorted(own | shared)
        vectors = model.predict([name_view(names[name][1]) for name in candidates]).astype(
            "float64"
        )
        exponentials = np.exp(vectors @ model.predict([view])[0] / temperature)
        probability = exponentials / exponentials.sum()
        marginal = sum(
            p for p, name in zip(probability, candidates, strict=True) if names[name][0] == entity
        )
        if marginal:
            losses.append(-np.log(marginal))
    loss = make(SoftmaxLoss(temperature, "sum")).update(model, examples)
    assert 0 < len(losses) < len(found) and loss == pytest.approx(np.mean(losses), rel=1e-4)


def test_names_that_others_found_are_negatives_in_a_batch(make, model, toy_store, examples):
    """All of the batch, whatever their documents, but the names of a mention's own entity."""
    seen = {}

    def loss(scores, positives, negatives):
        seen.update(positives=positives, negatives=negatives)
        return np.zeros_like(scores), 1.0

    make(loss, n_shared=0, in_batch=True).update(model, examples)
    names, found = brute_force(model, toy_store, examples, 3, 0)
    columns = sorted(set().union(*(own for _, _, own, _ in found)))
    for i, (entity, _, own, _) in enumerate(found):
        assert seen["negatives"][i].tolist() == [names[column][0] != entity for column in columns]
        assert seen["positives"][i].tolist() == [
            column in own and names[column][0] == entity for column in columns
        ]
    assert (seen["negatives"].sum(axis=1) > 3).all() and seen["positives"].any()


@pytest.mark.parametrize("refresh_every, times", [("epoch", 3), (1, 9), (0, 1)])
def test_names_are_encoded_again_on_schedule(toy_store, refresh_every, times, monkeypatch):
    """Three epochs of three documents, one at a time in any order, one of them without a linked
    mention and one with several; a pipe counts the mentions when it is initialized."""
    documents = [
        example("MS with a cold . No rickets here .", (0, 1, "T01"), (3, 4, "T04"), (6, 7, "T12")),
        example("flu or asthma", (0, 1, "T10"), (2, 3, "NIL")),
        example("flu again", (0, 1, "T10")),
        example("nothing here"),
    ]
    nlp = spacy.blank("en")
    objective = {
        "@misc": "spacy-krissel.NameObjective.v1",
        "loss": {"@losses": "spacy-krissel.SoftmaxLoss.v1", "positives": "sum"},
        "n_candidates": 3,
        "refresh_every": refresh_every,
        "index": {"@misc": "spacy-krissel.ExactIndex.v1"},
    }
    linker = nlp.add_pipe("krissel_linker", config={"objective": objective})
    linker.initialize(lambda: documents, nlp=nlp, ontology=lambda: toy_store)
    refreshed, refresh = [], NearestEntities._refresh
    monkeypatch.setattr(
        NearestEntities, "_refresh", lambda *args: (refreshed.append(step), refresh(*args))
    )
    step = 0
    with pytest.warns(KrisselWarning, match="KW625"):
        for order in ((0, 1, 2, 3), (3, 2, 0, 1), (1, 3, 0, 2)):
            for number in order:
                linker.update([documents[number]])
                step += 1
    assert len(refreshed) == times
    if refresh_every == "epoch":
        # The first with a mention: the second epoch begins with one that has none.
        assert refreshed == [0, 5, 8]


@pytest.mark.parametrize("n_candidates", [1, 3])
def test_mention_without_a_correct_candidate_gets_one(
    make, model, toy_store, examples, n_candidates
):
    """Its entity's nearest name takes the place of its last candidate; mentions that have a right
    one keep theirs."""
    seen = []

    def loss(scores, positives, negatives):
        seen.append((positives | negatives, positives))
        return np.zeros_like(scores), 1.0

    for gold_name in (False, True):
        make(loss, n_candidates=n_candidates, n_shared=0, gold_name=gold_name).update(
            model, examples
        )
    names, found = brute_force(model, toy_store, examples, n_candidates, 0)
    vectors = model.predict([name_view(name) for _, name in names])
    all_own = []
    for entity, view, own, _ in found:
        scores = vectors @ model.predict([view])[0]
        if not any(names[name][0] == entity for name in own):
            gold = max(
                (j for j, (of, _) in enumerate(names) if of == entity), key=lambda j: scores[j]
            )
            own = (own - {min(own, key=lambda j: scores[j])}) | {gold}
        all_own.append(own)
    columns = sorted(set().union(*all_own))
    before, (candidates, right) = seen
    assert not (before[0] & before[1]).any(axis=1).all(), "some find none by themselves"
    assert (candidates & right).any(axis=1).all()
    assert [{columns[j] for j in np.flatnonzero(row)} for row in candidates] == all_own


def test_mentions_know_their_sentence(examples):
    found = [view for _, view in mentions_in_context(examples[0].reference, "sentence")]
    assert found[0] == View("", "MS", " with a cold . ", co_mentions=((10, 14),))
    assert found[2] == View("No ", "rickets", " here .")
    ((entity, view),) = mentions_in_context(examples[1].reference, "sentence")
    assert (entity, view.co_mentions) == ("T10", ((7, 13),)), "an unlinked mention is marked too"
    assert mentions_in_context(examples[1].reference, None) == [("T10", name_view("flu"))]
    assert mentions_in_context(examples[1].reference, "window") == [
        ("T10", View("", "flu", " or asthma"))
    ]
    by_key = example("flu or asthma", (2, 3, "T07"), spans_key="gold").reference
    assert [entity for entity, _ in mentions_in_context(by_key, "sentence", "gold")] == ["T07"]


def test_gradient_matches_the_loss(make, model, examples):
    """Along a step the loss falls by what the gradient says: candidates stay those that were found
    before it."""
    objective = make(refresh_every=0)
    before = model.copy()
    loss = objective.update(model, examples)
    squares, step = 0.0, 1e-4
    for node in model.walk():
        for name in node.param_names:
            gradient = node.get_grad(name).copy() if node.has_grad(name) else None
            if gradient is not None:
                squares += float((gradient**2).sum())
                node.set_param(name, node.get_param(name) - step * gradient)
    assert squares > 0
    after = objective.update(model, examples)
    assert (loss - after) == pytest.approx(step * squares, rel=0.2)
    assert before.to_bytes() != model.to_bytes()


def test_loss_falls(make, model, examples):
    from thinc.api import Adam

    objective, optimizer = make(refresh_every=5), Adam(0.005, eps=1e-3, use_averages=False)
    losses = []
    for _ in range(40):
        losses.append(objective.update(model, examples))
        model.finish_update(optimizer)
    # Some runs end at ln 2 / 4, some at ln 2 / 2, as rounding has it.
    assert losses[-1] < 0.7 * losses[0]


def test_single_mention_shares_no_candidates(make, model):
    seen = []
    objective = make(
        lambda scores, right, wrong: (seen.append(right | wrong), (0 * scores, 0.0))[1]
    )
    objective.update(model, [example("flu here", (0, 1, "T10")), example("MS here", (0, 1, "T01"))])
    assert (seen[0].sum(axis=1) == 3).all()


def test_batches_without_mentions_are_skipped(make, model):
    objective = make()
    with pytest.warns(KrisselWarning, match="KW625.* 1 of 1 .*linked mention"):
        assert objective.update(model, [example("nothing here")]) == 0.0
    assert objective.update(model, []) == 0.0
    # Of another group than the pipe's they do not count.
    grouped = example("flu or asthma", (2, 3, "T07"), spans_key="gold")
    assert objective.update(model, [grouped]) == 0.0 < objective.update(model, [grouped], "gold")


def test_missing_ontology_or_entity_raises(make, model):
    with pytest.raises(KrisselError, match="K639.*no ontology"):
        make(ontology=None)
    with pytest.raises(KrisselError, match="K639.*no ontology"):
        NameObjective(SoftmaxLoss(), ExactIndex).update(model, [])
    with pytest.raises(KrisselError, match="K639.*'T99'"):
        make().update(model, [example("flu here", (0, 1, "T99"))])
