"""Word pieces that are made once for all passes of a training step over the same views."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
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
