import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses.info_nce import InfoNCE, make_info_nce


def equation_2(vectors, temperature):
    """Eq. 1 and 2 of KRISSBERT, term by term."""
    n = len(vectors)

    def term(i, j):
        scores = [math.exp(np.dot(vectors[i], vectors[k]) / temperature) for k in range(n) if k != i]
        return -math.log(math.exp(np.dot(vectors[i], vectors[j]) / temperature) / sum(scores))

    return sum(term(k, k + 1) + term(k + 1, k) for k in range(0, n, 2)) / n


def random_vectors(n, width, seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal((n, width)).astype(dtype)


def test_batch_worked_by_hand():
    # c1 = c2 = (1, 0) of one entity, c3 = c4 = (0, 1) of another; temperature 1.
    # Every row has one positive with score 1 and two negatives with score 0, so
    # each term is -log(e / (e + 1 + 1)) = log(1 + 2 / e) = log(1.735759) = 0.551445, and so is their mean.
    vectors = np.array([[1, 0], [1, 0], [0, 1], [0, 1]], dtype=np.float64)
    gradient, loss = InfoNCE()(vectors)
    assert loss == pytest.approx(0.551445, abs=1e-6)
    # d loss / d c1: its own row's softmax is (e, 1, 1) / (e + 2) = (.576117, .211942, .211942) over c2, c3, c4, less
    # the positive: -.423883 c2 + .211942 (c3 + c4); c1 stands in the other rows with the same weights, so twice that,
    # over 2N = 4: (-.423883 * 2 / 4, .423883 * 2 / 4).
    assert_allclose(gradient[0], [-0.211942, 0.211942], atol=1e-6)
    assert_allclose(gradient[3], [0.211942, -0.211942], atol=1e-6)


@given(st.integers(1, 6), st.integers(1, 5), st.sampled_from([0.05, 0.5, 1.0, 3.0]), st.integers(0, 99))
def test_loss_is_equation_2(n_entities, width, temperature, seed):
    vectors = random_vectors(2 * n_entities, width, seed)
    assert InfoNCE(temperature=temperature)(vectors)[1] == pytest.approx(equation_2(vectors, temperature), rel=1e-9)


def test_gradient_equals_that_of_torch():
    torch = pytest.importorskip("torch")
    vectors = random_vectors(10, 7)
    ours, loss = InfoNCE(temperature=0.3)(vectors)
    leaf = torch.tensor(vectors, requires_grad=True)
    scores = (leaf @ leaf.T / 0.3).masked_fill(torch.eye(10, dtype=torch.bool), -torch.inf)
    theirs = torch.nn.functional.cross_entropy(scores, torch.arange(10) ^ 1)
    theirs.backward()
    assert loss == pytest.approx(theirs.item())
    assert_allclose(ours, leaf.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_gradient_equals_central_differences():
    vectors = random_vectors(6, 3)
    objective = InfoNCE(temperature=0.7)
    numeric = np.zeros_like(vectors)
    for place in np.ndindex(*vectors.shape):
        step = np.zeros_like(vectors)
        step[place] = 1e-5
        numeric[place] = (objective(vectors + step)[1] - objective(vectors - step)[1]) / 2e-5
    assert_allclose(objective(vectors)[0], numeric, rtol=1e-6, atol=1e-8)


def test_pairs_are_adjacent_rows():
    close = np.array([[1, 0], [0.9, 0.1], [0, 1], [0.1, 0.9]])
    assert InfoNCE()(close)[1] < InfoNCE()(close[[0, 2, 1, 3]])[1]


def test_low_temperature_stays_finite():
    gradient, loss = InfoNCE(temperature=1e-3)(random_vectors(8, 4, dtype=np.float32) * 30)
    assert np.isfinite(gradient).all() and np.isfinite(loss)


def test_input_is_not_changed_and_dtype_is_kept():
    vectors = random_vectors(4, 3, dtype=np.float32)
    before = vectors.copy()
    gradient, loss = InfoNCE()(vectors)
    assert (vectors == before).all()
    assert gradient.dtype == np.float32 and gradient.shape == vectors.shape and isinstance(loss, float)


def test_one_entity_alone_has_nothing_to_learn():
    gradient, loss = InfoNCE()(random_vectors(2, 3))
    assert loss == pytest.approx(0) and not gradient.any()


@pytest.mark.parametrize("n", [0, 1, 3])
def test_odd_and_empty_batches_are_refused(n):
    with pytest.raises(KrisselError, match=f"K601.* got {n} vectors"):
        InfoNCE()(random_vectors(n, 3))


@pytest.mark.parametrize("temperature", [0, -1, float("nan")])
def test_temperature_must_be_above_zero(temperature):
    with pytest.raises(KrisselError, match="K006.*temperature"):
        make_info_nce(temperature)
    assert make_info_nce(0.5).temperature == 0.5
