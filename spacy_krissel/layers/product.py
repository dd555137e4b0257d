"""Matrix products that leave the cores to whoever comes next."""

from typing import Any, cast

from thinc.api import torch2xp, xp2torch
from thinc.types import Floats2d


def product(A: Any, B: Any) -> Floats2d:
    """A (n, m) times B (m, k), by torch: (n, k).

    thinc's own product runs on one core. NumPy's BLAS keeps its threads spinning for a while after each product, so
    that a FAISS search right behind it ran at half its speed; torch's threads sleep.
    """
    return cast(Floats2d, torch2xp(xp2torch(A) @ xp2torch(B)))
