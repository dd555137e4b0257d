"""Focal loss: the many easy negatives of a text weigh little (Lin et al. 2017, as in OSLAT §3.3)."""

from typing import Any, Tuple, cast

from thinc.api import get_array_module
from thinc.types import Floats1d

from ..errors import Errors, KrisselError


class FocalLoss:
    """`FL = −α_t (1 − p_t)^γ log p_t`, the mean over all logits: p_t is p of a positive and 1 − p of a negative, p the
    logistic function of the logit; α_t is α of a positive and 1 − α of a negative.

    alpha, gamma: 0.25 and 2 in both papers.
    """

    def __init__(self, *, alpha: float = 0.25, gamma: float = 2.0) -> None:
        if not 0 < alpha < 1:
            expected = "a number between 0 and 1"
            raise KrisselError(Errors.K006.format(setting="alpha", found=alpha, expected=expected))
        if not gamma >= 0:
            raise KrisselError(Errors.K006.format(setting="gamma", found=gamma, expected="0 or more"))
        self.alpha = alpha
        self.gamma = gamma

    def __call__(self, logits: Floats1d, truths: Any) -> Tuple[Floats1d, float]:
        """logits: (n,), n ≥ 1; truths: (n,), 1 of a positive and 0 of a negative. RETURNS: the gradient (n,) of the
        loss, and the loss."""
        xp: Any = get_array_module(logits)
        signs = xp.where(truths > 0, 1.0, -1.0)
        margins = signs * logits
        log_p = -xp.logaddexp(0.0, -margins)  # of the true class
        p = xp.exp(log_p)
        alphas = xp.where(truths > 0, self.alpha, 1.0 - self.alpha)
        loss = float((-alphas * (1 - p) ** self.gamma * log_p).mean())
        # d p_t / d margin = p_t (1 − p_t).
        d_margins = alphas * (1 - p) ** self.gamma * (self.gamma * p * log_p - (1 - p))
        return cast(Floats1d, (signs * d_margins / len(logits)).astype(logits.dtype)), loss


def make_focal_loss(alpha: float = 0.25, gamma: float = 2.0) -> FocalLoss:
    """Registered in losses as `spacy-krissel.FocalLoss.v1`; see `FocalLoss`."""
    return FocalLoss(alpha=alpha, gamma=gamma)
