"""thinc layer around a Hugging Face encoder, and its passes over many rows of pieces."""

from collections.abc import Callable
from functools import partial
from typing import Any, cast

from thinc.api import ArgsKwargs, Model, torch2xp, xp2torch
from thinc.layers.pytorchwrapper import forward
from thinc.types import Floats2d

from .passes import Passes
from .pooling import Pooling, pool
from .shim import TransformerShim
from .training_passes import current_tap
from .wordpieces import Pieces


def hf_wrapper(
    tokenizer_config: dict[str, Any],
    transformer_config: dict[str, Any],
    *,
    pooling: Pooling,
    mixed_precision: bool = False,
    compile: bool = False,
    batch_pieces: int | None = None,
) -> Model[Pieces, Floats2d]:
    """Return a layer from `Pieces` to one vector per view (m, d), float32.

    Vectors are pooled from the last hidden state. Weights come with `TransformerShim.read`. The
    backprop takes the gradient of the vectors; piece ids have none, so it returns None.
    """
    return Model(
        "hf-pytorch",
        forward,
        attrs={
            "convert_inputs": _convert_inputs,
            "convert_outputs": partial(_convert_outputs, pooling=pooling),
        },
        shims=[
            TransformerShim(
                dict(tokenizer_config),
                dict(transformer_config),
                mixed_precision=mixed_precision,
                compile=compile,
                batch_pieces=batch_pieces,
            )
        ],
        dims={"nI": None, "nO": None},
    )


def hf_shim(model: Model[Any, Any]) -> TransformerShim:
    """Return the shim of the one transformer in `model`."""
    (found,) = transformer_shims(model)
    return found


def encode_passes(
    model: Model[Pieces, Floats2d], passes: Passes, is_train: bool, *, width: int
) -> tuple[Floats2d, Callable[[Floats2d], list[Any]]]:
    """Return the vectors (n, width) of n rows by a model above an `hf_wrapper`, and the
    backprop.
    """
    if not passes.sizes:
        return model.ops.alloc2f(0, width), lambda d_vectors: []
    xp: Any = model.ops.xp
    backprops: list[Callable[..., Any]] = []
    found = []
    with hf_shim(model).autocast():
        for pieces in passes.pieces:
            vectors, backprop_pass = model(pieces, is_train)
            found.append(vectors)
            if is_train:
                backprops.append(backprop_pass)

    def backprop(d_vectors: Floats2d) -> list[Any]:
        d_sorted = d_vectors[passes.order]
        end = len(d_sorted)
        for size in reversed(passes.sizes):
            # Popped, to free each pass's activations.
            backprops.pop()(d_sorted[end - size : end])
            end -= size
        return []

    return xp.concatenate(found)[passes.inverse], backprop


def _convert_inputs(
    model: Model[Any, Any], X: Pieces, is_train: bool
) -> tuple[ArgsKwargs, Callable[[Any], None]]:
    shim: Any = model.shims[0]
    inputs = {"input_ids": X.ids}
    tap = current_tap() if is_train else None
    if tap is not None:
        inputs = {"inputs_embeds": tap(shim.transformer.get_input_embeddings()(X.ids))}
    return ArgsKwargs(args=(), kwargs={**inputs, "attention_mask": shim.mask(X)}), _no_gradient


def _no_gradient(_: Any) -> None:
    return None


def _convert_outputs(
    model: Model[Any, Any], X_Y: tuple[Pieces, Any], is_train: bool, *, pooling: Pooling
) -> tuple[Floats2d, Callable[[Floats2d], ArgsKwargs]]:
    pieces, output = X_Y
    # bfloat16 under autocast, and numpy has no bfloat16.
    vectors = pool(pooling, output[0].float(), pieces)

    def backprop(d_vectors: Floats2d) -> ArgsKwargs:
        gradient = xp2torch(d_vectors, device=vectors.device)
        return ArgsKwargs(args=((vectors,),), kwargs={"grad_tensors": (gradient,)})

    return cast(Floats2d, torch2xp(vectors.detach())), backprop


def transformer_shims(model: Model[Any, Any]) -> list[TransformerShim]:
    return [
        shim for node in model.walk() for shim in node.shims if isinstance(shim, TransformerShim)
    ]
