"""Common parts of losses over scores and masks: types, a shape check, and masked sums."""

from collections.abc import Callable
from typing import Any

import numpy
from thinc.api import get_array_module
from thinc.types import Floats2d

from ..errors import Errors, KrisselError

# Scores (q, k), positives and negatives (q, k) bool, to the gradient of the scores (q, k) and the
# loss. Raises KrisselError K601 if the shapes do not match.
Loss = Callable[[Floats2d, Any, Any], tuple[Floats2d, float]]
# Scores, positives and negatives to the positives and negatives to keep.
Miner = Callable[[Floats2d, Any, Any], tuple[Any, Any]]


def check_masks(scores: Floats2d, positives: Any, negatives: Any) -> None:
    """Raise KrisselError K601 unless all three are (q, k) with q ≥ 1.

    On a CPU also raise it for a pair that is both positive and negative. On a GPU the host would
    wait for the answer at each step.
    """
    shapes = [tuple(each.shape) for each in (scores, positives, negatives)]
    if len(shapes[0]) != 2 or not shapes[0][0] or len(set(shapes)) > 1:
        found = (
            f"scores of shape {shapes[0]}, positives of {shapes[1]} and negatives of {shapes[2]}"
        )
        raise KrisselError(Errors.K601.format(found=found))
    if isinstance(positives, numpy.ndarray) and (positives & negatives).any():
        raise KrisselError(Errors.K601.format(found="pairs that are both positive and negative"))


def log_sum_exp(values: Floats2d, mask: Any) -> tuple[Any, Any]:
    """Return `log Σ exp(values)` of each row over the mask: (q,), -inf for an empty mask.

    RETURNS: the logarithms, and their derivatives (q, k), the fraction of each value in its row's
        sum.
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


def softplus(values: Any) -> tuple[Any, Any]:
    """Return `log(1 + exp(values))`, and its derivative, the sigmoid; both are 0 for -inf."""
    xp: Any = get_array_module(values)
    soft = xp.logaddexp(xp.zeros_like(values), values)
    return soft, xp.exp(values - soft)


def soft_sum(values: Floats2d, mask: Any) -> tuple[Any, Any]:
    """Return `log(1 + Σ exp(values))` of each row over the mask (q,), and its derivative (q, k)."""
    logs, fractions = log_sum_exp(values, mask)
    soft, d_soft = softplus(logs)
    return soft, d_soft[:, None] * fractions
