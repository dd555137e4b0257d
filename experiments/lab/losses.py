"""The losses that SapBERT is compared with (Table 6), over the cosines of labelled names.

`spacy train --code` and `lab ablation` register them by loading this file. Each has the protocol of
`spacy_krissel.losses`: `(cosines, positives, negatives)` to the gradient of the cosines and the
loss.
"""

from typing import Annotated, Any

from pydantic import Field
from spacy import registry
from thinc.api import get_array_module
from thinc.types import Floats2d

from spacy_krissel.losses.hard_pairs import distances
from spacy_krissel.losses.masked import check_masks, log_sum_exp, softplus
from spacy_krissel.util.settings import Positive, checked


@registry.losses("spacy-krissel.Circle.v1")
@checked
class Circle:
    """`1/n Σ_i log(1 + Σ_N exp(γ a_n (S_in - m)) Σ_P exp(-γ a_p (S_ip - 1 + m)))` (Sun et al.
    2020).

    The weights `a_n = max(0, S_in + m)` and `a_p = max(0, 1 + m - S_ip)` say how far a pair is from
    where it should be; they have no gradient of their own.

    margin: m.
    scale: γ.
    """

    def __init__(self, margin: Positive = 0.25, scale: Positive = 256.0) -> None:
        self.margin = margin
        self.scale = scale

    def __call__(self, cosines: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        check_masks(cosines, positives, negatives)
        xp: Any = get_array_module(cosines)
        n, margin, scale = len(cosines), self.margin, self.scale
        negative_weights = xp.maximum(cosines + margin, 0)
        positive_weights = xp.maximum(1 + margin - cosines, 0)
        far, far_fractions = log_sum_exp(scale * negative_weights * (cosines - margin), negatives)
        near, near_fractions = log_sum_exp(
            -scale * positive_weights * (cosines - 1 + margin), positives
        )
        soft, d_soft = softplus(far + near)
        gradient = far_fractions * negative_weights - near_fractions * positive_weights
        return scale / n * d_soft[:, None] * gradient, float(soft.sum()) / n


@registry.losses("spacy-krissel.CosinePairs.v1")
@checked
class CosinePairs:
    """`mean_P (1 - S_ip) + mean_N max(0, S_in - m)` (Phan et al. 2019).

    margin: m; negative pairs are pushed apart down to this cosine, and 1 leaves them alone.
        SapBERT's Table 9 has no setting for this loss.
    """

    def __init__(self, margin: Annotated[float, Field(ge=-1, le=1)] = 0.0) -> None:
        self.margin = margin

    def __call__(self, cosines: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        check_masks(cosines, positives, negatives)
        xp: Any = get_array_module(cosines)
        n_positives, n_negatives = (max(1, int(mask.sum())) for mask in (positives, negatives))
        too_near = negatives & (cosines > self.margin)
        loss = xp.where(positives, 1 - cosines, 0).sum() / n_positives
        loss += xp.where(too_near, cosines - self.margin, 0).sum() / n_negatives
        gradient = (
            too_near.astype(cosines.dtype) / n_negatives
            - positives.astype(cosines.dtype) / n_positives
        )
        return gradient, float(loss)


@registry.losses("spacy-krissel.LiftedStructure.v1")
@checked
class LiftedStructure:
    """`1/2|P| Σ_(i,j)∈P max(0, J_ij)²`, `J_ij = log(Σ_N_i exp(α - |i - k|) + Σ_N_j exp(α - |j -
    k|)) + |i - j|`, the distances L2 between unit vectors (Oh Song et al. 2016): a positive pair is
    pushed from the negatives of both names.

    margin: α.
    """

    def __init__(self, margin: Positive = 0.5) -> None:
        self.margin = margin

    def __call__(self, cosines: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        check_masks(cosines, positives, negatives)
        xp: Any = get_array_module(cosines)
        apart: Any = distances(cosines)
        logs, fractions = log_sum_exp(self.margin - apart, negatives)
        both = xp.logaddexp(logs[:, None], logs[None])  # (n, n)
        excess = xp.where(positives, xp.maximum(both + apart, 0), 0)
        count = max(1, int(positives.sum()))
        d_excess = excess / count  # also the gradient of |i - j| and of `both`
        # How much of `both` is the row's own sum; the rest is the column's.
        own = xp.exp(
            xp.where(
                xp.isfinite(both), logs[:, None] - xp.where(xp.isfinite(both), both, 0), -xp.inf
            )
        )
        d_logs = (d_excess * own).sum(axis=1) + (d_excess * own.T).sum(axis=0)
        d_apart = d_excess - d_logs[:, None] * fractions
        return through_distances(d_apart, apart), float((excess**2).sum()) / (2 * count)


@registry.losses("spacy-krissel.NCA.v1")
@checked
class NCA:
    """`-1/n Σ_i log( Σ_P exp(-s|i - p|²) / Σ_P∪N exp(-s|i - k|²) )`, over the anchors that have a
    positive; squared distances of unit vectors are `2 - 2S` (Goldberger et al. 2005).

    scale: s, the softmax scale.
    """

    def __init__(self, scale: Positive = 20.0) -> None:
        self.scale = scale

    def __call__(self, cosines: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        check_masks(cosines, positives, negatives)
        xp: Any = get_array_module(cosines)
        scores = self.scale * (2 * cosines - 2)
        near, near_fractions = log_sum_exp(scores, positives)
        far, far_fractions = log_sum_exp(scores, negatives)
        # log(P + N) - log(P) = log(1 + N / P)
        has_positive = xp.isfinite(near)
        soft, d_soft = softplus(
            xp.where(has_positive, far - xp.where(has_positive, near, 0), -xp.inf)
        )
        gradient = (
            2 * self.scale / len(cosines) * d_soft[:, None] * (far_fractions - near_fractions)
        )
        return gradient, float(soft.sum()) / len(cosines)


@registry.losses("spacy-krissel.MaxMarginTriplet.v1")
@checked
class MaxMarginTriplet:
    """The mean of `|a - p| - |a - n| + α` over the triplets of positive and negative pairs where
    that is above 0, the distances L2 between unit vectors (Basaldella et al. 2020). Memory: the
    number of positive pairs times n.

    margin: α.
    """

    def __init__(self, margin: Positive = 0.2) -> None:
        self.margin = margin

    def __call__(self, cosines: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
        check_masks(cosines, positives, negatives)
        xp: Any = get_array_module(cosines)
        apart: Any = distances(cosines)
        anchors, others = xp.nonzero(positives)  # (m,) each
        excess = apart[anchors, others][:, None] - apart[anchors] + self.margin  # (m, n)
        active = negatives[anchors] & (excess > 0)
        count = max(1, int(active.sum()))
        weights = active.astype(cosines.dtype) / count
        of_anchor = (xp.arange(len(cosines))[:, None] == anchors).astype(cosines.dtype)  # (n, m)
        d_apart = -(of_anchor @ weights)
        d_apart[anchors, others] += weights.sum(axis=1)
        return through_distances(d_apart, apart), float((excess * weights).sum())


def through_distances(d_distances: Floats2d, found: Floats2d) -> Floats2d:
    """The gradient of the cosines from that of the `distances` that were found; none where two
    names coincide."""
    xp: Any = get_array_module(found)
    return xp.where(found > 0, -d_distances / xp.maximum(found, 1e-30), 0)
