"""Circle loss (SapBERT, Table 6; Sun et al. 2020)."""

from functools import partial
from typing import Any, Optional, Tuple

from thinc.api import get_array_module
from thinc.types import Floats2d

from .pairs import Miner, PairLoss, Pairs, log_sum_exp, positive_setting, softplus


def circle(cosines: Floats2d, pairs: Pairs, *, margin: float, scale: float) -> Tuple[Floats2d, float]:
    """`1/n Σ_i log(1 + Σ_N exp(γ a_n (S_in - m)) Σ_P exp(-γ a_p (S_ip - 1 + m)))`.

    The weights `a_n = max(0, S_in + m)` and `a_p = max(0, 1 + m - S_ip)` say how far a pair is from where it should be;
    they have no gradient of their own.

    cosines: S (n, n). margin: m. scale: γ. RETURNS: the gradient of the cosines (n, n), and the loss.
    """
    xp: Any = get_array_module(cosines)
    n = len(cosines)
    negative_weights = xp.maximum(cosines + margin, 0)
    positive_weights = xp.maximum(1 + margin - cosines, 0)
    far, far_shares = log_sum_exp(scale * negative_weights * (cosines - margin), pairs.negatives)
    near, near_shares = log_sum_exp(-scale * positive_weights * (cosines - 1 + margin), pairs.positives)
    soft, d_soft = softplus(far + near)
    gradient = far_shares * negative_weights - near_shares * positive_weights
    return scale / n * d_soft[:, None] * gradient, float(soft.sum()) / n


def make_circle(margin: float = 0.25, scale: float = 256.0, miner: Optional[Miner] = None) -> PairLoss:
    """Registered in losses as `spacy-krissel.Circle.v1`; see `circle`.

    margin, scale: m and γ.
    miner: picks the pairs that count (`spacy-krissel.HardPairMiner.v1`); None: all of them.
    """
    settings = {"margin": positive_setting("margin", margin), "scale": positive_setting("scale", scale)}
    return PairLoss(partial(circle, **settings), miner)
