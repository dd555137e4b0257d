"""The proxy-based loss of candidate retrieval (PEL §4.1, eq. 3)."""

from typing import Any, Tuple, cast

from thinc.types import Floats2d, Ints1d

from .candidates import gold_scores
from .pairs import finite_setting, log_sum_exp, positive_setting, softplus


class ProxyLoss:
    """`L(m) = log(1 + exp(-α(s(m,e⁺) - δ))) + log(1 + Σ_e⁻ exp(α(s(m,e⁻) + δ)))`, the mean over the mentions.

    An entity is the proxy of its mentions. The two terms know nothing of each other, so that a positive pair that is
    close already does not stop the negatives from being pushed below zero: their scores become low as such, and not
    only lower than the positive's. Scores are cosines, which takes an encoder of unit vectors.

    alpha: α, how strongly pairs are pulled and pushed.
    delta: δ, the margin.
    """

    def __init__(self, *, alpha: float = 32.0, delta: float = 0.0) -> None:
        self.alpha = positive_setting("alpha", alpha)
        self.delta = finite_setting("delta", delta)

    def __call__(self, scores: Floats2d, gold: Ints1d, negatives: Any) -> Tuple[Floats2d, float]:
        """scores, gold, negatives: see `gold_scores`. RETURNS: the gradient of the scores (q, n) (eq. 4), and the loss.

        Raises KrisselError K635.
        """
        rows, positive = gold_scores(scores, gold, negatives)
        pull, d_pull = softplus(-self.alpha * (positive - self.delta))
        logs, shares = log_sum_exp(self.alpha * (scores + self.delta), negatives)
        push, d_push = softplus(logs)
        gradient = d_push[:, None] * shares
        gradient[rows, gold] = -d_pull
        gradient *= self.alpha / len(rows)
        return cast(Floats2d, gradient.astype(scores.dtype)), float((pull + push).mean())


def make_proxy_loss(alpha: float = 32.0, delta: float = 0.0) -> ProxyLoss:
    """Registered in losses as `spacy-krissel.ProxyLoss.v1`; see `ProxyLoss`."""
    return ProxyLoss(alpha=alpha, delta=delta)
