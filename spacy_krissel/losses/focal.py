"""Focal loss: gives the many easy negatives of a text little weight (Lin et al. 2017; OSLAT
§3.3).
"""

from typing import Annotated, Any, cast

from pydantic import Field
from thinc.api import get_array_module
from thinc.types import Floats2d

from ..util.settings import NotNegative, checked
from .masked import check_masks


@checked
class FocalLoss:
    """Focal loss `FL = −α_t (1 − p_t)^γ log p_t`, averaged over all pairs.

    p is the logistic function of the score. p_t is p for a positive and 1 − p for a negative; α_t
    is α for a positive and 1 − α for a negative. α and γ are those of both papers.

    alpha: α.
    gamma: γ; 0 is the weighted cross-entropy.
    """

    def __init__(
        self, alpha: Annotated[float, Field(gt=0, lt=1)] = 0.25, gamma: NotNegative = 2.0
    ) -> None:
        self.alpha = alpha
        self.gamma = gamma

    def __call__(self, scores: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        """Compute a `Loss` over logits; 0 without any positive or negative."""
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
