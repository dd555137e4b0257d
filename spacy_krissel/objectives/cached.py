"""Gradients of a loss over a whole batch of vectors, in the memory of a chunk of it."""

from typing import Any, Callable, List, Tuple, cast

from thinc.api import Model
from thinc.types import Floats2d

from ..layers.rng import capture_rng, replay_rng
from ..views import View


def update_in_chunks(
    model: Model[List[View], Floats2d],
    views: List[View],
    loss: Callable[[Floats2d], Tuple[Floats2d, float]],
    chunk_size: int = 0,
) -> float:
    """Accumulate in `model` the gradient of `loss(model(views))`. RETURNS: the loss.

    With `chunk_size` views at a time: encode every chunk and keep only its vectors, take the loss and its gradient with
    respect to all vectors, then encode every chunk again, with the random state of its first time and so the same
    dropout, and run its backward pass. The gradient equals that of one pass; the price is one more forward pass, the
    gain that the activations of one chunk alone are held. (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch
    Size under Memory Limited Setup".)

    chunk_size: views encoded together; 0, or at least the number of views, is one plain pass.
    """
    if not chunk_size or chunk_size >= len(views):
        vectors, backprop = model.begin_update(views)
        gradient, value = loss(vectors)
        backprop(gradient)
        return value
    chunks = [views[i : i + chunk_size] for i in range(0, len(views), chunk_size)]
    states = []
    encoded = []
    for chunk in chunks:
        states.append(capture_rng())
        # The callback, and with it the chunk's activations, is dropped at once.
        encoded.append(model.begin_update(chunk)[0])
    gradient, value = loss(cast(Any, model.ops.xp).vstack(encoded))
    start = 0
    for chunk, state in zip(chunks, states):
        with replay_rng(state):
            _, backprop = model.begin_update(chunk)
        backprop(gradient[start : start + len(chunk)])
        start += len(chunk)
    return value
