"""Progress bars, for people who watch."""

from typing import Any, Iterable, Optional


def progress_bar(items: Optional[Iterable] = None, *, show: bool, **settings: Any) -> Any:
    """`tqdm(items, **settings)`, drawn when it is to be shown and standard error is a terminal.

    In a log, each of its refreshes would be a line of its own.
    """
    from tqdm import tqdm

    return tqdm(items, disable=None if show else True, **settings)
