import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses.mention_reference import MentionReferenceNCE, make_mention_reference_nce


def equation_5(mentions, references, temperature):
    """Eq. 4 and 5 of KRISSBERT, term by term: mentions 2k and 2k+1 (from 0) belong to reference k."""

    def term(mention, k):
        scores = [math.exp(np.dot(mention, reference) / temperature) for reference in references]
        return -math.log(scores[k] / sum(scores))

    n = len(references)
    return sum(term(mentions[2 * k], k) + term(mentions[2 * k + 1], k) for k in range(n)) / (2 * n)


def random_batch(n, width, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((rows, width)).astype(dtype) for rows in (2 * n, n)]


def test_batch_worked_by_hand():
    # Two entities; the mentions of the first are (1, 0), those of the second (0, 1), and the references stand the other
    # way round for the second mention's dimension: r1 = (2, 0), r2 = (0, 1); temperature 1.
    # Mentions of entity 1: scores (2, 0), each term log(1 + e^-2) = 0.126928.
    # Mentions of entity 2: scores (0, 1), each term log(1 + e^-1) = 0.313262. Mean: 0.220095.
    mentions = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float64)
    references = np.array([[2, 0], [0, 1]], dtype=np.float64)
    (d_mentions, d_references), loss = MentionReferenceNCE()(mentions, references)
    assert loss == pytest.approx(0.220095, abs=1e-6)
    # Softmax of (2, 0): (.880797, .119203). d c1 = (-.119203 r1 + .119203 r2) / 4 = (-.0596015, .0298008).
    assert_allclose(d_mentions[0], [-0.0596015, 0.0298008], atol=1e-6)
    # Softmax of (0, 1): (.268941, .731059). d r1 = (2 * -.119203 (1, 0) + 2 * .268941 (0, 1)) / 4.
    assert_allclose(d_references[0], [-0.0596015, 0.1344707], atol=1e-6)


@given(st.integers(1, 6), st.integers(1, 5), st.sampled_from([0.05, 0.5, 1.0, 3.0]), st.integers(0, 99))
def test_loss_is_equation_5(n_entities, width, temperature, seed):
    batch = random_batch(n_entities, width, seed)
    _, loss = MentionReferenceNCE(temperature=temperature)(*batch)
    assert loss == pytest.approx(equation_5(*batch, temperature), rel=1e-6, abs=1e-9)


def test_gradient_equals_that_of_torch():
    torch = pytest.importorskip("torch")
    mentions, references = random_batch(5, 7)
    ours, loss = MentionReferenceNCE(temperature=0.3)(mentions, references)
    leaves = [torch.tensor(each, requires_grad=True) for each in (mentions, references)]
    theirs = torch.nn.functional.cross_entropy(leaves[0] @ leaves[1].T / 0.3, torch.arange(10) // 2)
    theirs.backward()
    assert loss == pytest.approx(theirs.item())
    for our, leaf in zip(ours, leaves, strict=True):
        assert_allclose(our, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_gradient_equals_central_differences():
    batch = random_batch(3, 4)
    objective = MentionReferenceNCE(temperature=0.7)
    gradients, _ = objective(*batch)
    for which, gradient in enumerate(gradients):
        for place in np.ndindex(*gradient.shape):
            losses = []
            for step in (1e-5, -1e-5):
                moved = [each.copy() for each in batch]
                moved[which][place] += step
                losses.append(objective(*moved)[1])
            assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-6, abs=1e-8)


def test_low_temperature_stays_finite_and_dtype_is_kept():
    mentions, references = random_batch(4, 3, dtype=np.float32)
    before = mentions.copy(), references.copy()
    gradients, loss = MentionReferenceNCE(temperature=1e-3)(mentions * 30, references * 30)
    assert all(np.isfinite(gradient).all() and gradient.dtype == np.float32 for gradient in gradients)
    assert np.isfinite(loss) and isinstance(loss, float)
    assert (mentions == before[0]).all() and (references == before[1]).all()


def test_one_entity_alone_has_nothing_to_learn():
    gradients, loss = MentionReferenceNCE()(*random_batch(1, 3))
    assert loss == pytest.approx(0) and not any(gradient.any() for gradient in gradients)


@pytest.mark.parametrize("n_mentions, n_references", [(0, 0), (2, 2), (3, 1), (4, 1)])
def test_other_numbers_are_refused(n_mentions, n_references):
    with pytest.raises(KrisselError, match=f"K612.* got {n_mentions} mentions and {n_references} references"):
        MentionReferenceNCE()(np.ones((n_mentions, 2)), np.ones((n_references, 2)))


@pytest.mark.parametrize("temperature", [0, -1, float("nan")])
def test_temperature_must_be_above_zero(temperature):
    with pytest.raises(KrisselError, match="K006.*temperature"):
        make_mention_reference_nce(temperature)
    assert make_mention_reference_nce(0.5).temperature == 0.5
