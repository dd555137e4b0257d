"""Proxy-based loss of candidate retrieval (PEL §4.1, eq. 3; Kim et al. 2020)."""

from typing import Any, cast

from thinc.types import Floats2d

from ..util.settings import Positive, checked
from .masked import check_masks, soft_sum


@checked
class ProxyLoss:
    """Proxy-based loss over cosines s:

        1/q Σ_i [ log(1 + Σ_P exp(-α(s_ip - δ))) + log(1 + Σ_N exp(α(s_in + δ))) ]

    An entity is the proxy of its mentions. The two terms are independent: a positive pair that is
    already close does not stop the negatives from being pushed below zero. Their scores become low
    in themselves, not only lower than the positive's.

    alpha: α, the scale of both terms.
    delta: δ, the margin.
    """

    def __init__(self, alpha: Positive = 32.0, delta: float = 0.0) -> None:
        self.alpha = alpha
        self.delta = delta

    def __call__(self, scores: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        """Compute a `Loss` over cosines; the gradient is eq. 4."""
        check_masks(scores, positives, negatives)
        pull, d_pull = soft_sum(-self.alpha * (scores - self.delta), positives)
        push, d_push = soft_sum(self.alpha * (scores + self.delta), negatives)
        gradient = self.alpha / len(scores) * (d_push - d_pull)
        return cast(Floats2d, gradient.astype(scores.dtype)), float((pull + push).mean())
