"""LSS-NT-Xent: an entity's synonyms see the same of a text, other entities see something else (OSLAT eq. 4)."""

from typing import Any, Tuple, cast

from thinc.api import get_array_module
from thinc.types import Floats2d

from ..errors import Errors, KrisselError


class LabelSynonymNCE:
    """`L = −1/P Σ_p log( exp(c_0·c_p/τ) / Σ_{a≠0} exp(c_0·c_a/τ) )` over the contexts of one text, of unit length.

    Row 0 is that of the text's entity by one of its names, rows 1 to P those by its synonyms, and the others those of
    entities that the text does not speak of. As in the supervised contrastive loss that it extends, the sum below runs
    over the synonyms too, without which the loss would have no lower bound.

    temperature: τ; 0.07 in the paper.
    """

    def __init__(self, *, temperature: float = 0.07) -> None:
        if not temperature > 0:
            expected = "a number above 0"
            raise KrisselError(Errors.K006.format(setting="temperature", found=temperature, expected=expected))
        self.temperature = temperature

    def __call__(self, contexts: Floats2d, n_positives: int) -> Tuple[Floats2d, float]:
        """contexts: (1 + P + N, d), of any length; P = `n_positives` ≥ 1. RETURNS: their gradient, and the loss."""
        xp: Any = get_array_module(contexts)
        if not 0 < n_positives < len(contexts):
            raise KrisselError(Errors.K640.format(found=n_positives, rows=len(contexts)))
        norms = xp.maximum(xp.linalg.norm(contexts, axis=1, keepdims=True), 1e-12)
        unit = contexts / norms
        anchor, others = unit[0], unit[1:]
        scores = others @ anchor / self.temperature  # (P + N,)
        top = scores.max()
        exponents = xp.exp(scores - top)
        total = exponents.sum()
        loss = float(xp.log(total) + top - scores[:n_positives].mean())
        d_scores = exponents / total
        d_scores[:n_positives] -= 1.0 / n_positives
        d_scores /= self.temperature
        d_unit = xp.vstack(((d_scores @ others)[None], d_scores[:, None] * anchor[None]))
        gradient = (d_unit - unit * (unit * d_unit).sum(axis=1, keepdims=True)) / norms
        return cast(Floats2d, gradient.astype(contexts.dtype)), loss


def make_label_synonym_nce(temperature: float = 0.07) -> LabelSynonymNCE:
    """Registered in losses as `spacy-krissel.LabelSynonymNCE.v1`; see `LabelSynonymNCE`."""
    return LabelSynonymNCE(temperature=temperature)
