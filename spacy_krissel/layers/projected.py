"""A projection head: vectors of fewer dimensions, so that an index of them is smaller (BELHD §4.2)."""

from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import numpy as np
from thinc.api import Model
from thinc.types import Floats2d

from ..errors import Errors, KrisselError
from ..views import View
from .identity import keep_in_bytes
from .normalize import normalize_rows


@keep_in_bytes
class ProjectionSettings(NamedTuple):
    """What the vectors depend on beside the weights."""

    normalize: bool


def ProjectedEncoder(
    encoder: Model[List[View], Floats2d], *, width: int = 128, normalize: bool = False
) -> Model[List[View], Floats2d]:
    """`W v` of every vector v of `encoder`, mentions and names alike: n views to (n, width).

    W (h, p) begins with orthogonal columns, so that inner products are about what they were before any training.

    width: p, at most the encoder's own; 128 in the paper, where h is 768.
    normalize: scale the projected vectors to unit length.

    Raises KrisselError K006 for a width below 1 and, on initialize, above that of the encoder.
    """
    if width < 1:
        raise KrisselError(Errors.K006.format(setting="width", found=width, expected="at least 1"))
    return Model(
        "projected_encoder",
        _forward,
        init=_init,
        layers=[encoder, normalize_rows()] if normalize else [encoder],
        dims={"nO": width, "nI": None},
        params={"W": None},
        attrs={"settings": ProjectionSettings(normalize)},
    )


def _init(model: Model, X: Optional[List[View]] = None, Y: Optional[Floats2d] = None) -> None:
    encoder = model.layers[0]
    encoder.initialize(X=X)
    width, p = encoder.get_dim("nO"), model.get_dim("nO")
    if p > width:
        expected = f"at most the encoder's {width}"
        raise KrisselError(Errors.K006.format(setting="width", found=p, expected=expected))
    model.set_dim("nI", width)
    if model.has_param("W") is None:
        columns, _ = np.linalg.qr(np.random.normal(size=(width, p)))
        model.set_param("W", model.ops.asarray2f((columns * (width / p) ** 0.5).astype("float32")))


def _forward(model: Model, X: List[View], is_train: bool) -> Tuple[Floats2d, Callable[[Floats2d], List[View]]]:
    W: Any = model.get_param("W")
    vectors, backprop_encoder = model.layers[0](X, is_train)
    Y = vectors @ W
    backprop_unit: Optional[Callable] = None
    if len(model.layers) > 1:
        Y, backprop_unit = model.layers[1](Y, is_train)

    def backprop(dY: Floats2d) -> List[View]:
        if backprop_unit is not None:
            dY = backprop_unit(dY)
        model.inc_grad("W", vectors.T @ dY)
        return backprop_encoder(dY @ W.T)

    return Y, backprop
