"""The softmax loss is the papers' equations: KRISSBERT 2 and 5, SapBERT Table 6, OSLAT 4, PEL 1,
BELHD 1 and 2."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from pair_losses import THREE, assert_restated, names, of_names
from thinc.api import NumpyOps

from spacy_krissel.losses.softmax import SoftmaxLoss
from spacy_krissel.training.objectives.krissbert import ContrastiveObjective
from spacy_krissel.training.scores import Padding

TEMPERATURES = st.sampled_from([0.05, 0.5, 1.0, 3.0])


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def of_pairs(temperature=1.0):
    """InfoNCE of 2N vectors, pairs adjacent."""
    return ContrastiveObjective(SoftmaxLoss(temperature)).joint_loss


def of_references(mentions, references, temperature=1.0):
    """The gradients of mentions and references, and their loss."""
    loss = SoftmaxLoss(temperature)
    gradient, value = ContrastiveObjective(loss, loss, alpha=0.0).joint_loss(
        np.vstack([mentions, references])
    )
    return (gradient[: len(mentions)], gradient[len(mentions) :]), value


# InfoNCE, one positive each -----------------------------------------------------------------------


def krissbert_equation_2(vectors, temperature):
    n = len(vectors)

    def term(i, j):
        scores = [
            math.exp(np.dot(vectors[i], vectors[k]) / temperature) for k in range(n) if k != i
        ]
        return -math.log(math.exp(np.dot(vectors[i], vectors[j]) / temperature) / sum(scores))

    return sum(term(k, k + 1) + term(k + 1, k) for k in range(0, n, 2)) / n


def krissbert_equation_5(mentions, references, temperature):
    def term(mention, k):
        scores = [math.exp(np.dot(mention, reference) / temperature) for reference in references]
        return -math.log(scores[k] / sum(scores))

    n = len(references)
    return sum(term(mentions[2 * k], k) + term(mentions[2 * k + 1], k) for k in range(n)) / (2 * n)


def test_pairs_of_mentions_agree_with_hand_computed_values():
    # c1 = c2 = (1, 0) of one entity, c3 = c4 = (0, 1) of another; temperature 1.
    # Every row has one positive with score 1 and two negatives with score 0, so each term is -log(e
    # / (e + 1 + 1)) = log(1 + 2 / e) = log(1.735759) = 0.551445, and so is their mean.
    gradient, loss = of_pairs()(np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float64))
    assert loss == pytest.approx(0.551445, abs=1e-6)
    # d loss / d c1: its own row's softmax is (e, 1, 1) / (e + 2) = (.576117, .211942, .211942) over
    # c2, c3, c4, less the positive: -.423883 c2 + .211942 (c3 + c4); c1 stands in the other rows
    # with the same weights, so twice that, over 2N = 4: (-.423883 * 2 / 4, .423883 * 2 / 4).
    assert_allclose(gradient[0], [-0.211942, 0.211942], atol=1e-6)
    assert_allclose(gradient[3], [0.211942, -0.211942], atol=1e-6)


def test_mentions_and_references_agree_with_hand_computed_values():
    # The mentions of two entities are (1, 0) and (0, 1), their references (2, 0) and (0, 1);
    # temperature 1. Mentions of entity 1: scores (2, 0), each term log(1 + e^-2) = 0.126928.
    # Mentions of entity 2: scores (0, 1), each term log(1 + e^-1) = 0.313262. Mean: 0.220095.
    mentions = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float64)
    (d_mentions, d_references), loss = of_references(
        mentions, np.array([[2, 0], [0, 1]], dtype=np.float64)
    )
    assert loss == pytest.approx(0.220095, abs=1e-6)
    # Softmax of (2, 0): (.880797, .119203). d c1 = (-.119203 r1 + .119203 r2) / 4 = (-.0596015,
    # .0298008).
    assert_allclose(d_mentions[0], [-0.0596015, 0.0298008], atol=1e-6)
    # Softmax of (0, 1): (.268941, .731059). d r1 = (2 * -.119203 (1, 0) + 2 * .268941 (0, 1)) / 4.
    assert_allclose(d_references[0], [-0.0596015, 0.1344707], atol=1e-6)


@given(st.integers(1, 6), st.integers(1, 5), TEMPERATURES, st.integers(0, 99))
def test_the_loss_equals_krissberts_equations_2_and_5(n, width, temperature, seed):
    mentions, references = normal(2 * n, width, seed=seed), normal(n, width, seed=seed + 100)
    expected = krissbert_equation_2(mentions, temperature)
    assert of_pairs(temperature)(mentions)[1] == pytest.approx(expected, rel=1e-9, abs=1e-12)
    expected = krissbert_equation_5(mentions, references, temperature)
    assert of_references(mentions, references, temperature)[1] == pytest.approx(
        expected, rel=1e-6, abs=1e-9
    )


def test_gradients_of_pairs_and_references_equal_torch():
    torch = pytest.importorskip("torch")
    mentions, references = normal(10, 7), normal(5, 7, seed=1)
    leaf = torch.tensor(mentions, requires_grad=True)
    scores = (leaf @ leaf.T / 0.3).masked_fill(torch.eye(10, dtype=torch.bool), -torch.inf)
    theirs = torch.nn.functional.cross_entropy(scores, torch.arange(10) ^ 1)
    theirs.backward()
    gradient, loss = of_pairs(0.3)(mentions)
    assert loss == pytest.approx(theirs.item())
    assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)

    leaves = [torch.tensor(each, requires_grad=True) for each in (mentions, references)]
    theirs = torch.nn.functional.cross_entropy(leaves[0] @ leaves[1].T / 0.3, torch.arange(10) // 2)
    theirs.backward()
    gradients, loss = of_references(mentions, references, 0.3)
    assert loss == pytest.approx(theirs.item())
    for ours, leaf in zip(gradients, leaves, strict=True):
        assert_allclose(ours, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_pairs_are_adjacent_rows():
    close = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    assert of_pairs()(close)[1] < of_pairs()(close[[0, 2, 1, 3]])[1]


def test_a_single_entity_has_zero_loss_and_gradient():
    gradient, loss = of_pairs()(normal(2, 3))
    assert loss == pytest.approx(0) and not gradient.any()
    gradients, loss = of_references(normal(2, 3), normal(1, 3))
    assert loss == pytest.approx(0) and not any(gradient.any() for gradient in gradients)


def test_a_low_temperature_stays_finite():
    gradient, loss = of_pairs(1e-3)(normal(8, 4).astype("float32") * 30)
    assert np.isfinite(gradient).all() and np.isfinite(loss) and gradient.dtype == np.float32


# Cross-entropy over candidates --------------------------------------------------------------------


def pel_equation_1(scores, gold, negatives, temperature):
    total = 0.0
    for i, row in enumerate(scores / temperature):
        terms = [math.exp(s) for s, there in zip(row, negatives[i], strict=True) if there]
        total -= math.log(math.exp(row[gold[i]]) / (math.exp(row[gold[i]]) + sum(terms)))
    return total / len(scores)


def test_cross_entropy_agrees_with_hand_computed_values():
    # Softmax of (1, 2) for the two that count: .268941 and .731059; the loss is -log .731059 =
    # 0.313262.
    scores, positives = np.array([[1.0, 2.0, 9.0]]), np.array([[False, True, False]])
    gradient, loss = SoftmaxLoss()(scores, positives, np.array([[True, False, False]]))
    assert loss == pytest.approx(0.313262, abs=1e-6)
    assert_allclose(gradient, [[0.268941, -0.268941, 0]], atol=1e-6)


@given(
    st.integers(1, 6),
    st.integers(1, 7),
    TEMPERATURES,
    st.integers(0, 99),
    st.sampled_from(["pairs", "mean", "sum"]),
)
def test_with_one_positive_per_query_the_loss_equals_pels_equation_1(q, k, temperature, seed, join):
    random = np.random.default_rng(seed)
    gold = random.integers(k, size=q)
    positives = np.arange(k)[None] == gold[:, None]
    scores, negatives = random.uniform(-1, 1, (q, k)), (random.random((q, k)) < 0.7) & ~positives
    _, loss = SoftmaxLoss(temperature, join)(scores, positives, negatives)
    assert loss == pytest.approx(
        pel_equation_1(scores, gold, negatives, temperature), rel=1e-6, abs=1e-9
    )


def test_candidate_lists_agree_with_hand_computed_values():
    # One mention of two candidates, log-odds 1 and 0; the second is right and its correction of 1
    # makes them even: -log(1/2) = .693147. Another of one candidate alone costs nothing. Mean:
    # .346574.
    padding = Padding(NumpyOps(), [2, 1], positive=[1, 0])
    scores = padding.pad(np.array([1.0, 0, -3]) + np.array([0.0, 1, 5]))
    gradient, loss = SoftmaxLoss()(scores, padding.positives, padding.negatives)
    assert loss == pytest.approx(0.346574, abs=1e-6)
    assert_allclose(padding.unpad(gradient), [0.25, -0.25, 0], atol=1e-12)


# Several positives --------------------------------------------------------------------------------


def of_each_pair(units, positives, negatives, temperature=0.07):
    """SapBERT's Table 6."""
    terms = []
    for i in range(len(units)):
        far = sum(math.exp(units[i] @ units[k] / temperature) for k in negatives[i])
        for p in positives[i]:
            near = math.exp(units[i] @ units[p] / temperature)
            terms.append(-math.log(near / (near + far)))
    return sum(terms) / max(1, len(terms))


