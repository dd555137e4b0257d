"""The losses of SapBERT's Table 6 are their equations."""

import math
import pickle

import numpy as np
import pytest
from lab.losses import (
    NCA,
    Circle,
    CosinePairs,
    LiftedStructure,
    MaxMarginTriplet,
    through_distances,
)
from numpy.testing import assert_allclose
from pair_losses import (
    PROPERTIES,
    THREE,
    assert_gradient_equals_central_differences,
    assert_restated,
    names,
    of_names,
)
from spacy import registry

from spacy_krissel.errors import KrisselError
from spacy_krissel.losses.hard_pairs import HardPairMiner
from spacy_krissel.training.scores import label_pairs

LOSSES = (Circle, CosinePairs, LiftedStructure, MaxMarginTriplet, NCA)


def circle(units, positives, negatives, margin, scale):
    total = 0.0
    for i in range(len(units)):
        far = near = 0.0
        for k in negatives[i]:
            cosine = units[i] @ units[k]
            far += math.exp(scale * max(0, cosine + margin) * (cosine - margin))
        for p in positives[i]:
            cosine = units[i] @ units[p]
            near += math.exp(-scale * max(0, 1 + margin - cosine) * (cosine - (1 - margin)))
        total += math.log1p(far * near)
    return total / len(units)


def cosine_pairs(units, positives, negatives, margin=0.0):
    cosines = units @ units.T
    near = [1 - cosines[i, p] for i in range(len(units)) for p in positives[i]]
    far = [max(0, cosines[i, k] - margin) for i in range(len(units)) for k in negatives[i]]
    return sum(near) / max(1, len(near)) + sum(far) / max(1, len(far))


def lifted_structure(units, positives, negatives, margin=0.5):
    terms = []
    for i in range(len(units)):
        for j in positives[i]:
            far = sum(math.exp(margin - math.dist(units[i], units[k])) for k in negatives[i])
            far += sum(math.exp(margin - math.dist(units[j], units[k])) for k in negatives[j])
            both = math.log(far) + math.dist(units[i], units[j]) if far else -math.inf
            terms.append(max(0.0, both) ** 2)
    return sum(terms) / (2 * max(1, len(terms)))


def max_margin_triplet(units, positives, negatives, margin=0.2):
    terms = [
        math.dist(units[a], units[p]) - math.dist(units[a], units[k]) + margin
        for a in range(len(units))
        for p in positives[a]
        for k in negatives[a]
    ]
    active = [term for term in terms if term > 0]
    return sum(active) / max(1, len(active))


def nca(units, positives, negatives, scale=20.0):
    total = 0.0
    for i in range(len(units)):
        if positives[i]:
            near, every = (
                sum(math.exp(-scale * math.dist(units[i], units[k]) ** 2) for k in group)
                for group in (positives[i], positives[i] + negatives[i])
            )
            total -= math.log(near / every)
    return total / len(units)


@pytest.mark.parametrize(
    "make, equation, settings",
    [
        # At the paper's γ of 256 the restatement's exponents overflow.
        (Circle, circle, {"margin": 0.25, "scale": 80.0}),
        (Circle, circle, {"margin": 0.4, "scale": 3.0}),
        (CosinePairs, cosine_pairs, {}),
        (CosinePairs, cosine_pairs, {"margin": 0.3}),
        (LiftedStructure, lifted_structure, {}),
        (LiftedStructure, lifted_structure, {"margin": 1.0}),
        (MaxMarginTriplet, max_margin_triplet, {}),
        (MaxMarginTriplet, max_margin_triplet, {"margin": 1.0}),
        (NCA, nca, {}),
        (NCA, nca, {"scale": 1.0}),
    ],
)
def test_each_loss_equals_its_equation(make, equation, settings):
    assert_restated(make(**settings), lambda *batch: equation(*batch, **settings))


