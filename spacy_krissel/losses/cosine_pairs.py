"""Cosine loss (SapBERT, Table 6; Phan et al. 2019)."""

from functools import partial
from typing import Any, Optional, Tuple

from thinc.api import get_array_module
from thinc.types import Floats2d

from ..errors import Errors, KrisselError
from .pairs import Miner, PairLoss, Pairs


def cosine_pairs(cosines: Floats2d, pairs: Pairs, *, margin: float) -> Tuple[Floats2d, float]:
    """`mean_P (1 - S_ip) + mean_N max(0, S_in - m)`.

    cosines: S (n, n). margin: m. RETURNS: the gradient of the cosines (n, n), and the loss.
    """
    xp: Any = get_array_module(cosines)
    n_positives, n_negatives = (max(1, int(mask.sum())) for mask in pairs)
    too_near = pairs.negatives & (cosines > margin)
    loss = xp.where(pairs.positives, 1 - cosines, 0).sum() / n_positives
    loss += xp.where(too_near, cosines - margin, 0).sum() / n_negatives
    gradient = too_near.astype(cosines.dtype) / n_negatives - pairs.positives.astype(cosines.dtype) / n_positives
    return gradient, float(loss)


def make_cosine_pairs(margin: float = 0.0, miner: Optional[Miner] = None) -> PairLoss:
    """Registered in losses as `spacy-krissel.CosinePairs.v1`; see `cosine_pairs`.

    margin: negative pairs are pushed apart down to this cosine; 1 leaves them alone. Table 9 has no setting for this
        loss.
    miner: picks the pairs that count (`spacy-krissel.HardPairMiner.v1`); None: all of them.
    """
    if not -1 <= margin <= 1:
        raise KrisselError(Errors.K006.format(setting="margin", found=margin, expected="a cosine in [-1, 1]"))
    return PairLoss(partial(cosine_pairs, margin=margin), miner)
