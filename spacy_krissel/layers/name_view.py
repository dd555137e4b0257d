"""The surface form by itself, beside the mention in its context."""

from typing import Any, Callable, List, NamedTuple, Optional, Tuple

from thinc.api import Model
from thinc.types import Floats2d

from ..views import View, name_view
from .identity import keep_in_bytes


@keep_in_bytes
class NameSettings(NamedTuple):
    weight: float


def add_name_view(encoder: Model[List[View], Floats2d], weight: float) -> Model[List[View], Floats2d]:
    """`v(view) + weight · v(name alone)`: n views to (n, width).

    A context moves the vector of a mention away from that of its name, which is what most mentions are linked by;
    adding the name's own vector keeps both. A view without context is its name already, and the name of a masked one
    must not be seen: theirs is `v(view)`, and so is that of a reference.
    """
    settings = NameSettings(weight)
    return Model(
        "add_name_view", _forward, init=_init, layers=[encoder], dims={"nO": None}, attrs={"settings": settings}
    )


def _init(model: Model, X: Optional[List[View]] = None, Y: Optional[Floats2d] = None) -> None:
    encoder = model.layers[0]
    encoder.initialize(X=X, Y=Y)
    model.set_dim("nO", encoder.get_dim("nO"))


def _forward(model: Model, X: List[View], is_train: bool) -> Tuple[Floats2d, Callable]:
    weight = model.attrs["settings"].weight
    named = [i for i, view in enumerate(X) if not (view.masked or view.reference) and (view.left or view.right)]
    Y, backprop_all = model.layers[0]([*X, *(name_view(X[i].mention) for i in named)], is_train)
    n = len(X)
    vectors = Y[:n].copy()
    vectors[named] += weight * Y[n:]

    def backprop(dY: Floats2d) -> List[View]:
        xp: Any = model.ops.xp
        backprop_all(xp.vstack((dY, weight * dY[named])))
        return []

    return vectors, backprop
