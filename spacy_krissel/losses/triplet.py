"""Max-margin triplet loss (SapBERT, Table 6; Basaldella et al. 2020)."""

from functools import partial
from typing import Any, Optional, Tuple

from thinc.api import get_array_module
from thinc.types import Floats2d

from .pairs import Miner, PairLoss, Pairs, distances, positive_setting, through_distances


def max_margin_triplet(cosines: Floats2d, pairs: Pairs, *, margin: float) -> Tuple[Floats2d, float]:
    """The mean of `|a - p| - |a - n| + α` over the triplets of positive and negative pairs where that is above 0.

    The distances are L2 between unit vectors. In memory are as many numbers as there are positive pairs times n.

    cosines: (n, n). margin: α. RETURNS: the gradient of the cosines (n, n), and the loss; 0 without such a triplet.
    """
    xp: Any = get_array_module(cosines)
    apart: Any = distances(cosines)
    anchors, positives = xp.nonzero(pairs.positives)  # (m,) each
    excess = apart[anchors, positives][:, None] - apart[anchors] + margin  # (m, n)
    active = pairs.negatives[anchors] & (excess > 0)
    count = max(1, int(active.sum()))
    weights = active.astype(cosines.dtype) / count
    of_anchor = (xp.arange(len(cosines))[:, None] == anchors).astype(cosines.dtype)  # (n, m)
    d_apart = -(of_anchor @ weights)
    d_apart[anchors, positives] += weights.sum(axis=1)
    return through_distances(d_apart, apart), float((excess * weights).sum())


def make_max_margin_triplet(margin: float = 0.2, miner: Optional[Miner] = None) -> PairLoss:
    """Registered in losses as `spacy-krissel.MaxMarginTriplet.v1`; see `max_margin_triplet`.

    margin: α.
    miner: picks the pairs that count (`spacy-krissel.HardPairMiner.v1`); None: all of them.
    """
    return PairLoss(partial(max_margin_triplet, margin=positive_setting("margin", margin)), miner)
