"""Online mining of hard pairs (SapBERT §2, eq. 1)."""

from typing import Any

from thinc.api import get_array_module
from thinc.types import Floats2d

from ..util.settings import checked


@checked
class HardPairMiner:
    """Keep the pairs of the triplets (a, p, n) that violate `|a - p| < |a - n| + λ`, L2 between unit vectors.

    Such a triplet gives the positive pair (a, p) and the negative pair (a, n). With the paper's λ of -0.2 a triplet is
    hard when its negative is less than 0.2 farther than its positive.

    No triplet is made: (a, p) belongs to a violating one if and only if a's nearest negative makes one with it, and
    (a, n) if and only if a's farthest positive does.

    margin: λ; lower mines more.
    """

    def __init__(self, margin: float = -0.2) -> None:
        self.margin = margin

    def __call__(self, scores: Floats2d, positives: Any, negatives: Any) -> tuple[Any, Any]:
        """scores: cosines (q, k). RETURNS: the positives and the negatives (q, k) that are hard."""
        xp: Any = get_array_module(scores)
        apart: Any = distances(scores)
        farthest = xp.where(positives, apart, -xp.inf).max(axis=1, keepdims=True)  # (q, 1)
        nearest = xp.where(negatives, apart, xp.inf).min(axis=1, keepdims=True)
        return positives & (apart >= nearest + self.margin), negatives & (farthest >= apart + self.margin)


def distances(cosines: Floats2d) -> Floats2d:
    """`|u - v|` of unit vectors from their cosines (q, k)."""
    xp: Any = get_array_module(cosines)
    return xp.sqrt(xp.maximum(2 - 2 * cosines, 0))
