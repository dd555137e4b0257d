"""A mention and its candidates, as a re-ranker sees them."""

from typing import List, NamedTuple, Sequence, Tuple

import numpy
from thinc.api import Model
from thinc.types import Floats1d

from ..views import CandidateView, View


class RankedMention(NamedTuple):
    """One mention with its k candidates, best first.

    view: the mention in its context.
    candidates: the views of the k candidates.
    logits: (k,) float32, the linker's scores divided by their temperature; softmax over them is how far the linker is
        to be trusted.
    """

    view: View
    candidates: Tuple[CandidateView, ...]
    logits: numpy.ndarray


# Corrections of all candidates of all mentions in one row, mention by mention: (k₁ + k₂ + …,), each within ± bound.
Reranker = Model[List[RankedMention], Floats1d]


def list_lengths(mentions: Sequence[RankedMention]) -> List[int]:
    """How many candidates each mention has."""
    return [len(mention.candidates) for mention in mentions]
