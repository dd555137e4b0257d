"""Passes of a batch through a model: split over processes, in chunks, and with adversarial
inputs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
from thinc.api import Model
from thinc.types import Floats2d

from ..distributed.processes import begin_shared, n_processes, no_backprop
from ..distributed.random_state import capture_rng, replay_rng
from ..errors import Errors, KrisselError
from ..layers.hf.training_passes import RecordedInputs, reuse_passes, tap_embeddings
from ..layers.token_states import TokenStates
from ..losses.masked import Loss
from ..views import View
from .objectives.protocol import EncoderModel

X = TypeVar("X")
Y = TypeVar("Y")
Begin = Callable[[list[X]], tuple[Y, Callable[..., Any]]]


# Data-parallel training ---------------------------------------------------------------------------


def begin_views(
    begin: Begin[View, Floats2d], views: list[View]
) -> tuple[Floats2d, Callable[..., Any]]:
    """Return `begin(views)`, such as an encoder's `begin_update`: the vectors of all views, and a
    backprop.
    The backprop takes the gradient of all vectors and runs the part of this process's views. In one
    process this is `begin(views)` itself.
    """
    if n_processes() == 1:
        return begin(views)
    groups = _read_together(views)
    sizes = [view_length(views[group[0]]) for group in groups]
    return begin_shared(
        lambda own: begin([views[i] for each in own for i in groups[each]]), sizes, groups
    )


def predict_views(model: EncoderModel, views: list[View]) -> Floats2d:
    """Return `model.predict(views)`."""
    return begin_views(lambda own: (model.predict(own), no_backprop), views)[0]


def begin_texts(
    begin: Begin[str, TokenStates], texts: list[str]
) -> tuple[TokenStates, Callable[..., Any]]:
    """Return `begin(texts)`: the states of all texts, and a backprop that takes the gradient of all
    vectors."""
    if n_processes() == 1:
        return begin(texts)
    sizes = [len(text) for text in texts]
    found: Any = None

    def read(own: list[int]) -> tuple[Any, Callable[..., Any]]:
        nonlocal found
        found = begin([texts[i] for i in own])
        return found[0].lengths, no_backprop

    lengths, _ = begin_shared(read, sizes)
    # The other processes' numbers of tokens are known from here on.
    rows = consecutive(lengths)
    offsets, _ = begin_shared(lambda own: (found[0].offsets, no_backprop), sizes, rows)
    vectors, backprop = begin_shared(lambda own: (found[0].vectors, found[1]), sizes, rows)
    return TokenStates(vectors, lengths, offsets), backprop


def consecutive(lengths: Iterable[int]) -> list[range]:
    """Return the row ranges of consecutive items of these lengths."""
    ends = np.cumsum([0, *lengths]).tolist()
    return [range(start, end) for start, end in pairwise(ends)]


def view_length(view: View) -> int:
    """Return the length in characters, which is roughly proportional to word pieces."""
    return len(view.left) + len(view.mention) + len(view.right)


def _read_together(views: Sequence[View]) -> list[list[int]]:
    """Return groups of views, by index, that one process encodes: those of one passage are read in
    one pass."""
    groups: dict[Any, list[int]] = {}
    for i, view in enumerate(views):
        groups.setdefault(
            view.left + view.mention + view.right if view.co_mentions else i, []
        ).append(i)
    return list(groups.values())


# Gradient cache -----------------------------------------------------------------------------------


def update_in_chunks(
    model: EncoderModel,
    views: list[View],
    loss: Callable[[Floats2d], tuple[Floats2d, float]],
    chunk_size: int | None = 0,
) -> float:
    """Accumulate in `model` the gradient of `loss(model(views))`. RETURNS: the loss.

    With `chunk_size` views at a time: encode every chunk and keep only its vectors, take the loss
    and its gradient with respect to all vectors, then encode every chunk again with the random
    state of its first pass, and so the same dropout, and run its backward pass. The gradient equals
    that of one pass. It costs one more forward pass and holds the activations of one chunk only
    (Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup").
    Views of similar length share a chunk, to save padding. In data-parallel training each process
    chunks its own part of the views; the loss is over all of them.

    Word pieces are made in the first pass and kept for the second.

    chunk_size: views encoded together; 0, or at least the number of views, is one plain pass. None:
        as many as fill a pass of the transformer at their window (`batch_pieces`), 64 of 64 pieces
        on the CPU and 512 on a GPU; all of them without a transformer.
    """
    vectors, backprop = begin_views(in_chunks(model, chunk_size), views)
    gradient, value = loss(vectors)
    backprop(gradient)
    return value


def in_chunks(model: EncoderModel, chunk_size: int | None) -> Begin[View, Floats2d]:
    """Return `model.begin_update` with `chunk_size` views at a time, see `update_in_chunks`."""

    def begin(own: list[View]) -> tuple[Floats2d, Callable[..., Any]]:
        order = sorted(range(len(own)), key=lambda i: -view_length(own[i]))
        if chunk_size is None:
            chunks = _filled(order, _parts_of_pass(model, own))
        else:
            size = chunk_size or max(1, len(own))
            chunks = [order[i : i + size] for i in range(0, len(order), size)]
        return _begin_in_chunks(model, own, chunks) if len(chunks) > 1 else model.begin_update(own)

    return begin


def _parts_of_pass(model: Model[Any, Any], views: list[View]) -> list[float]:
    """Return the fraction of a transformer's pass that each view takes if it fills its encoder's
    window; 0 without a transformer."""
    parts: list[float] = [
        node.attrs["settings"].window / shim.pass_pieces  # type: ignore[attr-defined]
        # Depth first, so that the encoder of mentions precedes that of references.
        for node in model.walk(order="dfs_pre")
        if node.name == "transformer_encoder"
        for inner in node.walk()
        for shim in inner.shims
    ] or [0.0]
    return [parts[-1] if view.reference else parts[0] for view in views]


def _filled(order: list[int], parts: list[float]) -> list[list[int]]:
    """Return chunks of views in this order, each at most one pass but at least one view."""
    chunks: list[list[int]] = []
    filled = 1.0
    for i in order:
        filled += parts[i]
        if filled > 1 + 1e-9 or not chunks:
            chunks.append([])
            filled = parts[i]
        chunks[-1].append(i)
    return chunks


def _begin_in_chunks(
    model: EncoderModel, views: list[View], chunks: list[list[int]]
) -> tuple[Floats2d, Callable[[Floats2d], None]]:
    states, parts = [], []
    with reuse_passes() as kept:
        for chunk in chunks:
            states.append(capture_rng())
            # The callback, and with it the chunk's activations, is dropped at once.
            parts.append(model.begin_update([views[i] for i in chunk])[0])
    xp: Any = model.ops.xp
    order = np.concatenate(chunks)

    def backprop(gradient: Floats2d) -> None:
        ends = np.cumsum([len(chunk) for chunk in chunks])[:-1].tolist()
        gradients = xp.split(gradient[xp.asarray(order)], ends)
        with reuse_passes(kept):
            for chunk, state, d_chunk in zip(chunks, states, gradients, strict=True):
                with replay_rng(state):
                    _, backprop_chunk = model.begin_update([views[i] for i in chunk])
                backprop_chunk(d_chunk)

    return xp.concatenate(parts)[xp.asarray(np.argsort(order))], backprop


# Adversarial inputs -------------------------------------------------------------------------------


Step = Callable[[Loss, float], float]


def with_adversary(
    model: Model[Any, Any], step: Step, loss: Loss, weight: float, epsilon: float
) -> float:
    """Accumulate the gradient of FGSM, `L + λ L_adv` (PEL §4.2, eq. 8). RETURNS: its value.

    step: a forward and a backward pass of a loss through a transformer, the gradient scaled by a
        number → the loss, not scaled. It runs three times, with the same dropout. The first pass
        finds the direction in which scores rise at each input embedding. The second is for L, the
        third for L_adv. There the embeddings are moved by ε against that direction's sign for a
        mention's own candidate (eq. 6), and along it for a negative (eq. 7). The direction is not
        that of L: its gradient is zero in float32 if a candidate is far enough behind, and a sum if
        several mentions share a candidate.
    weight: λ; 0 skips the first and last pass.
    epsilon: ε.

    Raises KrisselError K637 if the step reads no transformer's input embeddings.
    """
    if not weight:
        return step(loss, 1.0)
    state, inputs = capture_rng(), RecordedInputs()
    with reuse_passes():
        with tap_embeddings(inputs), frozen(model):
            step(adverse, 1.0)
        if not inputs:
            raise KrisselError(Errors.K637)
        with replay_rng(state):
            value = step(loss, 1.0)
        with replay_rng(state), tap_embeddings(inputs.fgsm_tap(epsilon)):
            return value + weight * step(loss, weight)


def adverse(scores: Floats2d, positives: Any, negatives: Any) -> tuple[Floats2d, float]:
    """Return the gradient of a pseudo-loss that lowers each mention's own candidate and raises
    negatives that are no mention's own. A candidate of several mentions follows all of them."""
    return (negatives & ~positives.any(axis=0)).astype(scores.dtype) - positives.astype(
        scores.dtype
    ), 0.0


@contextmanager
def frozen(model: Model[Any, Any]) -> Iterator[None]:
    """Keep the gradients of weights unchanged by backward passes inside this context."""
    weights = [
        weight for node in model.walk() for shim in node.shims for weight in _trained_weights(shim)
    ]
    params = [(node, name) for node in model.walk() for name in node.param_names]
    kept = [node.get_grad(name).copy() if node.has_grad(name) else None for node, name in params]
    for weight in weights:
        weight.requires_grad_(False)
    try:
        yield
    finally:
        for weight in weights:
            weight.requires_grad_(True)
        for (node, name), gradient in zip(params, kept, strict=True):
            if node.has_grad(name):
                node.set_grad(name, 0 * node.get_grad(name) if gradient is None else gradient)


def _trained_weights(shim: Any) -> list[Any]:
    """Return the trainable weights of a transformer; none for other shims."""
    transformer = getattr(shim, "transformer", None)
    return (
        [weight for weight in transformer.parameters() if weight.requires_grad]
        if transformer is not None
        else []
    )
