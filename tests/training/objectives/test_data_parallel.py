"""Two processes have the loss and the gradient of one, over the same batch: for every objective and
kind of encoder."""

import numpy as np
import pytest
import spacy
from numpy.testing import assert_allclose
from spacy.tokens import Span
from spacy.training import Example
from thinc.api import Adam, chain, fix_random_seed, set_dropout_rate

from spacy_krissel.distributed.processes import process_rank, sum_gradients
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.layers.heads import ProjectedEncoder
from spacy_krissel.layers.hf.cross_encoder import CrossEncoder
from spacy_krissel.layers.hf.piece_states import PieceStates
from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.layers.label_attention import LabelAttention, presence_layer
from spacy_krissel.layers.list_cross_encoder import ListCrossEncoder
from spacy_krissel.layers.normalize import normalize_rows
from spacy_krissel.layers.ranked import RankedMention
from spacy_krissel.layers.referenced import ReferencedEncoder
from spacy_krissel.layers.small import SmallEncoder
from spacy_krissel.layers.token_states import WordStates
from spacy_krissel.losses.focal import FocalLoss
from spacy_krissel.losses.proxy import ProxyLoss
from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.training.data import negatives as nearest
from spacy_krissel.training.objectives.belhd import NameObjective
from spacy_krissel.training.objectives.krissbert import ContrastiveObjective
from spacy_krissel.training.objectives.oslat import LabelAttentionObjective
from spacy_krissel.training.objectives.pel import RetrievalObjective
from spacy_krissel.training.objectives.reranking import RerankObjective
from spacy_krissel.training.objectives.sapbert import SelfAlignmentObjective
from spacy_krissel.views import CandidateView, View, name_view

pytestmark = pytest.mark.slow

NLP = spacy.blank("en")
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
MENTIONS = [
    ("T01", "relapses of ", "sclerosis", " in a patient"),
    ("T01", "the patient had ", "ms", ""),
    ("T04", "with fever and a ", "cold", " that was caught at school"),
    ("T04", "", "acute coryza", ""),
    ("T12", "acute ", "rickets", ""),
    ("T12", "", "rickets", " of a child"),
    ("T10", "a ", "flu", " in winter with fever"),
    ("T10", "a ", "grippe", ""),
]
VIEWS = [View(*texts) for _, *texts in MENTIONS]


def one_mention(entity, left, mention, right):
    docs = [NLP.make_doc(left + mention + right) for _ in range(2)]
    for doc, kb_id in zip(docs, ("", entity), strict=True):
        span = doc.char_span(len(left), len(left) + len(mention))
        doc.ents = [Span(doc, span.start, span.end, label="ENTITY", kb_id=kb_id)]
    return Example(*docs)


def document(words, mentions, cats=()):
    doc = NLP.make_doc(words)
    doc.ents = [
        Span(doc, start, end, label="Disease", kb_id=kb_id) for start, end, kb_id in mentions
    ]
    doc.cats = dict.fromkeys(cats, 1.0)
    return Example(NLP.make_doc(words), doc)


DOCUMENTS = [
    document(
        "MS with a cold . No rickets here .",
        [(0, 1, "T01"), (3, 4, "T04"), (6, 7, "T12")],
        ["T01", "T04", "T12"],
    ),
    document("flu or asthma", [(0, 1, "T10"), (2, 3, "NIL")], ["T10"]),
    document("nothing was found", []),
]
CANDIDATES = [
    ["multiple sclerosis", "cold", "acute lung injury and fever"],
    ["ms"],
    ["the common cold", "injury of the lung"],
    ["coryza", "flu", "a discharge of a patient with fever", "cold"],
]
RANKED = [
    RankedMention(
        view,
        tuple(CandidateView((name,), (name,)) for name in names),
        np.zeros(len(names), dtype="f"),
    )
    for view, names in zip(VIEWS, CANDIDATES, strict=False)
]


def drawn(model, scale=0.3):
    """No weight of thinc's is at zero, as after some training."""
    random = np.random.default_rng(0)
    for node in model.walk():
        for name in node.param_names:
            node.set_param(
                name, random.normal(scale=scale, size=node.get_param(name).shape).astype("float32")
            )
    return model


