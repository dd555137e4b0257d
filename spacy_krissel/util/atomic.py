"""Atomic writes: files and folders are written as temporary siblings and committed by rename."""

import ctypes
import errno
import glob
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from pathlib import Path

from .disk import coded_io, try_lock
from .outputs import backup_of_replaced, kept_file

# Constants of Linux's renameat2, which Python lacks.
AT_FDCWD, RENAME_EXCHANGE = -100, 2
# Suffixes of large files that are never edited in place, and whether a `hard_linking` block is
# active.
HARD_LINKED = (".arrow", ".npy", ".faiss")
_LINKING: ContextVar[bool] = ContextVar("krissel_linking", default=False)
is_hard_linking = _LINKING.get


@contextmanager
def temporary_folder(path: Path) -> Iterator[Path]:
    """Create a sibling folder of `path`, or of the target of a link, and remove it at the end of
    the block unless it is committed (`commit_folder`).

    Also removes leftovers of killed processes, and restores a folder that one of them was about to
    replace.

    Raises KrisselError K026 for an OSError, including those of the block.
    """
    with coded_io(path):
        path = _target(path)
        restore_backup(path)
        for removed in _siblings(path, "del"):
            _remove_folder(removed)
        with _temporary(path, Path.mkdir, _remove_folder) as temporary:
            yield temporary


def commit_folder(temporary: Path, path: Path) -> None:
    """Rename a complete folder to `path`, or to the target of a link, and replace an existing
    folder.

    At any moment `path` is the old folder or the new one, and the old one after an OSError. If the
    system cannot exchange folders (`exchange`), a killed process may leave nothing at `path`; the
    next run restores the backup.
    """
    path = _target(path)
    kept = backup_of_replaced(path, temporary)
    if kept is None and path.exists() and exchange(temporary, path):
        _remove(temporary, path)
    else:
        # A folder cannot be renamed over a non-empty one, so the old one becomes a backup. Memory
        # maps of the old one stay valid.
        backup = _sibling(path, "old") if kept is None else kept
        if path.exists():
            os.replace(path, backup)
        try:
            os.replace(temporary, path)
        except OSError:
            if backup.exists():
                os.replace(backup, path)
            raise
    # Include backups of processes that were killed before this line.
    for old in _siblings(path, "old"):
        _remove(old, path)


@contextmanager
def hard_linking() -> Iterator[None]:
    """Within the block, copy large files (`HARD_LINKED`) of a folder as hard links where possible.

    Training repeatedly saves files that it does not change. This package replaces such files and
    never writes into them.
    """
    token = _LINKING.set(True)
    try:
        yield
    finally:
        _LINKING.reset(token)


def copy_folder(source: str | Path, output: Path) -> None:
    """Copy a folder atomically; see `hard_linking`."""
    with temporary_folder(output) as folder:
        shutil.copytree(source, folder, copy_function=_copy, dirs_exist_ok=True)
        commit_folder(folder, output)


def _copy(source: str, target: str) -> None:
    if is_hard_linking() and source.endswith(HARD_LINKED):
        with suppress(OSError):
            # Link to the target of a symbolic link, since the link may be relative.
            os.link(os.path.realpath(source), target)
            return
    shutil.copy2(source, target)


def exchange(first: Path, second: Path) -> bool:
    """Exchange the names of two files or folders in one step; False if the system cannot.

    Raises OSError for other failures of the disk.
    """
    renameat2 = (
        getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if sys.platform == "linux"
        else None
    )
    if renameat2 is None:
        return False
    # Report the event of `os.rename` to audit hooks.
    sys.audit("os.rename", str(first), str(second), -1, -1)
    if renameat2(AT_FDCWD, os.fsencode(first), AT_FDCWD, os.fsencode(second), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def remove_folder(path: str | Path) -> None:
    """Remove a folder, or the target of a link, atomically."""
    path = _target(Path(path))
    _remove(path, path)


def backups_of(path: Path) -> list[Path]:
    """Return the backups of a `path` whose replacement was killed, oldest first; empty if `path`
    exists.
    """
    path = _target(path)
    return [] if path.exists() else sorted(_siblings(path, "old"), key=os.path.getmtime)


def restore_backup(path: Path) -> None:
    """Rename the latest backup to `path`, if nothing is there."""
    if found := backups_of(path):
        os.replace(found[-1], _target(path))


def _target(path: Path) -> Path:
    """Resolve a link; return any other path unchanged."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


def _remove(folder: Path, path: Path) -> None:
    # A partly removed folder must never be taken for a backup.
    removed = _sibling(path, "del")
    os.replace(folder, removed)
    _remove_folder(removed)


@contextmanager
def _temporary(
    path: Path, create: Callable[[Path], None], remove: Callable[[Path], None]
) -> Iterator[Path]:
    """Create a locked sibling of `path`, and remove it at the end of the block. Leftovers of killed
    processes are removed as well.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for abandoned in _siblings(path, "tmp"):
        if (lock := try_lock(abandoned)) is not None:
            remove(abandoned)
            os.close(lock)
    temporary = _sibling(path, "tmp")
    lock = None
    try:
        create(temporary)
        lock = try_lock(temporary)
        yield temporary
    finally:
        if lock is not None:
            os.close(lock)
        remove(temporary)


def _remove_folder(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _remove_file(file: Path) -> None:
    # A folder with that name is not a temporary file; an error here must not hide the block's.
    with suppress(OSError):
        if file.is_file():
            file.unlink()


def _sibling(path: Path, suffix: str) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.{suffix}")


def _siblings(path: Path, suffix: str) -> list[Path]:
    return list(path.parent.glob(f".{glob.escape(path.name)}.????????.{suffix}"))


@contextmanager
def atomic_file(path: str | Path) -> Iterator[Path]:
    """Yield a new, empty sibling of `path`, which is renamed to `path` at the end of the block, or
    removed after an exception.

    At any moment `path` is the earlier file or the new one. The parent folder is created; the
    target of a link is replaced. The sibling's name is unique, so concurrent writers of one path do
    not collide. Leftovers of killed writers are removed.

    Raises KrisselError K026 for an OSError, including those of the block.
    """
    with coded_io(path):
        path = Path(os.path.realpath(path))
        check_file(path)
        # Create exclusively: in a shared folder, no link of another user must be followed.
        with _temporary(path, partial(Path.touch, exist_ok=False), _remove_file) as temporary:
            yield temporary
            with kept_file(path, temporary):
                os.replace(temporary, path)


def write_text(path: str | Path, text: str) -> None:
    """Write a UTF-8 text file atomically. Characters that UTF-8 cannot encode are written as
    escapes.
    """
    with atomic_file(path) as temporary:
        temporary.write_text(text, encoding="utf8", errors="backslashreplace")


def check_file(path: str | Path) -> None:
    """Raise KrisselError K026 if no file can be written to `path`."""
    path = Path(path)
    with coded_io(path):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    check_parent(path)


def check_folder(path: str | Path) -> None:
    """Raise KrisselError K026 if no file can be written to the folder `path`, which may not exist
    yet.
    """
    check_parent(Path(path) / "file")


def check_parent(path: str | Path) -> None:
    """Raise KrisselError K026 if nothing can be created at `path`, including its folder."""
    with coded_io(path):
        if Path(path).is_symlink():
            with suppress(FileNotFoundError):
                # Raises OSError for a link that leads to itself.
                os.stat(path)
        folder = Path(path).absolute().parent
        while not (folder.exists() or folder.is_symlink()):
            folder = folder.parent
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder))
        try:
            # Permissions do not reveal a read-only disk, and do not apply to root.
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            error.filename = str(folder)
            raise
