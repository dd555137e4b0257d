"""Cross-entropy of candidate retrieval (PEL §4, eq. 1)."""

from typing import Any, Tuple, cast

from thinc.types import Floats2d, Ints1d

from .candidates import gold_scores
from .pairs import log_sum_exp, positive_setting, softplus


class CandidateCrossEntropy:
    """`L(m) = -log( exp(s(m,e⁺)/τ) / (exp(s(m,e⁺)/τ) + Σ_e⁻ exp(s(m,e⁻)/τ)) )`, the mean over the mentions.

    temperature: τ, 1 in the paper, where scores are dot products; about 0.05 suits cosines.
    """

    def __init__(self, *, temperature: float = 1.0) -> None:
        self.temperature = positive_setting("temperature", temperature)

    def __call__(self, scores: Floats2d, gold: Ints1d, negatives: Any) -> Tuple[Floats2d, float]:
        """scores, gold, negatives: see `gold_scores`. RETURNS: the gradient of the scores (q, n) (eq. 2), and the loss.

        Raises KrisselError K635.
        """
        rows, positive = gold_scores(scores, gold, negatives)
        logs, shares = log_sum_exp(scores / self.temperature, negatives)
        loss, d_loss = softplus(logs - positive / self.temperature)
        gradient = d_loss[:, None] * shares
        gradient[rows, gold] = -d_loss
        gradient /= self.temperature * len(rows)
        return cast(Floats2d, gradient.astype(scores.dtype)), float(loss.mean())


def make_candidate_cross_entropy(temperature: float = 1.0) -> CandidateCrossEntropy:
    """Registered in losses as `spacy-krissel.CandidateCrossEntropy.v1`; see `CandidateCrossEntropy`."""
    return CandidateCrossEntropy(temperature=temperature)