def small(seed=0, **settings):
    return SmallEncoder(width=8, rows=512, context_rows=256, hidden=4, seed=seed, **settings)


def bert(path, **settings):
    return TransformerEncoder(
        path,
        **{
            "window": 32,
            "pooling": "mean",
            "normalize": True,
            "transformer_config": NO_DROPOUT,
            **settings,
        },
    )


def encoder(kind, path):
    fix_random_seed(0)
    models = {
        "small": small,
        "bert": lambda: bert(path),
        "units": lambda: bert(path, pooling="mention", units=True),
        "small pair": lambda: ReferencedEncoder(small(), small(1)),
        "bert pair": lambda: ReferencedEncoder(bert(path), bert(path, pooling="cls")),
        "projected": lambda: chain(ProjectedEncoder(small(), width=4), normalize_rows()),
        "words": lambda: LabelAttention(
            WordStates(small(normalize=False)), classifier="pair", hidden=3
        ),
        "pieces": lambda: LabelAttention(
            PieceStates(path, window=32, transformer_config=NO_DROPOUT)
        ),
        "lists": lambda: ListCrossEncoder(small(), hidden=4),
        "pairs": lambda: CrossEncoder(
            path, window=24, candidate_window=16, transformer_config=NO_DROPOUT, pooling="mean"
        ),
    }
    model = models[kind]()
    if kind in ("words", "pieces"):
        model.initialize(
            X=[text for _, left, mention, right in MENTIONS for text in (left + mention + right,)]
        )
        drawn(presence_layer(model))
    elif kind in ("lists", "pairs"):
        # Not so large that the corrections are at their bound.
        drawn(model.initialize(X=RANKED), scale=0.1)
    else:
        drawn(
            model.initialize(
                X=[*VIEWS, *(view._replace(reference=True) for view in VIEWS), name_view("a")]
            )
        )
    return model


CASES = {
    "mentions": (ContrastiveObjective, "small", {"loss": SoftmaxLoss(temperature=0.3)}),
    "mentions of a transformer": (
        ContrastiveObjective,
        "bert",
        {"loss": SoftmaxLoss(temperature=0.3)},
    ),
    "cached": (
        ContrastiveObjective,
        "small",
        {"loss": SoftmaxLoss(temperature=0.3), "chunk_size": 3},
    ),
    "cached, of a transformer": (
        ContrastiveObjective,
        "bert",
        {"loss": SoftmaxLoss(temperature=0.3), "chunk_size": 3},
    ),
    "projection": (
        ContrastiveObjective,
        "projected",
        {"loss": SoftmaxLoss(temperature=0.3), "chunk_size": 2},
    ),
    "references": (
        ContrastiveObjective,
        "small pair",
        {
            "loss": SoftmaxLoss(temperature=0.3),
            "reference_loss": SoftmaxLoss(temperature=0.3),
            "chunk_size": 5,
        },
    ),
    "references of a transformer": (
        ContrastiveObjective,
        "bert pair",
        {
            "loss": SoftmaxLoss(temperature=0.3),
            "reference_loss": SoftmaxLoss(temperature=0.3),
            "chunk_size": 2,
        },
    ),
    "names": (
        SelfAlignmentObjective,
        "small",
        {"loss": SoftmaxLoss(0.07), "n_negatives": 3, "chunk_size": 2},
    ),
    "entities": (
        RetrievalObjective,
        "small pair",
        {"loss": ProxyLoss(alpha=4.0, delta=0.1), "n_negatives": 3},
    ),
    "entities, hard ones": (
        RetrievalObjective,
        "small pair",
        {
            "loss": ProxyLoss(alpha=4.0, delta=0.1),
            "n_negatives": 4,
            "hard_share": 0.5,
            "index": ExactIndex,
        },
    ),
    "entities of a transformer, hard ones, FGSM": (
        RetrievalObjective,
        "bert pair",
        {
            "loss": ProxyLoss(alpha=4.0, delta=0.1),
            "n_negatives": 4,
            "hard_share": 0.5,
            "index": ExactIndex,
            "fgsm_weight": 0.7,
        },
    ),
    "candidate names": (
        NameObjective,
        "small",
        {
            "loss": SoftmaxLoss(temperature=0.1, positives="sum"),
            "n_candidates": 3,
            "n_shared": 2,
            "index": ExactIndex,
        },
    ),
    "candidate names, text units": (
        NameObjective,
        "units",
        {
            "loss": SoftmaxLoss(0.1, "sum"),
            "n_candidates": 3,
            "index": ExactIndex,
            "gold_name": True,
        },
    ),
    "candidate names, in the batch, at each epoch": (
        NameObjective,
        "small",
        {
            "loss": SoftmaxLoss(0.1, "sum"),
            "n_candidates": 3,
            "n_shared": 0,
            "in_batch": True,
            "refresh_every": "epoch",
            "index": ExactIndex,
        },
    ),
    "words": (
        LabelAttentionObjective,
        "words",
        {"loss": SoftmaxLoss(temperature=0.5, positives="mean"), "presence_loss": FocalLoss()},
    ),
    "pieces": (
        LabelAttentionObjective,
        "pieces",
        {"loss": SoftmaxLoss(temperature=0.5, positives="mean"), "presence_loss": FocalLoss()},
    ),
    "classifier": (LabelAttentionObjective, "pieces", {"loss": None, "presence_loss": FocalLoss()}),
    "re-ranking of lists": (RerankObjective, "lists", {"loss": SoftmaxLoss()}),
    "re-ranking of pairs": (RerankObjective, "pairs", {"loss": SoftmaxLoss()}),
}


