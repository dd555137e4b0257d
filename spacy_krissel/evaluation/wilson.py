"""Wilson's interval of a proportion."""

from math import sqrt
from statistics import NormalDist


def wilson_interval(right: int, n: int, *, level: float = 0.95) -> tuple[float, float]:
    """The interval of a proportion of which `right` of `n` > 0 independent draws are known: all p with
    |right/n - p| ≤ z √(p (1 - p) / n). It stays within 0 and 1, and has a width where all draws are right."""
    z2 = NormalDist().inv_cdf((1 + level) / 2) ** 2
    share = right / n
    middle, half = share + z2 / (2 * n), sqrt(z2 * (share * (1 - share) + z2 / (4 * n)) / n)
    return max(0.0, (middle - half) / (1 + z2 / n)), min(1.0, (middle + half) / (1 + z2 / n))
