"""The thinc layer around a Hugging Face encoder."""

from collections.abc import Callable
from typing import Any, cast

import torch
from thinc.api import ArgsKwargs, Model, torch2xp, xp2torch
from thinc.layers.pytorchwrapper import forward
from thinc.types import Floats3d

from .input_embeddings import current_tap
from .pooling import PieceVectors
from .shim import TransformerShim
from .wordpieces import Pieces


def hf_wrapper(
    tokenizer_config: dict[str, Any], transformer_config: dict[str, Any], *, mixed_precision: bool = False
) -> Model[Pieces, PieceVectors]:
    """`Pieces` of (n, longest) to the last hidden state (n, longest, d), float32. Weights come with
    `TransformerShim.read`.

    The backprop takes the gradient of the hidden state; piece ids have none, so it returns None.
    """
    return Model(
        "hf-pytorch",
        forward,
        attrs={"convert_inputs": convert_inputs, "convert_outputs": convert_outputs},
        shims=[TransformerShim(dict(tokenizer_config), dict(transformer_config), mixed_precision=mixed_precision)],
        dims={"nI": None, "nO": None},
    )


def hf_shim(model: Model) -> TransformerShim:
    """The shim of the one transformer in `model`."""
    (found,) = [shim for node in model.walk() for shim in node.shims if isinstance(shim, TransformerShim)]
    return found


def convert_inputs(model: Model, X: Pieces, is_train: bool) -> tuple[ArgsKwargs, Callable[[Any], None]]:
    device = model.shims[0].device  # type: ignore[attr-defined]
    ids = torch.from_numpy(X.ids).to(device)  # (n, longest)
    lengths = torch.from_numpy(X.lengths).to(device)
    mask = (torch.arange(ids.shape[1], device=device)[None] < lengths[:, None]).long()
    inputs = {"input_ids": ids}
    tap = current_tap() if is_train else None
    if tap is not None:
        words = model.shims[0].transformer.get_input_embeddings()  # type: ignore[attr-defined]
        inputs = {"inputs_embeds": tap.through(words(ids))}
    return ArgsKwargs(args=(), kwargs={**inputs, "attention_mask": mask}), _no_gradient


def _no_gradient(_: Any) -> None:
    return None


def convert_outputs(model: Model, X_Y: tuple[Pieces, Any], is_train: bool) -> tuple[PieceVectors, Callable]:
    pieces, output = X_Y
    hidden = output[0].float()  # (n, longest, d); bfloat16 under autocast, and numpy has no bfloat16

    def backprop(d_vectors: Floats3d) -> ArgsKwargs:
        gradient = xp2torch(d_vectors, device=hidden.device)
        return ArgsKwargs(args=((hidden,),), kwargs={"grad_tensors": (gradient,)})

    return PieceVectors(cast(Floats3d, torch2xp(hidden.detach())), pieces), backprop