# Of the largest gradient. This case's is what is left of far larger terms: in float32 it differs
# from itself in float64 by 2.8e-4, and by the order of sums, which each kind of processor chooses,
# by up to 6.6e-5.
TOLERANCES = {"candidate names, text units": 5e-4}


def make_step(case, store, path):
    """The model of a case, and what accumulates the gradient of its batch and returns the loss."""
    make, kind, settings = CASES[case]
    # Several blocks of an ontology of a dozen.
    nearest.BLOCK = 5
    model, objective = encoder(kind, path), make(**settings)
    if make is RerankObjective:
        return model, lambda n: objective.step(model, RANKED[:n], [2, 0, 1, 3][:n])
    objective.initialize(OntologyStore(store))
    if settings.get("refresh_every") == "epoch":
        # The linked mentions of `DOCUMENTS`: a batch is an epoch.
        objective.set_epoch(4)
    documents = make in (NameObjective, LabelAttentionObjective)
    examples = DOCUMENTS if documents else [one_mention(*mention) for mention in MENTIONS]
    return model, lambda n: objective.update(model, examples[:n])


def gradients(model):
    found = {}
    for i, node in enumerate(model.walk()):
        for name in node.param_names:
            if node.has_grad(name):
                found[f"{i} {name}"] = node.get_grad(name).copy()
        for shim in node.shims:
            if getattr(shim, "_gradients", None):
                rows, gradient = shim._summed()
                whole = found[f"{i} table"] = np.zeros((shim.rows, shim.width))
                whole[rows] = gradient
            elif hasattr(shim, "transformer"):
                for name, weight in shim.transformer.named_parameters():
                    if weight.grad is not None:
                        found[f"{i} {name}"] = weight.grad.numpy().copy()
    return found


def update(case, store, path, n):
    """The loss and the gradients of the second of two batches, so that what is kept from the first
    is there."""
    model, accumulate = make_step(case, store, path)
    accumulate(n)
    sum_gradients(model)
    model.finish_update(Adam(1e-9, L2=0.0, grad_clip=0.0, use_averages=False))
    loss = accumulate(n)
    sum_gradients(model)
    return loss, gradients(model)


def assert_same(found, expected, tolerance=1e-5):
    (loss, ours), (expected_loss, theirs) = found, expected
    assert loss == pytest.approx(expected_loss, rel=1e-5) and loss > 0
    assert ours.keys() == theirs.keys() and len(ours) > 1
    largest = max(np.abs(gradient).max() for gradient in theirs.values())
    for name, gradient in theirs.items():
        assert_allclose(ours[name], gradient, rtol=0, atol=tolerance * largest, err_msg=name)
    assert largest > 1e-5


