"""A projection head that only training sees (SimCLR; OSLAT §3.1)."""

from typing import Any, Callable, List, Optional, Tuple

from thinc.api import Linear as linear
from thinc.api import Model, Relu, chain
from thinc.types import Floats2d

from ..errors import Errors, KrisselError
from ..views import View

NAME = "headed_encoder"


def HeadedEncoder(
    encoder: Model[List[View], Floats2d], *, hidden: int = 384, width: int = 128
) -> Model[List[View], Floats2d]:
    """`W2 relu(W1 v + b1) + b2` of every vector v of `encoder` in training, v itself otherwise: the head takes what the
    loss would do to the vectors otherwise, and is dropped afterwards.

    Input: n views. Output: (n, width) in training, else (n, the encoder's own width).

    hidden: width of the layer between. Raises KrisselError K006 for a width below 1.
    """
    for setting, value in (("hidden", hidden), ("width", width)):
        if value < 1:
            raise KrisselError(Errors.K006.format(setting=setting, found=value, expected="at least 1"))
    return Model(
        NAME,
        _forward,
        init=_init,
        layers=[encoder, chain(Relu(nO=hidden), linear(nO=width))],
        dims={"nO": None},
    )


def _init(model: Model, X: Optional[List[View]] = None, Y: Any = None) -> None:
    encoder, head = model.layers
    encoder.initialize(X=X)
    model.set_dim("nO", encoder.get_dim("nO"))
    head.initialize(X=model.ops.alloc2f(1, encoder.get_dim("nO")))


def _forward(model: Model, X: List[View], is_train: bool) -> Tuple[Floats2d, Callable[[Floats2d], List[View]]]:
    encoder, head = model.layers
    vectors, backprop_encoder = encoder(X, is_train)
    if not is_train:
        return vectors, backprop_encoder
    Y, backprop_head = head(vectors, is_train)

    def backprop(dY: Floats2d) -> List[View]:
        return backprop_encoder(backprop_head(dY))

    return Y, backprop
