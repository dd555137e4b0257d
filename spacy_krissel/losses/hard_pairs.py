"""Online mining of hard pairs (SapBERT §2, eq. 1)."""

from typing import Any

from thinc.api import get_array_module
from thinc.types import Floats2d

from ..util.settings import checked


@checked
class HardPairMiner:
    """Keep the pairs of triplets (a, p, n) that violate `|a - p| < |a - n| + λ`.

    Distances are L2 between unit vectors. A triplet that violates the inequality gives the positive
    pair (a, p) and the negative pair (a, n). With the paper's λ of -0.2 a triplet is hard if its
    negative is less than 0.2 farther than its positive.

    No triplets are built: (a, p) is in one if and only if a's nearest negative completes it, and
    (a, n) if and only if a's farthest positive does.

    margin: λ; lower mines more.
    """

    def __init__(self, margin: float = -0.2) -> None:
        self.margin = margin

    def __call__(self, scores: Floats2d, positives: Any, negatives: Any) -> tuple[Any, Any]:
        """Return the hard positives and the hard negatives (q, k).

        scores: cosines (q, k).
        """
        xp: Any = get_array_module(scores)
        apart: Any = distances(scores)
        farthest = xp.where(positives, apart, -xp.inf).max(axis=1, keepdims=True)  # (q, 1)
        nearest = xp.where(negatives, apart, xp.inf).min(axis=1, keepdims=True)
        return positives & (apart >= nearest + self.margin), negatives & (
            farthest >= apart + self.margin
        )


def distances(cosines: Floats2d) -> Floats2d:
    """Return `|u - v|` of unit vectors from their cosines (q, k)."""
    xp: Any = get_array_module(cosines)
    return xp.sqrt(xp.maximum(2 - 2 * cosines, 0))
