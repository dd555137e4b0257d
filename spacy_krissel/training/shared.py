"""What models make of a batch, the work divided among the processes of a training (`layers.processes`)."""

from itertools import pairwise
from typing import Any, Callable, Dict, Iterable, List, Sequence, Tuple, TypeVar

import numpy as np
from thinc.types import Floats2d

from ..distributed.processes import begin_shared, make_shared, n_processes
from ..layers.token_states import TokenStates
from ..views import View
from .objectives.protocol import EncoderModel

X = TypeVar("X")
Y = TypeVar("Y")
Begin = Callable[[List[X]], Tuple[Y, Callable]]


def begin_views(begin: Begin[View, Floats2d], views: List[View]) -> Tuple[Floats2d, Callable]:
    """`begin(views)`, such as an encoder's `begin_update`: the vectors of all views, and a backprop that takes the
    gradient of all vectors and runs that of this process's views. In one process, `begin(views)` itself."""
    if n_processes() == 1:
        return begin(views)
    groups = _read_together(views)
    sizes = [view_length(views[group[0]]) for group in groups]
    return begin_shared(lambda own: begin([views[i] for each in own for i in groups[each]]), sizes, groups)


def predict_views(model: EncoderModel, views: List[View]) -> Floats2d:
    """`model.predict(views)`."""
    return begin_views(lambda own: (model.predict(own), _no_backprop), views)[0]


def search_shared(search: Callable[[np.ndarray], np.ndarray], vectors: np.ndarray) -> np.ndarray:
    """`search(vectors)`, a row of numbers for each vector. All processes get the same ones, whatever two searches would
    make of vectors that are as near as each other."""
    return make_shared(lambda own: search(vectors[own]), consecutive([1] * len(vectors)))


def begin_texts(begin: Begin[str, TokenStates], texts: List[str]) -> Tuple[TokenStates, Callable]:
    """`begin(texts)`: the states of all texts, and a backprop that takes the gradient of all vectors."""
    if n_processes() == 1:
        return begin(texts)
    sizes = [len(text) for text in texts]
    found: Any = None

    def read(own: List[int]) -> Tuple[Any, Callable]:
        nonlocal found
        found = begin([texts[i] for i in own])
        return found[0].lengths, _no_backprop

    lengths, _ = begin_shared(read, sizes)
    # How many tokens the texts of the others have is known now.
    rows = consecutive(lengths)
    places, _ = begin_shared(lambda own: (found[0].places, _no_backprop), sizes, rows)
    vectors, backprop = begin_shared(lambda own: (found[0].vectors, found[1]), sizes, rows)
    return TokenStates(vectors, lengths, places), backprop


def consecutive(lengths: Iterable[int]) -> List[range]:
    """The rows of items that have so many each, one after another."""
    ends = np.cumsum([0, *lengths]).tolist()
    return [range(start, end) for start, end in pairwise(ends)]


def view_length(view: View) -> int:
    """In characters, of which pieces are a like number each."""
    return len(view.left) + len(view.mention) + len(view.right)


def _read_together(views: Sequence[View]) -> List[List[int]]:
    """The views, by number, that one process is to have: those of a text unit are read in one pass."""
    groups: Dict[Any, List[int]] = {}
    for i, view in enumerate(views):
        groups.setdefault(view.left + view.mention + view.right if view.mates else i, []).append(i)
    return list(groups.values())


def _no_backprop(gradient: Any) -> None:
    return None
