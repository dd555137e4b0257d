"""InfoNCE between mentions and the references of their entities (KRISSBERT §3.5, eq. 4 and 5)."""

from typing import Any, Tuple, cast

from thinc.api import get_array_module
from thinc.types import Floats2d

from ..errors import Errors, KrisselError


class MentionReferenceNCE:
    """`L' = 1/2N Σ_i -log( exp(c_i·r_e(i)/π) / Σ_k exp(c_i·r_k/π) )` over 2N mentions and the references of N entities.

    Mentions come in pairs, as `InfoNCE` takes them: rows 2k and 2k+1 are of the entity whose reference is row k. The
    other N - 1 references are the negatives of a mention, so the references must be of different entities.

    temperature: π, 1.0 in the paper; about 0.05 suits unit vectors.
    """

    def __init__(self, *, temperature: float = 1.0) -> None:
        if not temperature > 0:
            expected = "a number above 0"
            raise KrisselError(Errors.K006.format(setting="temperature", found=temperature, expected=expected))
        self.temperature = temperature

    def __call__(self, mentions: Floats2d, references: Floats2d) -> Tuple[Tuple[Floats2d, Floats2d], float]:
        """mentions: (2N, d), references: (N, d), N ≥ 1. RETURNS: the gradients of both, and the loss.

        Raises KrisselError K612 for other numbers of them.
        """
        n = len(mentions)
        if not n or n != 2 * len(references):
            raise KrisselError(Errors.K612.format(mentions=n, references=len(references)))
        xp: Any = get_array_module(mentions)
        scores = mentions @ references.T / self.temperature  # (2N, N)
        rows = xp.arange(n)
        positives = rows // 2
        scores -= scores.max(axis=1, keepdims=True)
        exponents = xp.exp(scores)
        sums = exponents.sum(axis=1, keepdims=True)
        loss = float((xp.log(sums[:, 0]) - scores[rows, positives]).mean())
        d_scores = exponents / sums
        d_scores[rows, positives] -= 1.0
        d_scores /= n * self.temperature
        d_mentions = (d_scores @ references).astype(mentions.dtype)
        d_references = (d_scores.T @ mentions).astype(references.dtype)
        return (cast(Floats2d, d_mentions), cast(Floats2d, d_references)), loss


def make_mention_reference_nce(temperature: float = 1.0) -> MentionReferenceNCE:
    """Registered in losses as `spacy-krissel.MentionReferenceNCE.v1`; see `MentionReferenceNCE`."""
    return MentionReferenceNCE(temperature=temperature)
