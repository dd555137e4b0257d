"""Progress bars."""

from typing import Any, Iterable, Optional


def progress_bar(items: Optional[Iterable] = None, *, show: bool, **settings: Any) -> Any:
    """`tqdm(items, **settings)`, drawn only if `show` and standard error is a terminal: in a log, each refresh would be
    a line."""
    from tqdm import tqdm

    return tqdm(items, disable=None if show else True, **settings)
