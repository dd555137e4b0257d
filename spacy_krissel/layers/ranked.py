"""A mention and its candidates, as input of a re-ranker."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy
from thinc.api import Model
from thinc.types import Floats1d

from ..views import CandidateView, View

# NIL has no name that could be similar to the mention.
NIL_VIEW = CandidateView((), ("none of the candidates",))


class RankedMention(NamedTuple):
    """One mention with its k candidates, best first.

    view: the mention in its context.
    candidates: the views of the k candidates.
    logits: (k,) float32, the linker's scores divided by their temperature; their softmax is the
        linker's confidence.
    """

    view: View
    candidates: tuple[CandidateView, ...]
    logits: numpy.ndarray


# Corrections for all candidates, mention by mention: (k₁ + k₂ + …,).
Reranker = Model[list[RankedMention], Floats1d]


def list_lengths(mentions: Sequence[RankedMention]) -> list[int]:
    """Return the number of candidates of each mention."""
    return [len(mention.candidates) for mention in mentions]


def with_nil(mention: RankedMention, logit: float) -> RankedMention:
    """Return the mention with NIL as its last candidate.

    logit: log-odds, in the unit of the others.
    """
    logits = numpy.append(mention.logits, numpy.float32(logit)).astype(numpy.float32)
    return mention._replace(candidates=(*mention.candidates, NIL_VIEW), logits=logits)


def bounded(bound: float) -> Model[Floats1d, Floats1d]:
    """Return a layer `bound · tanh(x / bound)`, a soft clip.

    It is close to x for small x, and never beyond ± bound. Two candidates whose logits differ by
    more than 2 · bound keep their order (rank regularisation).
    """
    return Model("bounded", _forward_bounded, attrs={"bound": bound})


def _forward_bounded(
    model: Model[Floats1d, Floats1d], X: Floats1d, is_train: bool
) -> tuple[Floats1d, Callable[..., Any]]:
    bound = model.attrs["bound"]
    xp: Any = model.ops.xp
    tanh = xp.tanh(X / bound)

    def backprop(dY: Floats1d) -> Floats1d:
        return dY * (1 - tanh**2)

    return bound * tanh, backprop
