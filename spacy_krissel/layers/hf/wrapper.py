"""The thinc layer around a Hugging Face encoder, and its passes over many rows of pieces."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import torch
from thinc.api import ArgsKwargs, Model, torch2xp, xp2torch
from thinc.layers.pytorchwrapper import forward
from thinc.types import Floats2d

from .input_embeddings import current_tap
from .pooling import Pooling, on_device, pool
from .shim import TransformerShim
from .wordpieces import PieceRow, Pieces, pad_pieces, read_together, training_lengths


def hf_wrapper(
    tokenizer_config: dict[str, Any],
    transformer_config: dict[str, Any],
    *,
    pooling: Pooling,
    mixed_precision: bool = False,
    compile: bool = False,
) -> Model[Pieces, Floats2d]:
    """`Pieces` to one vector per view (m, d), float32, pooled from the last hidden state. Weights come with
    `TransformerShim.read`.

    The backprop takes the gradient of the vectors; piece ids have none, so it returns None.
    """
    return Model(
        "hf-pytorch",
        forward,
        attrs={"convert_inputs": convert_inputs, "convert_outputs": partial(convert_outputs, pooling=pooling)},
        shims=[
            TransformerShim(
                dict(tokenizer_config), dict(transformer_config), mixed_precision=mixed_precision, compile=compile
            )
        ],
        dims={"nI": None, "nO": None},
    )


def hf_shim(model: Model) -> TransformerShim:
    """The shim of the one transformer in `model`."""
    (found,) = [shim for node in model.walk() for shim in node.shims if isinstance(shim, TransformerShim)]
    return found


def encode_rows(
    model: Model[Pieces, Floats2d],
    rows: Sequence[PieceRow],
    is_train: bool,
    *,
    width: int,
    batch_pieces: int,
    window: int = 0,
) -> tuple[Floats2d, Callable[[Floats2d], list[Any]]]:
    """The vectors (m, width) of m rows by a model above an `hf_wrapper`, in passes of similar length, and the backprop.
    Rows that share their array of ids are read once.

    batch_pieces: pieces per pass, padding included.
    window: passes are padded to its `training_lengths`, in training; 0: to their own length.
    """
    shim = hf_shim(model)
    lengths = training_lengths(window, shim.max_window) if window and is_train else ()
    together = read_together(rows)
    vectors = model.ops.alloc2f(len(rows), width)
    backprops = []
    with shim.autocast():
        for chosen in shim.batches([rows[group[0]] for group in together], batch_pieces):
            batch = [i for each in chosen for i in together[each]]
            pieces = pad_pieces([rows[i] for i in batch], shim.tokenizer.pad_token_id, lengths)
            vectors[batch], backprop_batch = model(pieces, is_train)
            if is_train:
                backprops.append((batch, backprop_batch))

    def backprop(d_vectors: Floats2d) -> list[Any]:
        while backprops:  # frees each part's activations
            batch, backprop_batch = backprops.pop()
            backprop_batch(d_vectors[batch])
        return []

    return vectors, backprop


def convert_inputs(model: Model, X: Pieces, is_train: bool) -> tuple[ArgsKwargs, Callable[[Any], None]]:
    device = model.shims[0].device  # type: ignore[attr-defined]
    ids = on_device(X.ids, device)  # (n, longest)
    lengths = on_device(X.lengths, device)
    mask = (torch.arange(ids.shape[1], device=device)[None] < lengths[:, None]).long()
    inputs = {"input_ids": ids}
    tap = current_tap() if is_train else None
    if tap is not None:
        words = model.shims[0].transformer.get_input_embeddings()  # type: ignore[attr-defined]
        inputs = {"inputs_embeds": tap(words(ids))}
    return ArgsKwargs(args=(), kwargs={**inputs, "attention_mask": mask}), _no_gradient


def _no_gradient(_: Any) -> None:
    return None


def convert_outputs(
    model: Model, X_Y: tuple[Pieces, Any], is_train: bool, *, pooling: Pooling
) -> tuple[Floats2d, Callable[[Floats2d], ArgsKwargs]]:
    pieces, output = X_Y
    # bfloat16 under autocast, and numpy has no bfloat16.
    vectors = pool(pooling, output[0].float(), pieces)

    def backprop(d_vectors: Floats2d) -> ArgsKwargs:
        gradient = xp2torch(d_vectors, device=vectors.device)
        return ArgsKwargs(args=((vectors,),), kwargs={"grad_tensors": (gradient,)})

    return cast(Floats2d, torch2xp(vectors.detach())), backprop
