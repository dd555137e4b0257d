"""Lifted-Structure loss (SapBERT, Table 6; Oh Song et al. 2016)."""

from functools import partial
from typing import Any, Optional, Tuple

from thinc.api import get_array_module
from thinc.types import Floats2d

from .pairs import Miner, PairLoss, Pairs, distances, log_sum_exp, positive_setting, through_distances


def lifted_structure(cosines: Floats2d, pairs: Pairs, *, margin: float) -> Tuple[Floats2d, float]:
    """`1/2|P| Σ_(i,j)∈P max(0, J_ij)²`, `J_ij = log(Σ_N_i exp(α - |i - k|) + Σ_N_j exp(α - |j - k|)) + |i - j|`.

    The distances are L2 between unit vectors; every positive pair is pushed from the negatives of both of its names.

    cosines: (n, n). margin: α. RETURNS: the gradient of the cosines (n, n), and the loss; 0 without a positive pair.
    """
    xp: Any = get_array_module(cosines)
    apart: Any = distances(cosines)
    logs, shares = log_sum_exp(margin - apart, pairs.negatives)
    both = xp.logaddexp(logs[:, None], logs[None])  # (n, n)
    excess = xp.where(pairs.positives, xp.maximum(both + apart, 0), 0)
    count = max(1, int(pairs.positives.sum()))
    d_excess = excess / count  # also the gradient of |i - j| and of `both`
    # How much of `both` is the row's own sum; the rest is the column's.
    own = xp.exp(xp.where(xp.isfinite(both), logs[:, None] - xp.where(xp.isfinite(both), both, 0), -xp.inf))
    d_logs = (d_excess * own).sum(axis=1) + (d_excess * own.T).sum(axis=0)
    d_apart = d_excess - d_logs[:, None] * shares
    return through_distances(d_apart, apart), float((excess**2).sum()) / (2 * count)


def make_lifted_structure(margin: float = 0.5, miner: Optional[Miner] = None) -> PairLoss:
    """Registered in losses as `spacy-krissel.LiftedStructure.v1`; see `lifted_structure`.

    margin: α.
    miner: picks the pairs that count (`spacy-krissel.HardPairMiner.v1`); None: all of them.
    """
    return PairLoss(partial(lifted_structure, margin=positive_setting("margin", margin)), miner)
