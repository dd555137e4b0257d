"""Common tests of all losses: protocol, shapes, settings and gradients."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from pair_losses import PROPERTIES, assert_gradient_equals_central_differences, names, of_names

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses.focal import FocalLoss
from spacy_krissel.losses.hard_pairs import HardPairMiner
from spacy_krissel.losses.masked import log_sum_exp, softplus
from spacy_krissel.losses.multi_similarity import MultiSimilarity
from spacy_krissel.losses.proxy import ProxyLoss
from spacy_krissel.losses.softmax import SoftmaxLoss

LOSSES = {
    "softmax over pairs": SoftmaxLoss(temperature=0.2),
    "softmax, mean": SoftmaxLoss(temperature=0.2, positives="mean"),
    "softmax, sum": SoftmaxLoss(temperature=0.2, positives="sum"),
    "multi-similarity": MultiSimilarity(),
    "proxy": ProxyLoss(alpha=3.0, delta=0.1),
    "focal": FocalLoss(),
    "focal without focus": FocalLoss(alpha=0.5, gamma=0.0),
}


def batch(q, k, seed=0):
    """Scores, positives and negatives; some rows have no positive, some no negative, some keys are
    neither."""
    random = np.random.default_rng(seed)
    positives = random.random((q, k)) < 0.3
    return random.uniform(-1, 1, (q, k)), positives, (random.random((q, k)) < 0.7) & ~positives


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 99), st.sampled_from(sorted(LOSSES)))
def test_gradient_equals_central_differences(q, k, seed, name):
    scores, positives, negatives = batch(q, k, seed)
    gradient, _ = LOSSES[name](scores, positives, negatives)
    for place in np.ndindex(*scores.shape):
        step = np.zeros_like(scores)
        step[place] = 1e-6
        high, low = (LOSSES[name](scores + each, positives, negatives)[1] for each in (step, -step))
        assert gradient[place] == pytest.approx((high - low) / 2e-6, rel=1e-4, abs=1e-7)


def test_keys_in_neither_mask_are_ignored(loss):
    scores, positives, negatives = batch(4, 6)
    neither = ~(positives | negatives)
    assert neither.any()
    gradient, value = loss(scores, positives, negatives)
    assert not gradient[neither].any()
    assert loss(np.where(neither, 9.0, scores), positives, negatives)[1] == value


@pytest.mark.parametrize("property", PROPERTIES, ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    "name", [name for name in LOSSES if not name.startswith(("proxy", "focal"))]
)
def test_losses_over_labelled_names_have_the_shared_properties(name, property):
    """Proxy and focal loss learn from negatives alone too, and the other cases hold for any."""
    property(LOSSES[name])


def test_gradient_of_names_equals_central_differences(loss):
    assert_gradient_equals_central_differences(loss)


def test_large_scores_do_not_overflow_or_change_dtype_or_input(loss):
    scores = np.array([[300.0, -300.0], [-300.0, 300.0]], dtype="float32")
    positives = np.array([[True, False], [True, False]])
    before = scores.copy()
    gradient, value = loss(scores, positives, ~positives)
    assert np.isfinite(value) and isinstance(value, float)
    assert (
        np.isfinite(gradient).all()
        and gradient.dtype == np.float32
        and gradient.shape == scores.shape
    )
    assert_array_equal(scores, before)


def test_large_scales_do_not_overflow():
    vectors = np.array([[1, 0], [1, 0.01], [1, -0.01], [-1, 0.1]], dtype=np.float32)
    for sharp in (
        MultiSimilarity(alpha=500, beta=500),
        SoftmaxLoss(temperature=1e-3),
        ProxyLoss(alpha=500),
    ):
        with np.errstate(all="raise", under="ignore"):
            gradient, value = of_names(sharp)(vectors, np.array([0, 1, 1, 0]))
        assert np.isfinite(gradient).all() and np.isfinite(value)


def test_invalid_shapes_and_masks_raise(loss):
    scores, positives, negatives = batch(3, 4)
    for wrong in (
        (scores, positives[:2], negatives),
        (scores, positives, negatives[:, :3]),
        (scores[0], positives[0], negatives[0]),
        (scores[:0], positives[:0], negatives[:0]),
    ):
        with pytest.raises(KrisselError, match="K601.* scores of shape"):
            loss(*wrong)
    with pytest.raises(KrisselError, match="K601.*both positive and negative"):
        loss(scores, positives | True, negatives)


@pytest.mark.parametrize(
    "make, setting, value",
    [
        (SoftmaxLoss, "temperature", 0),
        (MultiSimilarity, "alpha", 0),
        (ProxyLoss, "alpha", 0),
        (FocalLoss, "alpha", 1.0),
        (HardPairMiner, "margin", float("nan")),
    ],
)
def test_invalid_settings_raise(make, setting, value):
    with pytest.raises(KrisselError, match=f"K006.*'{setting}'"):
        make(**{setting: value})


def test_losses_can_be_pickled(loss):
    vectors, labels = names()
    assert (
        of_names(pickle.loads(pickle.dumps(loss)))(vectors, labels)[1]
        == of_names(loss)(vectors, labels)[1]
    )


@given(st.lists(st.tuples(st.floats(-500, 500), st.booleans()), min_size=1, max_size=6))
def test_log_sum_exp_equals_numpy_and_its_fractions_sum_to_one(row):
    values, mask = np.array([[value for value, _ in row]]), np.array([[kept for _, kept in row]])
    (log,), fractions = log_sum_exp(values, mask)
    assert log == pytest.approx(np.logaddexp.reduce(values[mask], initial=-np.inf))
    assert (fractions[~mask] == 0).all() and fractions.sum() == pytest.approx(int(mask.any()))


def test_softplus_is_stable_for_large_and_infinite_inputs():
    soft, slope = softplus(np.array([-np.inf, 0, 1000]))
    assert_allclose(soft, [0, np.log(2), 1000])
    assert_allclose(slope, [0, 0.5, 1])
