"""Folders that are written beside their place, and put there when they are whole."""

import glob
import os
import shutil
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, List, Union

from .disk import coded_io, try_lock


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, on the same disk, for as long as the block lasts.

    What processes that were killed have left of such folders is removed, and what one of them was about to replace is
    put back. Raises KrisselError K026 for an OSError, also one of the block.
    """
    with coded_io(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        put_back(path)
        _remove_abandoned(path)
        temporary = _beside(path, "tmp")
        lock = None
        try:
            temporary.mkdir()
            lock = try_lock(temporary)
            yield temporary
        finally:
            if lock is not None:
                os.close(lock)
            shutil.rmtree(temporary, ignore_errors=True)


def put_in_place(temporary: Path, path: Path) -> None:
    """Rename a whole folder to `path`, in place of what is there: at any moment that is the old, nothing or the new,
    and the old one after an OSError."""
    # A directory cannot be renamed over a full one, so the old one steps aside first; memory maps of it stay valid.
    old = _beside(path, "old")
    if path.exists():
        os.replace(path, old)
    try:
        os.replace(temporary, path)
    except OSError:
        if old.exists():
            os.replace(old, path)
        raise
    # This one, and those of processes that were killed before they came here.
    for aside in _left(path, "old"):
        _remove(aside, path)


def remove_folder(path: Union[str, Path]) -> None:
    """`shutil.rmtree`, of which at any moment all is there or nothing."""
    _remove(Path(path), Path(path))


def _remove(folder: Path, path: Path) -> None:
    # What is half removed is never taken for what stepped aside.
    removed = _beside(path, "del")
    os.replace(folder, removed)
    shutil.rmtree(removed, ignore_errors=True)


def stepped_aside(path: Path) -> List[Path]:
    """What stood at `path` when a process was killed that was about to replace it; nothing where something is there."""
    return [] if path.exists() else sorted(_left(path, "old"), key=os.path.getmtime)


def put_back(path: Path) -> None:
    """Put what was about to be replaced back in its place, if nothing is there."""
    if found := stepped_aside(path):
        os.replace(found[-1], path)


def _remove_abandoned(path: Path) -> None:
    """Remove what processes that were killed while they wrote `path` have left beside it."""
    for removed in _left(path, "del"):
        shutil.rmtree(removed, ignore_errors=True)
    for temporary in _left(path, "tmp"):
        lock = try_lock(temporary)
        if lock is not None:
            shutil.rmtree(temporary, ignore_errors=True)
            os.close(lock)


def _beside(path: Path, suffix: str) -> Path:
    return path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.{suffix}"


def _left(path: Path, suffix: str) -> List[Path]:
    return list(path.parent.glob(f".{glob.escape(path.name)}.????????.{suffix}"))
