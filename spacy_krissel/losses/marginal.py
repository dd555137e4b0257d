"""Marginal maximum likelihood over candidate names (BELHD §4.2, eq. 1 and 2, after BioSyn)."""

from typing import Any, Tuple, cast

from thinc.api import get_array_module
from thinc.types import Floats2d

from ..errors import Errors, KrisselError
from .pairs import log_sum_exp, positive_setting


class MarginalLikelihood:
    """`l_m = -log Σ_{i: V(c_i) = V(m)} P(c_i|m)` with `P(c_i|m) = exp(s(m,c_i)/τ) / Σ_{c_j ∈ C} exp(s(m,c_j)/τ)`, the
    mean over the mentions with a right candidate: all names of a mention's entity among its candidates share its
    likelihood. A mention without one has nothing to be likely, and no gradient.

    temperature: τ, 1 in the paper, where scores are inner products.
    """

    def __init__(self, *, temperature: float = 1.0) -> None:
        self.temperature = positive_setting("temperature", temperature)

    def __call__(self, scores: Floats2d, candidates: Any, right: Any) -> Tuple[Floats2d, float]:
        """scores: of q mentions with n names (q, n). candidates: which names are candidates of each (q, n) bool.
        right: which of these are names of its entity (q, n) bool; beyond the candidates it is not read.

        RETURNS: the gradient of the scores (q, n), and the loss; 0 where no mention has a right candidate.
        Raises KrisselError K638 when the shapes do not fit.
        """
        xp: Any = get_array_module(scores)
        shape = tuple(scores.shape)
        if len(shape) != 2 or tuple(candidates.shape) != shape or tuple(right.shape) != shape:
            found = {"scores": shape, "candidates": tuple(candidates.shape), "right": tuple(right.shape)}
            raise KrisselError(Errors.K638.format(**found))
        right = right & candidates
        rows = xp.flatnonzero(right.any(axis=1))
        gradient = xp.zeros_like(scores)
        if not len(rows):
            return gradient, 0.0
        logits = scores[rows] / self.temperature
        all_logs, all_shares = log_sum_exp(logits, candidates[rows])
        right_logs, right_shares = log_sum_exp(logits, right[rows])
        gradient[rows] = (all_shares - right_shares) / (self.temperature * len(rows))
        return cast(Floats2d, gradient), float((all_logs - right_logs).mean())


def make_marginal_likelihood(temperature: float = 1.0) -> MarginalLikelihood:
    """Registered in losses as `spacy-krissel.MarginalLikelihood.v1`; see `MarginalLikelihood`."""
    return MarginalLikelihood(temperature=temperature)
