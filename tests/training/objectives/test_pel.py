"""PEL's training step: eq. 5 to 8 over mentions and entities."""

import copy
from itertools import islice

import numpy as np
import pytest
import spacy
from numpy.testing import assert_allclose
from spacy.training import Example

from spacy_krissel.corpora.convert import read_docs
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.referenced import ReferencedEncoder
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.losses.proxy import ProxyLoss
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.ontology.readers.ctd import read_medic
from spacy_krissel.ontology.store import write_store
from spacy_krissel.training.data.batchers import MentionBatcher
from spacy_krissel.training.data.examples import linked_mentions
from spacy_krissel.training.objectives.pel import RetrievalObjective
from spacy_krissel.views import PEL_PARTS, reference_view

# `title [SEP] types [SEP] definition`, as in the paper.
PARTS = {"aliases": False, "tree_numbers": False, "title_first": True}
LOSS = ProxyLoss(alpha=4.0, delta=0.1)
MENTIONS = (
    ("T01", "relapses of ", "sclerosis"),
    ("T04", "with fever and a ", "cold"),
    ("T12", "acute ", "rickets"),
)


@pytest.fixture
def make(toy_store):
    def make(loss=LOSS, ontology=toy_store, **settings):
        objective = RetrievalObjective(loss, **{"n_negatives": 3, **settings})
        objective.initialize(ontology)
        return objective

    return make


@pytest.fixture
def examples(make_example):
    return [
        make_example(entity, left, mention, " of a patient") for entity, left, mention in MENTIONS
    ]


@pytest.fixture
def small(toy_store, views):
    encoders = [
        SmallEncoder(width=8, rows=512, context_rows=256, hidden=4, seed=seed) for seed in (1, 2)
    ]
    model = ReferencedEncoder(*encoders, **PARTS)
    model.initialize(X=[*views, *(reference_view(entity, PEL_PARTS) for entity in toy_store)])
    return model


@pytest.fixture(scope="module")
def bert(tiny_bert):
    """Two BERTs without dropout."""
    config = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    settings = {"window": 32, "pooling": "mean", "normalize": True, "transformer_config": config}
    encoders = [TransformerEncoder(str(tiny_bert), **settings) for _ in range(2)]
    model = ReferencedEncoder(*encoders, **PARTS)
    model.initialize()
    return model


def transformer(model, which):
    (shim,) = [shim for node in model.layers[which].walk() for shim in node.shims]
    return shim.transformer


def embedded(model, views, steps=None):
    """The unit vectors of references as torch has them, and the word embeddings that they come
    from."""
    import torch

    from spacy_krissel.layers.hf.wordpieces import pad_pieces, view_pieces

    (shim,) = [shim for node in model.layers[1].walk() for shim in node.shims]
    rows = view_pieces(shim.tokenizer, views, 32)
    pieces = pad_pieces(rows, shim.tokenizer.pad_token_id)
    words = (
        shim.transformer.get_input_embeddings()(torch.tensor(pieces.ids)).detach().requires_grad_()
    )
    moved = words if steps is None else words + steps
    real = torch.arange(pieces.ids.shape[1])[None] < torch.tensor(pieces.lengths)[:, None]
    hidden = shim.transformer(inputs_embeds=moved, attention_mask=real.long())[0]
    mean = (hidden * real[:, :, None]).sum(dim=1) / real.sum(dim=1, keepdim=True)
    return torch.nn.functional.normalize(mean, dim=1), words


def gradients(model):
    """Return the gradients of both transformers by name; None for unused weights."""
    found = {}
    for which in (0, 1):
        for name, weight in transformer(model, which).named_parameters():
            found[f"{which} {name}"] = None if weight.grad is None else weight.grad.clone()
            weight.grad = None
    return found


