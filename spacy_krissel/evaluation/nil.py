"""NIL prediction by a threshold on the top score: precision–recall curve and fit of the threshold.

PEL (Wiatrak et al. 2022), §5.3, predicts NIL if the top score is below the threshold with the best
F1 on a development set. Table 4 reports the area under the precision–recall curve, Figure 2 shows
it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from ..errors import Errors, KrisselError
from ..mentions.annotations import NIL
from ..util.settings import checked
from .records import LinkRecord

ROUNDING = 1e-9
# Fraction of NIL among all mentions.
NilShare = Annotated[float, Field(gt=0, lt=1)]


class NilCurve(NamedTuple):
    """Precision and recall of NIL at each threshold that divides the mentions differently,
    ascending.

    thresholds: (t,) float64, in units of the score; mentions with a lower score are predicted NIL.
    called: (t,) number of mentions predicted NIL, correct or wrong, above 0; fractional if NIL is
        reweighted.
    precision, recall, f1: (t,) of NIL, 0 to 1.
    """

    thresholds: np.ndarray
    called: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray

    @property
    def average_precision(self) -> float:
        """Area under the curve (auPR): the sum over thresholds of precision · the step in recall. 0
        to 1; 0 for an empty curve."""
        return float(np.sum(self.precision * np.diff(self.recall, prepend=0.0)))


def share_weights(is_nil: ArrayLike, share: float | None) -> np.ndarray:
    """Return weights (n,) of mentions so that NIL has this fraction, above 0 and below 1; all 1 for
    None. Mentions with an entity have weight 1."""
    nil = np.asarray(is_nil, dtype=bool)
    n_nil = nil.sum()
    if share is None or n_nil in (0, len(nil)):
        return np.ones(len(nil))
    return np.where(nil, share / (1 - share) * (len(nil) - n_nil) / max(1, n_nil), 1.0)


def nil_curve(scores: ArrayLike, is_nil: ArrayLike, share: float | None = None) -> NilCurve:
    """Return the curve of n mentions.

    scores: (n,) top scores: -inf for a mention that is NIL at any threshold, +inf for one that is
        NIL at none.
    is_nil: (n,) whether a mention's gold is NIL.
    share: fraction of NIL among all mentions, if it differs from these mentions: precision and the
        area depend on it. The figures are those expected of a resample with that fraction
        (`share_weights`).

    A threshold lies midway between neighbouring scores, so that their last bits do not matter.
    Beyond the lowest and the highest score, it is half the mean distance of neighbours away.

    Raises KrisselError K711 if no mention is NIL, K714 if a score is no number.
    """
    values, nil = np.asarray(scores, dtype=np.float64), np.asarray(is_nil, dtype=bool)
    if not nil.any():
        raise KrisselError(Errors.K711.format(n=len(nil)))
    if np.isnan(values).any():
        raise KrisselError(
            Errors.K714.format(
                n=int(np.isnan(values).sum()), total=len(values), what="is not a number"
            )
        )
    distinct, index = np.unique(values, return_inverse=True)
    weights = share_weights(nil, share)
    called = np.bincount(index, weights=weights, minlength=len(distinct)).cumsum()
    right = np.bincount(index, weights=weights * nil, minlength=len(distinct)).cumsum()
    # np.unique sorts, so +inf (NIL at no threshold) can only be the last.
    n = len(distinct) - bool(np.isposinf(distinct[-1]))
    called, right = called[:n], right[:n]
    n_nil = weights[nil].sum()
    return NilCurve(
        _above(distinct[:n]), called, right / called, right / n_nil, 2 * right / (called + n_nil)
    )


@checked
def fit_threshold(
    scores: ArrayLike,
    is_nil: ArrayLike,
    precision: Annotated[float, Field(gt=0, le=1)] | None = None,
    share: NilShare | None = None,
) -> float:
    """Return the threshold with the best F1 of NIL or, with `precision`, with the best recall at
    that precision or higher.

    Among several, the lowest is chosen: it predicts the fewest NIL, with the highest precision.

    scores, is_nil: (n,), see `nil_curve`, also for `share`. precision: above 0, up to 1.
    Raises KrisselError K006 (precision, share), K711 (no mention is NIL), K712 (all are), K713 (no
    threshold reaches the precision), K714 (scores that no threshold can divide).
    """
    values, nil = np.asarray(scores, dtype=np.float64), np.asarray(is_nil, dtype=bool)
    if len(nil) and nil.all():
        raise KrisselError(Errors.K712.format(n=len(nil)))
    curve = nil_curve(values, nil, share)
    if np.isinf(values).all():
        raise KrisselError(
            Errors.K714.format(n=len(values), total=len(values), what="has no candidate")
        )
    if precision is None:
        # With a share, equal values differ by rounding.
        return float(curve.thresholds[(curve.f1 >= curve.f1.max() - ROUNDING).argmax()])
    reached = np.flatnonzero(curve.precision >= precision)
    if not len(reached):
        best = int(curve.precision.argmax())
        # Rounded down, so that the suggested precision can be reached.
        highest = np.floor(1e4 * curve.precision[best]) / 1e4
        raise KrisselError(
            Errors.K713.format(
                wanted=precision, highest=highest, recall=f"{curve.recall[best]:.4f}"
            )
        )
    # Recall grows with the threshold.
    return float(curve.thresholds[reached[curve.recall[reached].argmax()]])


def top_scores(records: Sequence[LinkRecord]) -> np.ndarray | None:
    """Return the score of each record's best candidate (n,), linked or not.

    -inf without a candidate (always NIL); +inf for a mention that was not found (never NIL). None
    if a link has no score, so that no threshold applies.
    """
    if any(record.prediction not in ("", NIL) and not record.scores for record in records):
        return None
    return np.array(
        [(*each.scores, -np.inf if each.found else np.inf)[0] for each in records], dtype=np.float64
    )


def call_nil(
    records: Sequence[LinkRecord], scores: ArrayLike, threshold: float | None
) -> list[LinkRecord]:
    """Return `records`, made without a threshold, with this threshold applied to `scores` (n,)."""
    if threshold is None:
        return list(records)
    below = np.asarray(scores, dtype=np.float64) < threshold
    return [
        replace(record, prediction=NIL) if nil else record
        for record, nil in zip(records, below, strict=True)
    ]


def _above(distinct: np.ndarray) -> np.ndarray:
    """Return, for each of the ascending, distinct scores (t,), a threshold above it and below the
    next."""
    finite = distinct[np.isfinite(distinct)]
    if not len(finite):
        return np.zeros(len(distinct))
    low, high = finite[0], finite[-1]
    half = (high - low) / (len(finite) - 1) / 2 if len(finite) > 1 else 0.5
    # Halved before the addition, to avoid an overflow.
    between = finite[:-1] / 2 + finite[1:] / 2
    # Between adjacent floats there is no other: take the upper one.
    between = np.where(between > finite[:-1], between, finite[1:])
    last = max(high + half, np.nextafter(high, np.inf))
    first = [low - half] if np.isneginf(distinct[0]) else []
    return np.array([*first, *between, last])
