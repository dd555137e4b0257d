"""Progress bars."""

from collections.abc import Iterable
from typing import Any


def progress_bar(items: Iterable | None = None, *, show: bool, **settings: Any) -> Any:
    """`tqdm(items, **settings)`, drawn only if `show` and standard error is a terminal: in a log, each refresh would be
    a line."""
    from tqdm import tqdm

    return tqdm(items, disable=None if show else True, **settings)
