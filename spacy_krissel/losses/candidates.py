"""The scores of mentions with entities, and which of them a loss of candidate retrieval runs over (PEL §4)."""

from typing import Any, Tuple

from thinc.api import get_array_module
from thinc.types import Floats2d, Ints1d

from ..errors import Errors, KrisselError


def gold_scores(scores: Floats2d, gold: Ints1d, negatives: Any) -> Tuple[Any, Any]:
    """What every loss of candidates begins with: the rows (q,), and the scores of the gold candidates (q,).

    scores: s(m, e) of q mentions with n candidates (q, n).
    gold: the column of each mention's own entity (q,).
    negatives: which columns are negatives of each mention (q, n) bool; its own entity is none.

    Raises KrisselError K635 when the shapes do not fit, or a mention's own entity is among its negatives.
    """
    xp: Any = get_array_module(scores)
    shape = tuple(scores.shape)
    if len(shape) != 2 or not shape[0] or len(gold) != shape[0] or tuple(negatives.shape) != shape:
        raise KrisselError(Errors.K635.format(scores=shape, gold=len(gold), negatives=tuple(negatives.shape)))
    rows = xp.arange(shape[0])
    if bool(negatives[rows, gold].any()):
        raise KrisselError(Errors.K635.format(scores=shape, gold=len(gold), negatives="the gold candidate among them"))
    return rows, scores[rows, gold]
