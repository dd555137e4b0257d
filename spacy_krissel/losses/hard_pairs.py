"""Online mining of hard pairs (SapBERT §2, eq. 1)."""

from typing import Any

from thinc.api import get_array_module
from thinc.types import Floats2d

from .pairs import Miner, Pairs, distances, finite_setting


class HardPairMiner:
    """Keep the pairs of the triplets (a, p, n) that violate `|a - p| < |a - n| + λ`, L2 between unit vectors.

    Such a triplet gives the positive pair (a, p) and the negative pair (a, n). With the paper's λ of -0.2 a triplet is
    hard when its negative is less than 0.2 farther than its positive.

    No triplet is made: (a, p) belongs to a violating one if and only if a's nearest negative makes one with it, and
    (a, n) if and only if a's farthest positive does.

    margin: λ; lower mines more.
    """

    def __init__(self, *, margin: float = -0.2) -> None:
        self.margin = finite_setting("margin", margin)

    def __call__(self, cosines: Floats2d, pairs: Pairs) -> Pairs:
        """cosines: (n, n). RETURNS: those of the pairs that are hard."""
        xp: Any = get_array_module(cosines)
        apart: Any = distances(cosines)
        farthest = xp.where(pairs.positives, apart, -xp.inf).max(axis=1, keepdims=True)  # (n, 1)
        nearest = xp.where(pairs.negatives, apart, xp.inf).min(axis=1, keepdims=True)
        positives = pairs.positives & (apart >= nearest + self.margin)
        negatives = pairs.negatives & (farthest >= apart + self.margin)
        return Pairs(positives, negatives)


def make_hard_pair_miner(margin: float = -0.2) -> Miner:
    """Registered in misc as `spacy-krissel.HardPairMiner.v1`; see `HardPairMiner`."""
    return HardPairMiner(margin=margin)