def proxy(scores, gold, negatives):
    """Eq. 3 in torch."""
    import torch

    rows = torch.arange(len(scores))
    exponents = torch.where(torch.tensor(negatives), torch.exp(4.0 * (scores + 0.1)), 0.0).sum(
        dim=1
    )
    return (
        torch.log1p(torch.exp(-4.0 * (scores[rows, torch.tensor(gold)] - 0.1)))
        + torch.log1p(exponents)
    ).mean()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_update_matches_equation_8(make, examples, bert, toy_store, shared, weight):
    """Loss and gradients of every weight equal those of torch's own graph; the entities' input
    embeddings are moved by epsilon along the sign of the gradient of each mention's own scores (eq.
    6, 7)."""
    torch = pytest.importorskip("torch")
    objective = make(share_negatives=shared, fgsm_weight=weight, fgsm_epsilon=0.02)
    drawn = copy.deepcopy(objective)
    gradients(bert)
    loss = objective.update(bert, examples)
    ours = gradients(bert)

    rows = [toy_store.row(entity) for entity, *_ in MENTIONS]
    candidates = drawn._negatives.draw(rows)
    references = drawn.views(candidates.entities.tolist(), PEL_PARTS)
    mentions = [view for example in examples for _, view in linked_mentions(example.reference)]
    queries, backprop = bert.begin_update(mentions)
    leaf = torch.tensor(queries, requires_grad=True)
    vectors, words = embedded(bert, references)
    scores = leaf @ vectors.T
    expected = proxy(scores, candidates.gold, candidates.negatives)
    if weight:
        gold = torch.tensor(candidates.gold)
        # Of the scores that entities have with their own mentions, and the others with all.
        others = torch.tensor(candidates.negatives)
        others[:, gold] = False
        towards = (scores * others).sum() - scores[torch.arange(3), gold].sum()
        (direction,) = torch.autograd.grad(towards, words, retain_graph=True)
        moved, _ = embedded(bert, references, 0.02 * direction.sign())
        expected = expected + weight * proxy(leaf @ moved.T, candidates.gold, candidates.negatives)
    assert loss == pytest.approx(expected.item(), rel=1e-4)
    gradients(bert)
    expected.backward()
    backprop(leaf.grad.numpy())
    theirs = gradients(bert)
    for name, gradient in ours.items():
        if "word_embeddings" in name:
            continue  # detached above, so that its gradient could be asked for
        assert (gradient is None) == (theirs[name] is None), name
        if gradient is not None:
            assert_allclose(gradient, theirs[name], rtol=2e-3, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("loss", [LOSS, SoftmaxLoss(temperature=0.2)])
@pytest.mark.parametrize("shared", [True, False])
def test_adversarial_step_raises_the_loss(make, examples, bert, loss, shared):
    def update(weight, epsilon=0.01):
        return make(loss, share_negatives=shared, fgsm_weight=weight, fgsm_epsilon=epsilon).update(
            bert, examples
        )

    plain = update(0.0)
    assert update(1.0, 0.0) == pytest.approx(2 * plain, rel=1e-5)
    moved = [update(1.0, epsilon) - plain for epsilon in (0.001, 0.01)]
    assert plain < moved[0] < moved[1]
    gradients(bert)


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_chunks_have_the_same_gradient(make, examples, bert, weight):
    """Or adversaries of another chunk."""
    found = []
    for chunk_size in (0, 4):
        objective = make(
            share_negatives=False, fgsm_weight=weight, fgsm_epsilon=0.02, chunk_size=chunk_size
        )
        found.append((objective.update(bert, examples), gradients(bert)))
    (expected, whole), (loss, parts) = found
    assert loss == pytest.approx(expected, rel=1e-5)
    for name, gradient in whole.items():
        if gradient is not None:
            assert_allclose(parts[name], gradient, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("shared", [True, False])
def test_adversarial_step_moves_entities_away_from_their_mentions(make, examples, bert, shared):
    """Or a negative away from it: eq. 6 and 7 the wrong way round. Along the loss of a batch, 7 of
    8 entities did."""
    found = []

    def loss(scores, positives, negatives):
        found.append((scores.copy(), positives, negatives & ~positives.any(axis=0)))
        return LOSS(scores, positives, negatives)

    make(loss, share_negatives=shared, fgsm_weight=1.0).update(bert, examples)
    gradients(bert)
    (before, own, others), (after, *_) = found
    assert own.sum() == 3 and (after[own] < before[own]).all()
    assert (np.where(others, after - before, 0).sum(axis=0)[others.any(axis=0)] > 0).all()


def test_adversarial_step_is_made_even_if_the_loss_gradient_is_zero(make, examples, bert):
    """In float32, for scores that are far apart."""
    loss = SoftmaxLoss(temperature=1e-4)
    moved, same = (make(loss, fgsm_weight=1.0, fgsm_epsilon=epsilon) for epsilon in (0.05, 0.0))
    found = {}
    for name, objective in (("moved", moved), ("same", same)):
        scores = []
        objective.loss = lambda *each, scores=scores: scores.append(each[0].copy()) or loss(*each)
        objective.update(bert, examples)
        found[name] = scores
    gradients(bert)
    assert_allclose(found["same"][0], found["same"][1])
    assert (np.abs(found["moved"][0] - found["moved"][1]).max(axis=0) > 0).all()


def test_adversarial_direction_adds_no_gradient(make, examples, bert):
    """Earlier gradients stay, and the search for the direction adds none."""
    plain, both = make(), make(fgsm_weight=1e-9)
    plain.update(bert, examples)
    expected = gradients(bert)
    both.update(bert, examples)
    for name, gradient in gradients(bert).items():
        if gradient is not None:
            assert_allclose(gradient, expected[name], atol=1e-6, err_msg=name)
    assert all(
        weight.requires_grad for which in (0, 1) for weight in transformer(bert, which).parameters()
    )


@pytest.mark.data
@pytest.mark.filterwarnings("ignore::spacy_krissel.errors.KrisselWarning")
def test_adversarial_step_raises_the_loss_on_real_batches(data_dir, bert, tmp_path):
    """BC5CDR's diseases on MEDIC, each batch by itself. With shared candidates it need not: an
    entity that moves away from its mention moves away from others, too, whose negative it is."""
    store = write_store(
        read_medic(data_dir / "ontologies" / "medic_06Jul2012.txt"), tmp_path / "medic"
    )
    path = data_dir / "corpora" / "bc5cdr" / "CDR_DevelopmentSet.PubTator.txt"
    docs = islice(read_docs(path, spacy.blank("en"), labels=["Disease"], ontology=store), 12)
    examples = [
        Example(doc.copy(), doc) for doc in docs if all(ent.kb_id_ in store for ent in doc.ents)
    ]
    objective = RetrievalObjective(LOSS, n_negatives=8, share_negatives=False, fgsm_weight=1.0)
    objective.initialize(store)
    for batch in islice(MentionBatcher(size=8)(examples), 2):
        losses = {}
        for epsilon in (0.0, 0.01):
            same = copy.deepcopy(objective)
            same.fgsm_epsilon = epsilon
            losses[epsilon] = same.update(bert, batch)
        assert losses[0.01] > losses[0.0]
    gradients(bert)


def test_dropout_is_the_same_in_both_passes(make, examples, tiny_bert):
    """So that a step of no length changes nothing, though the encoder drops out."""
    encoders = [
        TransformerEncoder(str(tiny_bert), window=32, pooling="mean", normalize=True)
        for _ in range(2)
    ]
    model = ReferencedEncoder(*encoders, **PARTS)
    model.initialize()
    plain, both = (make(fgsm_weight=weight, fgsm_epsilon=0.0) for weight in (0.0, 1.0))
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    expected = plain.update(model, examples)
    torch.manual_seed(1)
    assert both.update(model, examples) == pytest.approx(2 * expected, rel=1e-5)


def test_both_small_encoders_learn(make, examples, small, take_step):
    """Both encoders learn: the loss falls along the step."""
    objective = make()
    again = copy.deepcopy(objective)
    losses = []
    before, after = take_step(small, lambda model: losses.append(objective.update(model, examples)))
    moved = {
        name.split()[0] for name in before if not np.allclose(before[name], after[name], atol=1e-9)
    }
    assert len(moved) >= 4  # both tables and both mixers
    from thinc.api import Adam

    model = small.copy()
    for _ in range(20):
        copy.deepcopy(again).update(model, examples)
        model.finish_update(Adam(0.05, use_averages=False, L2=0.0))
    assert copy.deepcopy(again).update(model, examples) < losses[0]


@pytest.mark.parametrize("homonyms", [False, True])
def test_hard_negatives_are_the_nearest(make, examples, small, toy_store, homonyms):
    objective = make(
        hard_share=1.0,
        n_negatives=2,
        share_negatives=False,
        homonym_negatives=homonyms,
        index=ExactIndex,
    )
    seen = []
    draw = objective._negatives.draw
    objective._negatives.draw = lambda gold, nearest: seen.append(draw(gold, nearest)) or seen[-1]
    objective.update(small, examples)
    mentions = [view for example in examples for _, view in linked_mentions(example.reference)]
    parts = PEL_PARTS
    scores = (
        small.predict(mentions)
        @ small.predict([reference_view(entity, parts) for entity in toy_store]).T
    )
    ids = list(toy_store.ids)
    (candidates,) = seen
    for i, (entity, *_) in enumerate(MENTIONS):
        # "MS" and "cold" are names of two entities each: neither is a negative of the other.
        excluded = {entity, None if homonyms else {"T01": "T02", "T04": "T05"}.get(entity)}
        expected = [ids[row] for row in np.argsort(-scores[i]) if ids[row] not in excluded][:2]
        assert [ids[row] for row in candidates.entities[candidates.negatives[i]]] == expected


def test_examples_without_a_mention_are_skipped(make, small, make_example):
    objective = make()
    with pytest.warns(KrisselWarning, match="KW625.* 1 of 1 .*linked mention"):
        assert objective.update(small, [make_example("")]) == 0.0
    grouped = make_example("T01")
    grouped.reference.spans["sc"], grouped.reference.ents = list(grouped.reference.ents), []
    assert objective.update(small, [grouped]) == 0.0 < objective.update(small, [grouped], "sc")


def test_missing_ontology_or_encoder_raises(make, examples, small, toy_store, views):
    with pytest.raises(KrisselError, match="K639.*no ontology"):
        make(ontology=None)
    with pytest.raises(KrisselError, match="K639.*no ontology"):
        RetrievalObjective(LOSS).update(small, examples)
    mentions_alone = SmallEncoder(width=8, rows=512, context_rows=256, hidden=4)
    mentions_alone.initialize(X=views)
    with pytest.raises(KrisselError, match="K636.*mentions alone"):
        make().update(mentions_alone, examples)
    with pytest.raises(KrisselError, match="K637"):
        make(fgsm_weight=1.0).update(small, examples)


def test_unknown_entity_raises(make, small, make_example):
    with pytest.raises(KrisselError, match="K639.*'T99'"):
        make().update(small, [make_example("T99")])


def test_invalid_settings_raise():
    """Hard negatives, and no index to find them."""
    with pytest.raises(KrisselError, match="K006"):
        RetrievalObjective(LOSS, hard_share=0.5)
