"""Progress bars."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from .inputs import CountedFile

Item = TypeVar("Item")


def progress_bar(items: Iterable[Any] | None = None, *, show: bool, **settings: Any) -> Any:
    """Return `tqdm(items, **settings)`, drawn only if `show` and standard error is a terminal: each
    refresh would add a line to a log.
    """
    from tqdm import tqdm

    return tqdm(items, disable=None if show else True, **settings)


def reading_bar(
    items: Iterable[Item], size: int, *, show: bool, unit: str, desc: str
) -> Iterator[Item]:
    """Yield `items`, with a bar of the bytes read from their files (`open_input`), out of `size`.

    unit: name of an item.
    """
    began = CountedFile.n_read
    with progress_bar(show=show, total=size, desc=desc, unit="B", unit_scale=True) as bar:
        for number, item in enumerate(items, 1):
            bar.set_postfix_str(f"{number:,}{unit}", refresh=False)
            bar.update(min(CountedFile.n_read - began, size) - bar.n)
            yield item
        # Some files are not read to their end, or are read by other means.
        bar.update(size - bar.n)


def size_of(paths: Iterable[str | Path]) -> int:
    """Return the total size in bytes of files, and of the files below folders."""
    every = (
        file_
        for path in map(Path, paths)
        for file_ in ([path] if path.is_file() else path.rglob("*"))
    )
    return sum(file_.stat().st_size for file_ in every if file_.is_file())
