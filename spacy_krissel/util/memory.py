"""Memory of a process: mapped arrays, and collections of garbage."""

import gc
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
