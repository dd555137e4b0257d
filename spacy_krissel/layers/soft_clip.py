"""Numbers kept within a bound, so that a correction cannot become a verdict."""

from typing import Any, Callable, Tuple

from thinc.api import Model
from thinc.types import Floats1d


def bounded(bound: float) -> Model[Floats1d, Floats1d]:
    """`bound · tanh(x / bound)`: close to x for small x, never beyond ± bound. 0 stays 0.

    Two candidates whose logits lie more than 2 · bound apart keep their order, whatever was learned (rank
    regularisation).
    """
    return Model("bounded", forward, attrs={"bound": bound})


def forward(model: Model[Floats1d, Floats1d], X: Floats1d, is_train: bool) -> Tuple[Floats1d, Callable]:
    bound = model.attrs["bound"]
    xp: Any = model.ops.xp
    tanh = xp.tanh(X / bound)

    def backprop(dY: Floats1d) -> Floats1d:
        return dY * (1 - tanh**2)

    return bound * tanh, backprop
