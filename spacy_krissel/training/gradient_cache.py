"""Gradients of a loss over a whole batch of vectors, in the memory of a chunk of it."""

from typing import Any, Callable, List, Tuple

from thinc.api import Model
from thinc.types import Floats2d

from ..distributed.random_state import capture_rng, replay_rng
from ..views import View
from .shared import begin_views, view_length


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
    Size under Memory Limited Setup".) Views of like length share a chunk, so that little of it is padding. Of several
    processes each has chunks of its own share of the views; the loss is over all of them.

    chunk_size: views encoded together; 0, or at least the number of views, is one plain pass.
    """

    def begin(own: List[View]) -> Tuple[Floats2d, Callable]:
        if not chunk_size or chunk_size >= len(own):
            return model.begin_update(own)
        return _begin_in_chunks(model, own, chunk_size)

    vectors, backprop = begin_views(begin, views)
    gradient, value = loss(vectors)
    backprop(gradient)
    return value


def _begin_in_chunks(
    model: Model[List[View], Floats2d], views: List[View], chunk_size: int
) -> Tuple[Floats2d, Callable[[Floats2d], None]]:
    order = sorted(range(len(views)), key=lambda i: -view_length(views[i]))
    chunks = [order[i : i + chunk_size] for i in range(0, len(order), chunk_size)]
    states = []
    all_vectors: Any = None
    for chunk in chunks:
        states.append(capture_rng())
        # The callback, and with it the chunk's activations, is dropped at once.
        encoded = model.begin_update([views[i] for i in chunk])[0]
        if all_vectors is None:
            all_vectors = model.ops.alloc2f(len(views), encoded.shape[1])
        all_vectors[chunk] = encoded

    def backprop(gradient: Floats2d) -> None:
        for chunk, state in zip(chunks, states, strict=True):
            with replay_rng(state):
                _, backprop_chunk = model.begin_update([views[i] for i in chunk])
            backprop_chunk(gradient[chunk])

    return all_vectors, backprop