@pytest.mark.parametrize(
    "loss, expected",
    [
        # m = .25, γ = 4. Positive: a = .75, exponent -4 * .75 * (.5 - .75) = .75. Negatives: a =
        # .25, 4 * .25 * (-.25) = -.25; and a = 1.116025, 4 * 1.116025 * .616025 = 2.75. log(1 +
        # e^.5) = .974077, log(1 + e^3.5) = 3.529750, nothing at the third: 4.503827 / 3 = 1.501276.
        (Circle(0.25, 4.0), 1.501276),
        # .5 + .866025 / 2; a margin of 1 leaves the negatives out.
        (CosinePairs(), 0.933013),
        (CosinePairs(0.6), 0.633013),
        (CosinePairs(1.0), 0.5),
        # α = 1. 0° and 60°, 1 apart, with 90° of another entity 1.414214 and .517638 away:
        # J = log(e^-.414214 + e^.482362) + 1 = log(.660859 + 1.619895) + 1 = 1.824506, for either
        # order of the pair. The sum over two ordered pairs by twice their number: 1.824506² / 2 =
        # 1.664411.
        (LiftedStructure(1.0), 1.664411),
        # α = 0.2. (0°, 60°, 90°): 1 - 1.414214 + .2 < 0. (60°, 0°, 90°): 1 - .517638 + .2 =
        # .682362, the only one.
        (MaxMarginTriplet(), 0.682362),
        # α = 0.5, both: (.085786 + .982362) / 2.
        (MaxMarginTriplet(0.5), 0.534074),
        # Squared distances: 0°-60° 1, 0°-90° 2, 60°-90° .267949; scale 1. log(1 + e^(1 - 2)) =
        # .313262, log(1 + e^(1 - .267949)) = 1.124715; the third name has no positive. Over the
        # three names: 1.437977 / 3 = .479326.
        (NCA(1.0), 0.479326),
    ],
)
def test_losses_agree_with_hand_computed_values(loss, expected):
    assert of_names(loss)(*THREE)[1] == pytest.approx(expected, abs=5e-6)


@pytest.mark.parametrize("make", [make for make in LOSSES if make is not Circle])
def test_gradient_equals_central_differences(make):
    """The circle loss has weights that count as constants; it is compared with autograd below."""
    assert_gradient_equals_central_differences(make())


@pytest.mark.parametrize("property", PROPERTIES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("make", LOSSES)
def test_losses_over_labelled_names_have_the_shared_properties(make, property):
    property(make())


@pytest.mark.parametrize("scale", [4.0, 256.0])
@pytest.mark.parametrize("miner", [None, HardPairMiner()])
def test_circle_loss_gradient_equals_torch_with_constant_weights(scale, miner):
    torch = pytest.importorskip("torch")
    vectors, labels = names(10, 5)
    leaf = torch.tensor(vectors, requires_grad=True)
    units = torch.nn.functional.normalize(leaf, dim=1)
    cosines = units @ units.T
    pairs = label_pairs(labels)
    if miner is not None:
        pairs = miner(cosines.detach().numpy(), *pairs)
    positives, negatives = map(torch.tensor, pairs)
    held = cosines.detach()
    far = scale * (held + 0.25).clamp(min=0) * (cosines - 0.25)
    near = -scale * (1.25 - held).clamp(min=0) * (cosines - 0.75)
    loss = torch.tensor(0.0)
    for i in range(10):
        if positives[i].any() and negatives[i].any():
            sums = torch.logsumexp(far[i][negatives[i]], 0) + torch.logsumexp(
                near[i][positives[i]], 0
            )
            loss = loss + torch.nn.functional.softplus(sums, threshold=1e9) / 10
    loss.backward()
    gradient, value = of_names(Circle(0.25, scale), miner)(vectors, labels)
    assert value == pytest.approx(loss.item())
    assert_allclose(gradient, leaf.grad.numpy(), rtol=1e-8, atol=1e-10)


def test_triplets_beyond_the_margin_have_no_gradient():
    vectors = np.array([[1, 0], [1, 0.01], [-1, 0], [-1, 0.01]])
    gradient, loss = of_names(MaxMarginTriplet())(vectors, np.array([0, 0, 1, 1]))
    assert loss == 0 and not gradient.any()


def test_large_scales_do_not_overflow():
    vectors = np.array([[1, 0], [1, 0.01], [1, -0.01], [-1, 0.1]], dtype=np.float32)
    for loss in (NCA(scale=500), Circle(scale=1000)):
        with np.errstate(all="raise", under="ignore"):
            gradient, value = of_names(loss)(vectors, np.array([0, 1, 1, 0]))
        assert np.isfinite(gradient).all() and np.isfinite(value)


def test_gradients_through_distances_are_zero_at_distance_zero():
    assert_allclose(through_distances(np.ones((1, 3)), np.array([[0, 0.5, 2]])), [[0, -2, -0.5]])


@pytest.mark.parametrize("make", LOSSES)
def test_losses_are_registered_and_can_be_pickled(make):
    assert registry.losses.get(f"spacy-krissel.{make.__name__}.v1") is make
    vectors, labels = names()
    again = pickle.loads(pickle.dumps(make()))
    assert of_names(again)(vectors, labels)[1] == of_names(make())(vectors, labels)[1]


@pytest.mark.parametrize(
    "make, setting, value",
    [
        (MaxMarginTriplet, "margin", 0),
        (NCA, "scale", float("inf")),
        (LiftedStructure, "margin", float("nan")),
        (Circle, "margin", 0),
        (CosinePairs, "margin", 1.5),
    ],
)
def test_invalid_settings_raise(make, setting, value):
    with pytest.raises(KrisselError, match=f"K006.*'{setting}'"):
        make(**{setting: value})
