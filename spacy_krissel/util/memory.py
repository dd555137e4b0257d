"""Memory of a process: mapped arrays, collections of garbage, and what is remembered."""

import ctypes
import gc
import mmap
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
# Items: some MB where keys are a few words.
MAX_REMEMBERED = 1 << 16
# New objects between two collections, instead of 700.
MANY_OBJECTS = 50_000


def forget_pages(array: Any) -> None:
    """Give the memory of a mapped array back, which is read from its file again when needed.
    Nothing happens to an array in memory, nor to one whose changes are only there (mode "c")."""
    mapped, advice = getattr(array, "_mmap", None), getattr(mmap, "MADV_DONTNEED", None)
    if mapped is not None and advice is not None and getattr(array, "mode", "") != "c":
        mapped.madvise(advice)


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect garbage rarely within the block, which makes millions of objects that live on: each
    collection looks at those of all libraries again."""
    before = gc.get_threshold()
    gc.set_threshold(max(MANY_OBJECTS, before[0]) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def trim_heap() -> None:
    """Give freed memory back, which glibc would keep. It takes milliseconds."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


class Remembered(dict[Key, Value]):
    """A dictionary that is emptied before an item is added to `most` others.

    Another thread may empty it at any time: read an item once, with `get` or in a `try`.
    """

    # A copy is filled before it has its own.
    _most = MAX_REMEMBERED

    def __init__(self, most: int | None = None) -> None:
        super().__init__()
        self._most = MAX_REMEMBERED if most is None else most

    def __setitem__(self, key: Key, value: Value) -> None:
        if len(self) >= self._most:
            self.clear()
        super().__setitem__(key, value)
