"""What all losses over labelled pairs have in common."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses import circle, cosine_pairs, lifted_structure, multi_similarity, nca, pair_nce, triplet
from spacy_krissel.losses.hard_pairs import HardPairMiner
from spacy_krissel.losses.pairs import Pairs, all_pairs, distances, log_sum_exp, softplus, through_distances

MAKERS = {
    "circle": circle.make_circle,
    "cosine": cosine_pairs.make_cosine_pairs,
    "lifted structure": lifted_structure.make_lifted_structure,
    "multi-similarity": multi_similarity.make_multi_similarity,
    "nca": nca.make_nca,
    "pair nce": pair_nce.make_pair_nce,
    "triplet": triplet.make_max_margin_triplet,
}
# The circle loss has weights that count as constants; its own tests compare it with autograd.
SMOOTH = sorted(set(MAKERS) - {"circle"})


def central_differences(loss, vectors, labels, size=1e-6):
    numeric = np.zeros_like(vectors)
    for place in np.ndindex(*vectors.shape):
        step = np.zeros_like(vectors)
        step[place] = size
        numeric[place] = (loss(vectors + step, labels)[1] - loss(vectors - step, labels)[1]) / (2 * size)
    return numeric


@pytest.fixture(params=sorted(MAKERS))
def make(request):
    return MAKERS[request.param]


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("miner", [None, HardPairMiner()])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_gradient_equals_central_differences(names, name, miner, seed):
    vectors, labels = names(10, 4, seed)
    loss = MAKERS[name](miner=miner)
    gradient, value = loss(vectors, labels)
    assert value > 0 and np.abs(gradient).max() > 1e-3
    assert_allclose(gradient, central_differences(loss, vectors, labels), rtol=1e-5, atol=1e-7)


def test_only_directions_count(names, make):
    vectors, labels = names(10, 4)
    gradient, loss = make()(vectors, labels)
    scaled_gradient, scaled_loss = make()(vectors * 3, labels)
    assert scaled_loss == pytest.approx(loss)
    assert_allclose(scaled_gradient, gradient / 3, atol=1e-12)
    assert_allclose((gradient * vectors).sum(axis=1), 0, atol=1e-12)


def test_order_and_numbering_of_the_entities_do_not_count(names, make):
    vectors, labels = names(10, 4)
    order = np.random.default_rng(0).permutation(10)
    gradient, loss = make()(vectors, labels)
    other_gradient, other_loss = make()(vectors[order], 7 - labels[order])
    assert other_loss == pytest.approx(loss)
    assert_allclose(other_gradient, gradient[order], atol=1e-12)


def test_names_of_one_entity_are_never_negatives(make):
    """Three names of one entity, far apart: whoever took the third for a negative would push it away."""
    vectors = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [-1, -1, -1]])
    gradient, _ = make()(vectors, np.array([0, 0, 0, 1]))
    for i in range(3):
        # Down the gradient, each comes nearer to the other two.
        others = vectors[[j for j in range(3) if j != i]]
        assert (others @ -gradient[i] >= -1e-12).all()


def test_stays_finite_and_keeps_dtype_and_input(names, make):
    vectors, labels = names(10, 4, dtype=np.float32)
    vectors[2] = vectors[0]  # two names with the very same vector,
    vectors[3] = vectors[1]  # of one entity and of two
    vectors[4] = 0
    before = vectors.copy()
    for miner in (None, HardPairMiner()):
        with np.errstate(all="raise", under="ignore"):
            gradient, loss = make(miner=miner)(vectors, labels)
        assert np.isfinite(gradient).all() and gradient.dtype == np.float32 and gradient.shape == vectors.shape
        assert np.isfinite(loss) and isinstance(loss, float)
    assert_array_equal(vectors, before)
    assert not gradient[4].any()


def test_nothing_to_tell_apart(names, make):
    vectors, _ = names(4)
    # No positive pair, and nothing to mine.
    gradient, loss = make(miner=HardPairMiner())(vectors, np.arange(4))
    assert loss == 0 and not gradient.any()
    gradient, loss = make(miner=HardPairMiner())(vectors, np.zeros(4, dtype=int))
    assert loss == 0 and not gradient.any()
    gradient, loss = make()(vectors[:1], np.zeros(1, dtype=int))
    assert loss == 0 and not gradient.any()


@pytest.mark.parametrize("n, n_labels", [(0, 0), (2, 3), (3, 0)])
def test_one_label_a_vector(make, n, n_labels):
    with pytest.raises(KrisselError, match=f"K631.* {n} vectors and {n_labels} labels"):
        make()(np.ones((n, 2)), np.zeros(n_labels, dtype=int))


def test_can_be_sent_to_another_process(names, make):
    vectors, labels = names()
    loss = make(miner=HardPairMiner())
    assert pickle.loads(pickle.dumps(loss))(vectors, labels)[1] == loss(vectors, labels)[1]


@pytest.mark.parametrize(
    "make, setting, value",
    [
        (multi_similarity.make_multi_similarity, "alpha", 0),
        (multi_similarity.make_multi_similarity, "beta", -1),
        (multi_similarity.make_multi_similarity, "epsilon", float("nan")),
        (multi_similarity.make_multi_similarity, "alpha_goes_with", "both"),
        (pair_nce.make_pair_nce, "temperature", 0),
        (triplet.make_max_margin_triplet, "margin", 0),
        (nca.make_nca, "scale", float("inf")),
        (lifted_structure.make_lifted_structure, "margin", float("nan")),
        (circle.make_circle, "margin", 0),
        (circle.make_circle, "scale", -80),
        (cosine_pairs.make_cosine_pairs, "margin", 1.5),
        (HardPairMiner, "margin", float("nan")),
    ],
)
def test_settings_are_checked(make, setting, value):
    with pytest.raises(KrisselError, match=f"K006.*'{setting}'"):
        make(**{setting: value})


def test_a_batch_can_overflow_no_exponent():
    """Scales far above the paper's, in single precision."""
    vectors = np.array([[1, 0], [1, 0.01], [1, -0.01], [-1, 0.1]], dtype=np.float32)
    labels = np.array([0, 1, 1, 0])
    for loss in (
        multi_similarity.make_multi_similarity(alpha=500, beta=500),
        pair_nce.make_pair_nce(temperature=1e-3),
        nca.make_nca(scale=500),
        circle.make_circle(scale=1000),
    ):
        with np.errstate(all="raise", under="ignore"):
            gradient, value = loss(vectors, labels)
        assert np.isfinite(gradient).all() and np.isfinite(value)


