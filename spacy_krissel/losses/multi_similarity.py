"""Multi-Similarity loss (SapBERT §2, eq. 2; Wang et al. 2019)."""

from typing import Any, cast

from thinc.types import Floats2d

from ..util.settings import Positive, checked
from .masked import check_masks, soft_sum


@checked
class MultiSimilarity:
    """Multi-Similarity loss over cosines S:

        1/q Σ_i [ 1/α log(1 + Σ_P exp(-α(S_ip - ε))) + 1/β log(1 + Σ_N exp(β(S_in - ε))) ]

    The scales of positives and negatives are those of Wang et al., who also give the values;
    SapBERT's eq. 2 prints the two exchanged.

    alpha: α, the scale of positives.
    beta: β, the scale of negatives.
    epsilon: ε, the cosine that positives are pulled above and negatives are pushed below.
    """

    def __init__(self, alpha: Positive = 2.0, beta: Positive = 50.0, epsilon: float = 0.5) -> None:
        self.alpha = alpha
        self.beta = beta
        self.epsilon = epsilon

    def __call__(self, scores: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        """Compute a `Loss` over cosines."""
        check_masks(scores, positives, negatives)
        q = len(scores)
        pull, d_pull = soft_sum(-self.alpha * (scores - self.epsilon), positives)
        push, d_push = soft_sum(self.beta * (scores - self.epsilon), negatives)
        loss = pull.sum() / (self.alpha * q) + push.sum() / (self.beta * q)
        return cast(Floats2d, ((d_push - d_pull) / q).astype(scores.dtype)), float(loss)
