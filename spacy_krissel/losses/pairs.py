"""The pairs that a metric-learning loss runs over, and the way from names to cosines and back."""

from typing import Any, Callable, NamedTuple, Optional, Tuple, cast

from thinc.api import get_array_module
from thinc.types import Floats2d, Ints1d

from ..errors import Errors, KrisselError


class Pairs(NamedTuple):
    """Ordered pairs of a batch of n names; row i has those of anchor i.

    positives: (n, n) bool, two names of one entity.
    negatives: (n, n) bool, names of two entities.
    """

    positives: Any
    negatives: Any


# Cosines (n, n) and the pairs of a batch to the pairs that count.
Miner = Callable[[Floats2d, Pairs], Pairs]
# Cosines (n, n) and the pairs that count to the gradient of the cosines (n, n) and the loss.
PairFunction = Callable[[Floats2d, Pairs], Tuple[Floats2d, float]]


def all_pairs(labels: Any) -> Pairs:
    """Every pair of different names: positive where the labels (n,) are the same, else negative."""
    xp: Any = get_array_module(labels)
    same = labels[:, None] == labels[None]
    return Pairs(same & ~xp.eye(len(labels), dtype=bool), ~same)


class PairLoss:
    """A loss over the cosines of labelled names: `function` over all pairs, or over those that `miner` picks.

    Vectors of any length are taken by their direction. Two names with one label are a positive pair, however many
    names the label has; no pair of them is ever a negative one.
    """

    def __init__(self, function: PairFunction, miner: Optional[Miner] = None) -> None:
        self.function = function
        self.miner = miner

    def __call__(self, vectors: Floats2d, labels: Ints1d) -> Tuple[Floats2d, float]:
        """vectors: (n, d), n ≥ 1; labels: (n,), the entity of each. RETURNS: the gradient (n, d), and the loss.

        Raises KrisselError K631 when there is not one label for each vector.
        """
        if not len(vectors) or len(vectors) != len(labels):
            raise KrisselError(Errors.K631.format(vectors=len(vectors), labels=len(labels)))
        xp: Any = get_array_module(vectors)
        norms = xp.linalg.norm(vectors, axis=1, keepdims=True)  # (n, 1)
        # A vector of zeros has no direction, and gets no gradient.
        scale = xp.where(norms > 0, 1 / xp.maximum(norms, 1e-30), 0).astype(vectors.dtype)
        units = vectors * scale
        cosines = units @ units.T
        pairs = all_pairs(xp.asarray(labels))
        if self.miner is not None:
            pairs = self.miner(cosines, pairs)
        d_cosines, loss = self.function(cosines, pairs)
        # Each vector stands on the left of its own row of cosines and on the right of all others.
        d_units = (d_cosines + d_cosines.T) @ units
        # The part along a unit vector would change the length alone.
        gradient = (d_units - units * (units * d_units).sum(axis=1, keepdims=True)) * scale
        return cast(Floats2d, gradient.astype(vectors.dtype)), loss


def distances(cosines: Floats2d) -> Floats2d:
    """`|u - v|` of unit vectors from their cosines (n, n)."""
    xp: Any = get_array_module(cosines)
    return xp.sqrt(xp.maximum(2 - 2 * cosines, 0))


def through_distances(d_distances: Floats2d, found: Floats2d) -> Floats2d:
    """The gradient of the cosines from that of the `distances` that were found; none where two names coincide."""
    xp: Any = get_array_module(found)
    return xp.where(found > 0, -d_distances / xp.maximum(found, 1e-30), 0)


def log_sum_exp(values: Floats2d, mask: Any) -> Tuple[Any, Any]:
    """`log Σ exp(values)` of each row over what the mask leaves: (n,), -inf in a row where that is nothing.

    RETURNS: the logarithms, and their derivatives (n, n), the share of each value in its row's sum.
    """
    xp: Any = get_array_module(values)
    left = xp.where(mask, values, -xp.inf)
    highest = left.max(axis=1, keepdims=True)
    highest = xp.where(xp.isfinite(highest), highest, 0)
    exponents = xp.exp(left - highest)
    sums = exponents.sum(axis=1, keepdims=True)
    empty = sums == 0
    logs = xp.where(empty, -xp.inf, xp.log(xp.where(empty, 1, sums)) + highest)
    return logs[:, 0], exponents / xp.where(empty, 1, sums)


def softplus(values: Any) -> Tuple[Any, Any]:
    """`log(1 + exp(values))`, and its derivative, the sigmoid; of -inf both are 0."""
    xp: Any = get_array_module(values)
    soft = xp.logaddexp(xp.zeros_like(values), values)
    return soft, xp.exp(values - soft)


def positive_setting(name: str, value: float) -> float:
    """Raises KrisselError K006 unless the setting is a finite number above 0."""
    if not 0 < value < float("inf"):
        raise KrisselError(Errors.K006.format(setting=name, found=value, expected="a number above 0"))
    return value


def finite_setting(name: str, value: float) -> float:
    """Raises KrisselError K006 unless the setting is a finite number."""
    if not abs(value) < float("inf"):
        raise KrisselError(Errors.K006.format(setting=name, found=value, expected="a finite number"))
    return value
