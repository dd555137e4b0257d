"""Softmax over the scores of a query: InfoNCE, cross-entropy, NT-Xent and marginal likelihood in
one.
"""

from typing import Any, Literal, cast

from thinc.api import get_array_module
from thinc.types import Floats2d

from ..util.settings import Positive, checked
from .masked import check_masks, log_sum_exp, softplus


@checked
class SoftmaxLoss:
    """Softmax loss `-log softmax(s / τ)` of the positives P of each query, with its negatives N.

    With one positive p per query, `L = 1/q Σ_i -log( exp(s_ip/τ) / (exp(s_ip/τ) + Σ_n∈N_i
    exp(s_in/τ)) )`: InfoNCE (KRISSBERT eq. 2 and 5), and cross-entropy over candidates (PEL eq. 1,
    KRISSBERT §3.6). With several, `positives` sets their combination. A query without a positive is
    skipped; the loss is 0 if no query has one.

    temperature: τ; 1 suits inner products, 0.05 to 0.07 cosines.
    positives: "pairs", `1/|P| Σ_(i,p)` of the above, without other positives in the denominator
        (van den Oord et al. 2018, SapBERT Table 6); "mean", the mean over the queries of `1/|P_i|
        Σ_p -log( exp(s_ip/τ) / Σ_P∪N )` (Khosla et al. 2020, OSLAT §3.1 and eq. 4); "sum", the mean
        over the queries of `-log( Σ_P / Σ_P∪N )`, marginal likelihood (BioSyn; BELHD eq. 1 and 2).
    """

    def __init__(
        self, temperature: Positive = 1.0, positives: Literal["pairs", "mean", "sum"] = "pairs"
    ) -> None:
        self.temperature = temperature
        self.positives = positives

    def __call__(self, scores: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        """Compute a `Loss`."""
        check_masks(scores, positives, negatives)
        given = scores / self.temperature, positives, negatives
        gradient, loss = (
            _pairs(*given) if self.positives == "pairs" else _per_query(*given, self.positives)
        )
        return cast(Floats2d, (gradient / self.temperature).astype(scores.dtype)), float(loss)


def _pairs(logits: Any, positives: Any, negatives: Any) -> tuple[Any, Any]:
    xp: Any = get_array_module(logits)
    logs, fractions = log_sum_exp(logits, negatives)
    # One row per positive pair. By index from here on: a GPU counts a mask at each use, and the
    # host waits for the count.
    pairs = queries, _ = xp.nonzero(positives)
    count = max(1, len(queries))
    soft, d_soft = softplus(logs[queries] - logits[pairs])
    pulls = xp.zeros_like(logits)
    pulls[pairs] = d_soft / count
    return pulls.sum(axis=1, keepdims=True) * fractions - pulls, soft.sum() / count


def _per_query(logits: Any, positives: Any, negatives: Any, how: str) -> tuple[Any, Any]:
    xp: Any = get_array_module(logits)
    counts = positives.sum(axis=1)
    learned = counts > 0
    n = xp.maximum(1, learned.sum())
    logs, fractions = log_sum_exp(logits, positives | negatives)
    if how == "mean":
        right_fractions = positives / xp.maximum(counts, 1)[:, None]
        right = xp.where(positives, logits, 0).sum(axis=1) / xp.maximum(counts, 1)
    else:
        right, right_fractions = log_sum_exp(logits, positives)
    gradient = xp.where(learned[:, None], fractions - right_fractions, 0) / n
    return gradient, (xp.where(learned, logs, 0) - xp.where(learned, right, 0)).sum() / n
