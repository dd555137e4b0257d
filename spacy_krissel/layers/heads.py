"""Layers above an encoder: a training-only projection head (OSLAT §3.1), and a projection to fewer
dimensions.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from thinc.api import LayerNorm as layer_norm_of
from thinc.api import Linear as linear
from thinc.api import Model, Relu, chain
from thinc.layers.chain import forward as forward_all
from thinc.types import Floats2d

from ..errors import wrong_setting
from ..util.settings import PositiveInt, checked
from ..views import View
from .identity import Settings
from .normalize import normalize_rows

NAME = "headed_encoder"


@checked
def HeadedEncoder(
    encoder: Model[list[View], Floats2d], *, hidden: PositiveInt = 384, width: PositiveInt = 128
) -> Model[list[View], Floats2d]:
    """Add a head `W2 relu(W1 v + b1) + b2` to each vector v of `encoder`, used only in training.

    Outside training the layer returns v itself: n views to (n, width) in training, else to the
    encoder's own width (SimCLR; OSLAT §3.1).

    encoder: views to vectors
    hidden: width of the hidden layer
    width: width of the head's output
    """
    return Model(
        NAME,
        _forward_headed,
        init=_init_headed,
        layers=[encoder, chain(Relu(nO=hidden), linear(nO=width))],
        dims={"nO": None},
    )


def _init_headed(model: Model[Any, Any], X: list[View] | None = None, Y: Any = None) -> None:
    encoder, head = model.layers
    encoder.initialize(X=X)
    model.set_dim("nO", encoder.get_dim("nO"))
    head.initialize(X=model.ops.alloc2f(1, encoder.get_dim("nO")))


def _forward_headed(
    model: Model[Any, Any], X: list[View], is_train: bool
) -> tuple[Floats2d, Callable[..., Any]]:
    return forward_all(model, X, is_train) if is_train else model.layers[0](X, is_train)


@checked
def ProjectedEncoder(
    encoder: Model[list[View], Floats2d],
    *,
    width: PositiveInt = 128,
    normalize: bool = False,
    layer_norm: bool = False,
) -> Model[list[View], Floats2d]:
    """Project each vector v of `encoder` to `vᵀW`: n views to (n, width).

    An index of the projected vectors is smaller (BELHD §4.2). W (h, p) starts with orthogonal
    columns, so that inner products hardly change before training.

    encoder: views to vectors
    width: p, at most the encoder's own; 128 in the paper, where h is 768
    normalize: scale the projected vectors to unit length
    layer_norm: a layer norm before W and one after it, `LN(LN(v)ᵀW)`, as in BELHD's released code;
        the bias of its projection is that of the first norm, times W. Until the norms learn, inner
        products are within ±width

    Raises KrisselError K006 on initialize for a width above the encoder's.
    """
    return Model(
        "projected_encoder",
        _forward_projected,
        init=_init_projected,
        # The encoder, the layers after it, and the layers after W.
        layers=[
            encoder,
            *[layer_norm_of() for _ in range(2 * layer_norm)],
            *[normalize_rows()] * normalize,
        ],
        dims={"nO": width, "nI": None},
        params={"W": None},
        attrs={"settings": Settings(normalize=normalize, layer_norm=layer_norm)},
    )


def _init_projected(
    model: Model[Any, Any], X: list[View] | None = None, Y: Floats2d | None = None
) -> None:
    encoder = model.layers[0]
    encoder.initialize(X=X)
    width, p = encoder.get_dim("nO"), model.get_dim("nO")
    if p > width:
        raise wrong_setting("width", p, f"at most the encoder's {width}")
    model.set_dim("nI", width)
    if model.has_param("W") is None:
        columns, _ = np.linalg.qr(np.random.normal(size=(width, p)))
        model.set_param("W", model.ops.asarray2f((columns * (width / p) ** 0.5).astype("float32")))
        if model.attrs["settings"].layer_norm:
            for norm, size in zip(model.layers[1:3], (width, p), strict=True):
                norm.initialize(X=model.ops.alloc2f(1, size))


def _forward_projected(
    model: Model[Any, Any], X: list[View], is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], list[View]]]:
    W: Any = model.get_param("W")
    n_before = 1 + model.attrs["settings"].layer_norm
    vectors, backprop_before = _through(model.layers[:n_before], X, is_train)
    Y, backprop_after = _through(model.layers[n_before:], vectors @ W, is_train)

    def backprop(dY: Floats2d) -> list[View]:
        dY = backprop_after(dY)
        model.inc_grad("W", vectors.T @ dY)
        return backprop_before(dY @ W.T)

    return Y, backprop


def _through(
    layers: Sequence[Model[Any, Any]], X: Any, is_train: bool
) -> tuple[Any, Callable[..., Any]]:
    backprops = []
    for layer in layers:
        X, backprop_layer = layer(X, is_train)
        backprops.append(backprop_layer)

    def backprop(dY: Any) -> Any:
        for backprop_layer in reversed(backprops):
            dY = backprop_layer(dY)
        return dY

    return X, backprop