def supervised_nt_xent(units, positives, negatives, temperature=0.07):
    losses = []
    for i in range(len(units)):
        total = sum(
            math.exp(units[i] @ units[a] / temperature) for a in (*positives[i], *negatives[i])
        )
        terms = [
            -math.log(math.exp(units[i] @ units[p] / temperature) / total) for p in positives[i]
        ]
        losses += [sum(terms) / len(terms)] if terms else []
    return sum(losses) / max(1, len(losses))


def marginal_likelihood(scores, positives, negatives, temperature):
    losses = []
    for row, right, wrong in zip(scores / temperature, positives, negatives, strict=True):
        likely = sum(math.exp(s) for s, there in zip(row, right, strict=True) if there)
        unlikely = sum(math.exp(s) for s, there in zip(row, wrong, strict=True) if there)
        losses += [-math.log(likely / (likely + unlikely))] if likely else []
    return sum(losses) / len(losses) if losses else 0.0


def oslat_equation_4(contexts, n_positives, temperature):
    unit = [row / math.sqrt(sum(x * x for x in row)) for row in contexts]
    scores = [
        sum(a * b for a, b in zip(unit[0], row, strict=True)) / temperature for row in unit[1:]
    ]
    total = sum(math.exp(score) for score in scores)
    return -sum(math.log(math.exp(score) / total) for score in scores[:n_positives]) / n_positives