def test_all_pairs():
    pairs = all_pairs(np.array([4, 7, 4]))
    assert_array_equal(pairs.positives, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    assert_array_equal(pairs.negatives, [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


def test_distances():
    assert_allclose(distances(np.array([[1, 0], [-1, 0.5]])), [[0, np.sqrt(2)], [2, 1]])
    # Rounding can leave a cosine above 1.
    assert distances(np.array([[1 + 1e-9]])) == 0
    assert_allclose(through_distances(np.ones((1, 3)), np.array([[0, 0.5, 2]])), [[0, -2, -0.5]])


@given(st.lists(st.tuples(st.floats(-500, 500), st.booleans()), min_size=1, max_size=6))
def test_log_sum_exp(row):
    values, mask = np.array([[value for value, _ in row]]), np.array([[kept for _, kept in row]])
    (log,), shares = log_sum_exp(values, mask)
    assert log == pytest.approx(np.logaddexp.reduce(values[mask], initial=-np.inf))
    assert (shares[~mask] == 0).all() and shares.sum() == pytest.approx(int(mask.any()))


def test_softplus():
    soft, slope = softplus(np.array([-np.inf, 0, 1000]))
    assert_allclose(soft, [0, np.log(2), 1000])
    assert_allclose(slope, [0, 0.5, 1])


def test_a_function_sees_the_pairs_that_the_miner_picked(names):
    seen = []

    def function(cosines, pairs):
        seen.append(pairs)
        return cosines * 0, 0.0

    from spacy_krissel.losses.pairs import PairLoss

    vectors, labels = names()
    picked = Pairs(np.eye(6, dtype=bool), np.eye(6, dtype=bool))
    PairLoss(function, lambda cosines, pairs: picked)(vectors, labels)
    PairLoss(function)(vectors, labels)
    assert seen[0] is picked
    assert_array_equal(seen[1].positives, all_pairs(labels).positives)
