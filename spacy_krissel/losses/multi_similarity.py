"""Multi-Similarity loss (SapBERT §2, eq. 2; Wang et al. 2019)."""

from functools import partial
from typing import Any, Literal, Optional, Tuple

from thinc.types import Floats2d

from ..errors import Errors, KrisselError
from .pairs import Miner, PairLoss, Pairs, finite_setting, log_sum_exp, positive_setting, softplus


def multi_similarity(
    cosines: Floats2d, pairs: Pairs, *, positive_scale: float, negative_scale: float, epsilon: float
) -> Tuple[Floats2d, float]:
    """`1/n Σ_i [ 1/s⁻ log(1 + Σ_N exp(s⁻(S_in - ε))) + 1/s⁺ log(1 + Σ_P exp(-s⁺(S_ip - ε))) ]`.

    cosines: S (n, n). positive_scale, negative_scale: s⁺ and s⁻.
    RETURNS: the gradient of the cosines (n, n), and the loss.
    """
    n = len(cosines)
    loss = 0.0
    gradient: Any = cosines * 0
    for scale, mask, sign in ((negative_scale, pairs.negatives, 1), (positive_scale, pairs.positives, -1)):
        logs, shares = log_sum_exp(sign * scale * (cosines - epsilon), mask)
        soft, d_soft = softplus(logs)
        loss += float(soft.sum()) / (scale * n)
        gradient += sign / n * d_soft[:, None] * shares
    return gradient, loss


def make_multi_similarity(
    alpha: float = 2.0,
    beta: float = 50.0,
    epsilon: float = 0.5,
    alpha_goes_with: Literal["positives", "negatives"] = "positives",
    miner: Optional[Miner] = None,
) -> PairLoss:
    """Registered in losses as `spacy-krissel.MultiSimilarity.v1`; see `multi_similarity`.

    alpha, beta: the scales. The values are Wang et al.'s.
    epsilon: ε, the cosine about which pairs are pulled together and pushed apart.
    alpha_goes_with: "positives", as in Wang et al., from whom the values are; "negatives", as eq. 2 is printed. The
        other pairs get beta.
    miner: picks the pairs that count (`spacy-krissel.HardPairMiner.v1`); None: all of them.
    Raises KrisselError K006 for settings that make no sense.
    """
    if alpha_goes_with not in ("positives", "negatives"):
        expected = "'positives' or 'negatives'"
        raise KrisselError(Errors.K006.format(setting="alpha_goes_with", found=alpha_goes_with, expected=expected))
    scales = positive_setting("alpha", alpha), positive_setting("beta", beta)
    positive, negative = scales if alpha_goes_with == "positives" else scales[::-1]
    offset = finite_setting("epsilon", epsilon)
    return PairLoss(partial(multi_similarity, positive_scale=positive, negative_scale=negative, epsilon=offset), miner)
