"""Helpers of training passes: word pieces made once per step, and taps on input embeddings."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import cycle
from typing import Any, TypeVar

T = TypeVar("T")
# By model and items, what was made from them, and the items, whose ids must stay their own.
Kept = dict[tuple[int, ...], tuple[Any, Sequence[Any]]]

_KEPT: ContextVar[Kept | None] = ContextVar("kept_passes", default=None)


@contextmanager
def keeping_passes(kept: Kept | None = None) -> Iterator[Kept]:
    """Within, training passes keep their pieces, and take those of an earlier pass over the same
    objects.

    kept: yielded by an earlier block. None: that of the block around this one, or an empty one.
    """
    around = _KEPT.get()
    kept = kept if kept is not None else around if around is not None else {}
    token = _KEPT.set(kept)
    try:
        yield kept
    finally:
        _KEPT.reset(token)


def kept_pass(model_id: int, items: Sequence[Any], make: Callable[[], T], is_train: bool) -> T:
    """`make()`, or in training its earlier result within `keeping_passes`, for this model and these
    items."""
    kept = _KEPT.get() if is_train else None
    if kept is None:
        return make()
    key = (model_id, *map(id, items))
    if key not in kept:
        kept[key] = make(), tuple(items)
    found: T = kept[key][0]
    return found


# From embeddings (n, longest, d), a torch tensor, to the input of the transformer.
Tap = Callable[[Any], Any]

_TAP: ContextVar[Tap | None] = ContextVar("input_embeddings_tap", default=None)


def current_tap() -> Tap | None:
    return _TAP.get()


@contextmanager
def tapped(tap: Tap) -> Iterator[None]:
    """Within, the input embeddings of every training pass of a transformer go through `tap`."""
    token = _TAP.set(tap)
    try:
        yield
    finally:
        _TAP.reset(token)


class RecordedInputs(list[Any]):
    """A tap that keeps the word embeddings of each pass, which have gradients after the backward pass; the weights that
    they come from have none. Position and segment embeddings are added to them, so the gradient is that of the sum
    too."""

    def __call__(self, embeddings: Any) -> Any:
        embeddings = embeddings.detach().requires_grad_()
        self.append(embeddings)
        return embeddings

    def signed(self, epsilon: float) -> Tap:
        """A tap that adds a step of `epsilon` along the sign of each gradient (FGSM: PEL §4.2, eq. 5), to repeat the
        same passes in their order. Of passes that were run twice, to save memory, only the second has gradients; they
        are repeated twice."""
        steps = cycle([epsilon * embeddings.grad.sign() for embeddings in self if embeddings.grad is not None])
        return lambda embeddings: embeddings + next(steps)
