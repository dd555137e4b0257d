"""InfoNCE over pairs of mentions (KRISSBERT §3.2, eq. 1 and 2)."""

from typing import Tuple, cast

from thinc.api import get_array_module
from thinc.types import Floats2d

from ..errors import Errors, KrisselError


class InfoNCE:
    """`L = 1/2N Σ_i -log( exp(c_i·c_i⁺/τ) / Σ_{k≠i} exp(c_i·c_k/τ) )` over 2N vectors of N entities.

    The vectors come in pairs: rows 2k and 2k+1 are of one entity, and every other row of the batch is a negative, so
    the batch must hold each entity exactly twice (`PairBatcher` makes such batches).

    temperature: τ, 1.0 in the paper; about 0.05 suits unit vectors.
    """

    def __init__(self, *, temperature: float = 1.0) -> None:
        if not temperature > 0:
            expected = "a number above 0"
            raise KrisselError(Errors.K006.format(setting="temperature", found=temperature, expected=expected))
        self.temperature = temperature

    def __call__(self, vectors: Floats2d) -> Tuple[Floats2d, float]:
        """vectors: (2N, d), N ≥ 1. RETURNS: the gradient (2N, d) of the loss, and the loss."""
        xp = get_array_module(vectors)
        n = len(vectors)
        if n == 0 or n % 2:
            raise KrisselError(Errors.K601.format(found=n))
        scores = vectors @ vectors.T / self.temperature  # (2N, 2N)
        rows = xp.arange(n)
        scores[rows, rows] = -xp.inf
        positives = rows ^ 1
        scores -= scores.max(axis=1, keepdims=True)
        exponents = xp.exp(scores)
        sums = exponents.sum(axis=1, keepdims=True)
        loss = float((xp.log(sums[:, 0]) - scores[rows, positives]).mean())
        d_scores = exponents / sums
        d_scores[rows, positives] -= 1.0
        # Each vector stands on the left of its own row of scores and on the right of all others.
        gradient = (d_scores + d_scores.T) @ vectors / (n * self.temperature)
        return cast(Floats2d, gradient.astype(vectors.dtype)), loss


def make_info_nce(temperature: float = 1.0) -> InfoNCE:
    """Registered in losses as `spacy-krissel.InfoNCE.v1`; see `InfoNCE`."""
    return InfoNCE(temperature=temperature)
