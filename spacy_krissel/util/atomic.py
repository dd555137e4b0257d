"""Folders that are written beside their place, and put there when they are whole."""

import errno
import glob
import os
import shutil
import tempfile
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, List, Union

from .disk import coded_io, try_lock


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`, on the same disk, for as long as the block lasts.

    What processes that were killed have left of such folders is removed, and what one of them was about to replace is
    put back. Raises KrisselError K026 for an OSError, also one of the block.
    """
    with coded_io(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        restore_backup(path)
        _remove_abandoned(path)
        temporary = _sibling(path, "tmp")
        lock = None
        try:
            temporary.mkdir()
            lock = try_lock(temporary)
            yield temporary
        finally:
            if lock is not None:
                os.close(lock)
            shutil.rmtree(temporary, ignore_errors=True)


def commit_folder(temporary: Path, path: Path) -> None:
    """Rename a whole folder to `path`, in place of what is there: at any moment that is the old, nothing or the new,
    and the old one after an OSError."""
    # A directory cannot be renamed over a full one, so the old one steps aside first; memory maps of it stay valid.
    old = _sibling(path, "old")
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
    removed = _sibling(path, "del")
    os.replace(folder, removed)
    shutil.rmtree(removed, ignore_errors=True)


def backups_of(path: Path) -> List[Path]:
    """What stood at `path` when a process was killed that was about to replace it; nothing where something is there."""
    return [] if path.exists() else sorted(_left(path, "old"), key=os.path.getmtime)


def restore_backup(path: Path) -> None:
    """Put what was about to be replaced back in its place, if nothing is there."""
    if found := backups_of(path):
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


def _sibling(path: Path, suffix: str) -> Path:
    return path.parent / f".{path.name}.{uuid.uuid4().hex[:8]}.{suffix}"


def _left(path: Path, suffix: str) -> List[Path]:
    return list(path.parent.glob(f".{glob.escape(path.name)}.????????.{suffix}"))


@contextmanager
def atomic_file(path: Union[str, Path]) -> Iterator[Path]:
    """Yields a new, empty sibling of `path`, renamed to it when the block ends without an exception, else removed: at
    any moment `path` is the earlier file or the new one. Its folder is made.

    The sibling's name is used once, so that two writers of one path do not meet; what killed ones left is removed. Of a
    link it is the file that is replaced.
    Raises KrisselError K026 for what the disk refuses, here and in the block.
    """
    with coded_io(path):
        path = Path(os.path.realpath(path))
        check_file(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned_files(path)
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
        # Exclusive: where others may write, too, a link that stands there is not followed.
        os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
        lock = None
        try:
            lock = try_lock(temporary)
            yield temporary
            os.replace(temporary, path)
        finally:
            if lock is not None:
                os.close(lock)
            # What goes wrong here is not what went wrong.
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_text(path: Union[str, Path], text: str) -> None:
    """`Path.write_text` in UTF-8, all or nothing (`atomic_file`). What UTF-8 cannot hold, such as bytes of a command
    line that were not UTF-8, is written as escapes."""
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf8", errors="backslashreplace")


def check_file(path: Union[str, Path]) -> None:
    """Raises KrisselError K026 where no file can be written to `path`: before the work, not after it."""
    path = Path(path)
    with coded_io(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    check_parent(path)


def check_folder(path: Union[str, Path]) -> None:
    """Raises KrisselError K026 where no file can be written to the folder `path`, which may have to be made."""
    check_parent(Path(path) / "file")


def check_parent(path: Union[str, Path]) -> None:
    """Raises KrisselError K026 where nothing can be created at `path`, its folder included."""
    with coded_io(path):
        folder = Path(path).absolute().parent
        while not (folder.exists() or folder.is_symlink()):
            folder = folder.parent
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        try:
            # Permissions tell little of a disk that is read-only, and nothing to root.
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            error.filename = str(folder)
            raise


def _remove_abandoned_files(path: Path) -> None:
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"):
        # A folder of that name is none of ours (`util.beside`).
        if temporary.is_file() and (lock := try_lock(temporary)) is not None:
            temporary.unlink(missing_ok=True)
            os.close(lock)
