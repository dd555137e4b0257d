"""Supervised NT-Xent over labelled names (Khosla et al. 2020; OSLAT §3.1)."""

from typing import Any, Tuple, cast

from thinc.api import get_array_module
from thinc.types import Floats2d, Ints1d

from ..errors import Errors, KrisselError


class SupervisedNTXent:
    """`L = 1/A Σ_i −1/|P(i)| Σ_{p ∈ P(i)} log( exp(z_i·z_p/τ) / Σ_{a≠i} exp(z_i·z_a/τ) )` over unit vectors z; P(i) are
    the other names of i's entity, and the first sum runs over the A names that have any.

    The extraction of the paper's equation carries an outer exponent −1 that its eq. 4 does not have, and so does not
    this; the sum below runs over positives too, as in the loss that it takes up.

    temperature: τ; 0.07 in the paper.
    """

    def __init__(self, *, temperature: float = 0.07) -> None:
        if not temperature > 0:
            expected = "a number above 0"
            raise KrisselError(Errors.K006.format(setting="temperature", found=temperature, expected=expected))
        self.temperature = temperature

    def __call__(self, vectors: Floats2d, labels: Ints1d) -> Tuple[Floats2d, float]:
        """vectors: (n, d), of any length; labels: (n,). RETURNS: their gradient (n, d), and the loss; 0 where no
        entity has two names.

        Raises KrisselError K631 when there is not a label for each vector.
        """
        xp: Any = get_array_module(vectors)
        if len(vectors) != len(labels) or not len(vectors):
            raise KrisselError(Errors.K631.format(vectors=len(vectors), labels=len(labels)))
        norms = xp.maximum(xp.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        unit = vectors / norms
        scores = unit @ unit.T / self.temperature
        rows = xp.arange(len(unit))
        scores[rows, rows] = -xp.inf
        labels = xp.asarray(labels)
        positives = (labels[:, None] == labels[None]).astype("float32")
        positives[rows, rows] = 0
        counts = positives.sum(axis=1)
        anchors = counts > 0
        n_anchors = int(anchors.sum())
        if not n_anchors:
            return cast(Floats2d, xp.zeros_like(vectors)), 0.0
        top = scores.max(axis=1, keepdims=True)
        exponents = xp.exp(scores - top)
        sums = exponents.sum(axis=1, keepdims=True)
        log_sums = (xp.log(sums) + top)[:, 0]
        scores[rows, rows] = 0
        means = (positives * scores).sum(axis=1) / xp.maximum(counts, 1)
        loss = float((log_sums - means)[anchors].sum() / n_anchors)
        d_scores = exponents / sums - positives / xp.maximum(counts, 1)[:, None]
        d_scores *= anchors[:, None] / (n_anchors * self.temperature)
        d_unit = (d_scores + d_scores.T) @ unit
        gradient = (d_unit - unit * (unit * d_unit).sum(axis=1, keepdims=True)) / norms
        return cast(Floats2d, gradient.astype(vectors.dtype)), loss


def make_supervised_nt_xent(temperature: float = 0.07) -> SupervisedNTXent:
    """Registered in losses as `spacy-krissel.SupervisedNTXent.v1`; see `SupervisedNTXent`."""
    return SupervisedNTXent(temperature=temperature)
