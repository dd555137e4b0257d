"""Focal loss: the many easy negatives of a text weigh little (Lin et al. 2017; OSLAT §3.3)."""

from typing import Annotated, Any, cast

from pydantic import Field
from thinc.api import get_array_module
from thinc.types import Floats2d

from ..util.settings import NotNegative, checked
from .masked import check_masks


@checked
class FocalLoss:
    """`FL = −α_t (1 − p_t)^γ log p_t`, the mean over all pairs: p_t is p of a positive and 1 − p of a negative, p the
    logistic function of the score; α_t is α of a positive and 1 − α of a negative. α and γ as in both papers.

    alpha: α.
    gamma: γ; 0 is the weighted cross-entropy.
    """

    def __init__(self, alpha: Annotated[float, Field(gt=0, lt=1)] = 0.25, gamma: NotNegative = 2.0) -> None:
        self.alpha = alpha
        self.gamma = gamma

    def __call__(self, scores: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        """As `Loss`, of logits; 0 where no pair counts."""
        check_masks(scores, positives, negatives)
        xp: Any = get_array_module(scores)
        counted = positives | negatives
        count = xp.maximum(1, counted.sum())
        signs = xp.where(positives, 1.0, -1.0)
        log_p = -xp.logaddexp(0.0, -signs * scores)  # of the true class
        p = xp.exp(log_p)
        alphas = xp.where(positives, self.alpha, 1.0 - self.alpha) * counted
        loss = (-alphas * (1 - p) ** self.gamma * log_p).sum() / count
        # d p_t / d margin = p_t (1 − p_t).
        d_margins = alphas * (1 - p) ** self.gamma * (self.gamma * p * log_p - (1 - p))
        return cast(Floats2d, (signs * d_margins / count).astype(scores.dtype)), float(loss)