@pytest.mark.parametrize("join, equation", [("pairs", of_each_pair), ("mean", supervised_nt_xent)])
@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_the_loss_over_names_equals_its_equation(join, equation, temperature):
    assert_restated(
        SoftmaxLoss(temperature, join), lambda *batch: equation(*batch, temperature=temperature)
    )


def test_names_agree_with_hand_computed_values():
    # τ = 1: log(1 + e^(0 - .5)) = .474077 and log(1 + e^(.866025 - .5)) = .892814; mean .683446.
    # The third name has no positive and is no term.
    assert of_names(SoftmaxLoss())(*THREE)[1] == pytest.approx(0.683446, abs=2e-6)
    # Both names of entity 0 have cosine 1 with each other and 0 with the third: log(e + 1) − 1 for
    # each.
    vectors = np.array([[2.0, 0], [3.0, 0], [0, 1.0]])
    loss = of_names(SoftmaxLoss(positives="mean"))(vectors, np.array([0, 0, 1]))[1]
    assert loss == pytest.approx(0.313262, abs=1e-6)


def test_two_names_per_entity_equal_krissberts_pairs():
    vectors = normal(8, 5)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    gradient, loss = of_names(SoftmaxLoss(0.2))(vectors, np.arange(8) // 2)
    expected, expected_loss = of_pairs(0.2)(vectors)
    assert loss == pytest.approx(expected_loss)
    # There without the step from a vector to its direction.
    expected = expected - vectors * (expected * vectors).sum(axis=1, keepdims=True)
    assert_allclose(gradient, expected, atol=1e-12)


def test_contexts_agree_with_hand_computed_values():
    # Cosines 1 with the synonym, 0 and -1 with the others; −log(e / (e + 1 + 1/e)) = log(1.503215).
    scores, positives = np.array([[1.0, 0.0, -1.0]]), np.array([[True, False, False]])
    assert SoftmaxLoss(positives="mean")(scores, positives, ~positives)[1] == pytest.approx(
        0.407606, abs=1e-6
    )


@given(st.integers(1, 4), st.integers(0, 5), TEMPERATURES, st.integers(0, 99))
def test_the_loss_equals_oslats_equation_4(n_positives, n_negatives, temperature, seed):
    contexts = normal(1 + n_positives + n_negatives, 3, seed=seed)
    units = contexts / np.linalg.norm(contexts, axis=1, keepdims=True)
    positives = np.arange(n_positives + n_negatives)[None] < n_positives
    _, loss = SoftmaxLoss(temperature, "mean")(units[:1] @ units[1:].T, positives, ~positives)
    assert loss == pytest.approx(
        oslat_equation_4(contexts, n_positives, temperature), rel=1e-6, abs=1e-9
    )


def test_marginal_likelihood_agrees_with_hand_computed_values():
    # Candidates score 2, 1 and 0: .665241, .244728, .090031. The first and the last are right: -log
    # .755272 = 0.280677.
    scores = np.array([[2.0, 9.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]])
    positives = np.array([[True, False, False, True], [False, False, False, False]])
    negatives = np.array([[False, False, True, False], [True, True, False, False]])
    gradient, loss = SoftmaxLoss(positives="sum")(scores, positives, negatives)
    assert loss == pytest.approx(0.280677, abs=1e-6)
    # P(c|m) less the fraction among the right ones, .880797 and .119203; the second mention has no
    # right candidate.
    expected = [[0.665241 - 0.880797, 0, 0.244728, 0.090031 - 0.119203], [0, 0, 0, 0]]
    assert_allclose(gradient, expected, atol=1e-6)


@given(st.integers(1, 6), st.integers(1, 7), TEMPERATURES, st.integers(0, 99))
def test_the_loss_equals_belhds_equations_1_and_2(q, k, temperature, seed):
    random = np.random.default_rng(seed)
    positives = random.random((q, k)) < 0.3
    scores, negatives = random.normal(size=(q, k)), (random.random((q, k)) < 0.7) & ~positives
    _, loss = SoftmaxLoss(temperature, "sum")(scores, positives, negatives)
    expected = marginal_likelihood(scores, positives, negatives, temperature)
    assert loss == pytest.approx(expected, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("join", ["pairs", "mean", "sum"])
def test_without_a_positive_loss_and_gradient_are_zero(join):
    gradient, loss = SoftmaxLoss(positives=join)(
        normal(3, 4), np.zeros((3, 4), bool), np.ones((3, 4), bool)
    )
    assert loss == 0.0 and not gradient.any()


@pytest.mark.parametrize("join", ["pairs", "mean", "sum"])
def test_gradients_of_several_positives_equal_torch(join):
    torch = pytest.importorskip("torch")
    vectors, labels = names(10, 5)
    leaf = torch.tensor(vectors, requires_grad=True)
    units = torch.nn.functional.normalize(leaf, dim=1)
    scores = units @ units.T / 0.3
    same = torch.tensor(labels[:, None] == labels[None])
    positives, negatives = same & ~torch.eye(10, dtype=torch.bool), ~same
    every = torch.logsumexp(scores.masked_fill(~(positives | negatives), -torch.inf), 1)
    far = torch.logsumexp(scores.masked_fill(~negatives, -torch.inf), 1)
    rows = positives.any(1)
    if join == "pairs":
        loss = (torch.logaddexp(far[:, None], scores) - scores)[positives].mean()
    elif join == "mean":
        loss = (every - (scores * positives).sum(1) / positives.sum(1).clamp(min=1))[rows].mean()
    else:
        loss = (
            every[rows] - torch.logsumexp(scores.masked_fill(~positives, -torch.inf)[rows], 1)
        ).mean()
    loss.backward()
    gradient, value = of_names(SoftmaxLoss(0.3, join))(vectors, labels)
    assert value == pytest.approx(loss.item())
    assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-8, atol=1e-12)
