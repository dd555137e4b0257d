"""InfoNCE over labelled pairs (SapBERT, Table 6; van den Oord et al. 2018)."""

from functools import partial
from typing import Any, Optional, Tuple

from thinc.types import Floats2d

from .pairs import Miner, PairLoss, Pairs, log_sum_exp, positive_setting, softplus


def pair_nce(cosines: Floats2d, pairs: Pairs, *, temperature: float) -> Tuple[Floats2d, float]:
    """`1/|P| Σ_(i,p)∈P -log( exp(S_ip/τ) / (exp(S_ip/τ) + Σ_n∈N_i exp(S_in/τ)) )`.

    The other positives of an anchor are no negatives. Where every entity has two names and all pairs count, this is
    `InfoNCE` over unit vectors.

    cosines: S (n, n). RETURNS: the gradient of the cosines (n, n), and the loss; 0 without a positive pair.
    """
    scores: Any = cosines / temperature
    count = max(1, int(pairs.positives.sum()))
    logs, shares = log_sum_exp(scores, pairs.negatives)
    soft, d_soft = softplus(logs[:, None] - scores)
    d_soft = d_soft * pairs.positives
    gradient = d_soft.sum(axis=1, keepdims=True) * shares - d_soft
    return gradient / (count * temperature), float((soft * pairs.positives).sum()) / count


def make_pair_nce(temperature: float = 0.07, miner: Optional[Miner] = None) -> PairLoss:
    """Registered in losses as `spacy-krissel.PairNCE.v1`; see `pair_nce`.

    temperature: τ.
    miner: picks the pairs that count (`spacy-krissel.HardPairMiner.v1`); None: all of them.
    """
    return PairLoss(partial(pair_nce, temperature=positive_setting("temperature", temperature)), miner)
