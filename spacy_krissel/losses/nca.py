"""Neighbourhood components analysis (SapBERT, Table 6; Goldberger et al. 2005)."""

from functools import partial
from typing import Any, Optional, Tuple

from thinc.api import get_array_module
from thinc.types import Floats2d

from .pairs import Miner, PairLoss, Pairs, log_sum_exp, positive_setting, softplus


def nca(cosines: Floats2d, pairs: Pairs, *, scale: float) -> Tuple[Floats2d, float]:
    """`-1/n Σ_i log( Σ_P exp(-s|i - p|²) / Σ_P∪N exp(-s|i - k|²) )`, over the anchors that have a positive.

    cosines: (n, n), of which the squared distances of unit vectors are 2 - 2S. scale: s, the softmax scale.
    RETURNS: the gradient of the cosines (n, n), and the loss.
    """
    xp: Any = get_array_module(cosines)
    scores = scale * (2 * cosines - 2)
    near, near_shares = log_sum_exp(scores, pairs.positives)
    far, far_shares = log_sum_exp(scores, pairs.negatives)
    # log(P + N) - log(P) = log(1 + N / P)
    has_positive = xp.isfinite(near)
    soft, d_soft = softplus(xp.where(has_positive, far - xp.where(has_positive, near, 0), -xp.inf))
    gradient = 2 * scale / len(cosines) * d_soft[:, None] * (far_shares - near_shares)
    return gradient, float(soft.sum()) / len(cosines)


def make_nca(scale: float = 20.0, miner: Optional[Miner] = None) -> PairLoss:
    """Registered in losses as `spacy-krissel.NCA.v1`; see `nca`.

    scale: the softmax scale.
    miner: picks the pairs that count (`spacy-krissel.HardPairMiner.v1`); None: all of them.
    """
    return PairLoss(partial(nca, scale=positive_setting("scale", scale)), miner)
