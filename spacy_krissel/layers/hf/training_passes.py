"""Helpers of training passes: reuse of word pieces within a step, and taps on input embeddings."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import cycle
from typing import Any, TypeVar

T = TypeVar("T")
# By model and items: the result made from them, and the items themselves, which keeps their ids
# valid.
PassCache = dict[tuple[int, ...], tuple[Any, Sequence[Any]]]

_PASS_CACHE: ContextVar[PassCache | None] = ContextVar("kept_passes", default=None)


@contextmanager
def reuse_passes(kept: PassCache | None = None) -> Iterator[PassCache]:
    """Context in which training passes store their pieces, and reuse those of an earlier pass.

    The earlier pass must be over the same objects.

    kept: yielded by an earlier block. None: that of the enclosing block, or an empty one.
    """
    around = _PASS_CACHE.get()
    kept = kept if kept is not None else around if around is not None else {}
    token = _PASS_CACHE.set(kept)
    try:
        yield kept
    finally:
        _PASS_CACHE.reset(token)


def reused_pass(model_id: int, items: Sequence[Any], make: Callable[[], T], is_train: bool) -> T:
    """Return `make()`, or in training its earlier result for this model and these items.

    Results are shared within `reuse_passes`.
    """
    kept = _PASS_CACHE.get() if is_train else None
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
def tap_embeddings(tap: Tap) -> Iterator[None]:
    """Apply `tap` to the input embeddings of every training pass of a transformer in this
    context.
    """
    token = _TAP.set(tap)
    try:
        yield
    finally:
        _TAP.reset(token)


class RecordedInputs(list[Any]):
    """A tap that stores the word embeddings of each pass, which get gradients in the backward pass.

    The weights behind them get none. Position and segment embeddings are added to them, so the
    gradient is also that of the sum.
    """

    def __call__(self, embeddings: Any) -> Any:
        embeddings = embeddings.detach().requires_grad_()
        self.append(embeddings)
        return embeddings

    def fgsm_tap(self, epsilon: float) -> Tap:
        """Return a tap that adds a step of `epsilon` along the sign of each gradient.

        This is FGSM (PEL §4.2, eq. 5), for repeating the same passes in their order. If passes were
        run twice, to save memory, only the second run has gradients; they are repeated twice as
        well.
        """
        steps = cycle(
            [epsilon * embeddings.grad.sign() for embeddings in self if embeddings.grad is not None]
        )
        return lambda embeddings: embeddings + next(steps)