@pytest.mark.parametrize("case", CASES)
def test_two_processes_have_the_gradient_of_one(two_processes, toy_store, tiny_bert, case):
    setting = case, str(toy_store.path), str(tiny_bert), 8
    expected = update(*setting)
    first, second = two_processes(update, *setting)
    assert_same(first, expected, TOLERANCES.get(case, 1e-5))
    # All of them have the very same one.
    assert first[0] == second[0]
    for name, gradient in first[1].items():
        np.testing.assert_array_equal(gradient, second[1][name], err_msg=name)


@pytest.mark.parametrize(
    "case, n",
    [
        ("entities of a transformer, hard ones, FGSM", 1),
        ("candidate names", 1),
        ("re-ranking of pairs", 1),
    ],
)
def test_fewer_mentions_than_processes_work(two_processes, toy_store, tiny_bert, case, n):
    setting = case, str(toy_store.path), str(tiny_bert), n
    expected = update(*setting)
    for found in two_processes(update, *setting):
        assert_same(found, expected)


def read(case, store, path):
    """Return the left contexts that each process reads, per pass."""
    model, accumulate = make_step(case, store, path)
    counts = []
    inner = model._func
    model._func = lambda model, X, is_train: (
        counts.append([view.left for view in X]) or inner(model, X, is_train)
    )
    accumulate(8)
    return counts


def test_work_is_divided_between_the_processes(two_processes, toy_store, tiny_bert):
    setting = str(toy_store.path), str(tiny_bert)
    for case, passes in {"mentions": [4], "cached": [3, 1, 3, 1]}.items():
        assert [
            [len(part) for part in counts] for counts in two_processes(read, case, *setting)
        ] == [passes] * 2
    first, second = (
        {left for part in counts for left in part if left}
        for counts in two_processes(read, "candidate names, text units", *setting)
    )
    # Mentions of one sentence are read in one pass, by one process.
    assert (first and first.isdisjoint(second)) or (second and second.isdisjoint(first))


def weights_after(case, store, path, dropout):
    fix_random_seed(0)
    model, accumulate = make_step(case, store, path)
    set_dropout_rate(model, dropout)
    optimizer = Adam(0.01, use_averages=False)
    losses = []
    for _ in range(3):
        losses.append(accumulate(8))
        sum_gradients(model)
        model.finish_update(optimizer)
        optimizer.step_schedules()
    return losses, model.to_bytes(), process_rank()


@pytest.mark.parametrize(
    "case", ["references", "references of a transformer", "words", "re-ranking of lists"]
)
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_weights_stay_the_same_in_all_processes(two_processes, toy_store, tiny_bert, case, dropout):
    setting = case, str(toy_store.path), str(tiny_bert), dropout
    (losses, weights, _), (other_losses, other_weights, number) = two_processes(
        weights_after, *setting
    )
    assert number == 1 and losses == other_losses and weights == other_weights
    alone, *_ = weights_after(*setting)
    if not dropout:
        assert losses == pytest.approx(alone, rel=1e-3)
    # Training goes on.
    assert len(set(losses)) == 3


def skip_and_learn(case, store, path):
    """The losses of a batch without a pair, and of one with pairs, a step after each; and the
    weights' gradients."""
    model, accumulate = make_step(case, store, path)
    optimizer = Adam(0.01, use_averages=False)
    losses = []
    for n in (0, 8):
        losses.append(accumulate(n))
        sum_gradients(model)
        if not n:
            model.finish_update(optimizer)
    return losses, gradients(model)


@pytest.mark.parametrize(
    "case", ["mentions", "names", "candidate names", "words", "re-ranking of lists"]
)
@pytest.mark.filterwarnings("ignore:.KW625")
def test_all_processes_skip_an_empty_batch_together(two_processes, toy_store, tiny_bert, case):
    setting = case, str(toy_store.path), str(tiny_bert)
    losses, expected = skip_and_learn(*setting)
    assert losses[0] == 0 < losses[1]
    for found, ours in two_processes(skip_and_learn, *setting):
        assert found[0] == 0
        assert_same((found[1], ours), (losses[1], expected))
