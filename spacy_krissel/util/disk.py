"""Coded errors for disks and damaged files, and locks on folders."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import Errors, KrisselError

_FULL = "Free space there, or choose a path on another disk, and run it again"
_FORBIDDEN = "Choose a path that you may read and write, or change its permissions"
_ADVICE = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _FORBIDDEN,
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.ENOTDIR: "A file stands where a folder is needed: choose another path",
    errno.EISDIR: "A folder stands where a file is needed: choose another path",
    errno.EEXIST: "Something else stands at that path: choose another one",
    errno.ENOENT: "Check the path",
    errno.ENAMETOOLONG: "Choose a shorter path",
    errno.EMFILE: "Raise the limit of open files (ulimit -n)",
}


def is_full(error: BaseException) -> bool:
    """Return whether a full disk is the cause of `error`."""
    return isinstance(error.__cause__, OSError) and error.__cause__.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
    )


@contextmanager
def coded_io(path: str | Path) -> Iterator[None]:
    """Raise OSErrors of the block as KrisselError K026, about the file that the error names, or
    else `path`.

    MemoryError (including Arrow's) and BrokenPipeError pass through.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise disk_error(error, path) from error


def disk_error(error: OSError, path: str | Path = "") -> KrisselError:
    """Return K026 for `error`, about the file that it names, or else `path`."""
    named = error.filename if isinstance(error.filename, (str, Path)) else path
    problem = error.strerror or str(error) or type(error).__name__
    advice = _ADVICE.get(error.errno or 0, "Check the disk, and run it again")
    return KrisselError(Errors.K026.format(path=named, problem=problem, advice=advice))


def try_lock(folder: Path) -> int | None:
    """Lock a file or folder until the handle is closed or this process ends.

    RETURNS: the handle; None if another process holds the lock, or locks are not supported
        (Windows, some network disks).
    """
    try:
        import fcntl
    except ImportError:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        return None
    return handle


@contextmanager
def coded_damage(path: Path, coded: Callable[[object], Exception]) -> Iterator[None]:
    """Raise library errors about the content of the file `path` as the error that `coded` returns.

    MemoryError passes through; disk errors become KrisselError K026.
    """
    try:
        yield
    except (KrisselError, MemoryError):
        raise
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise MemoryError(f"{path}: {error}") from error
        # For Arrow, a file that ends too early is an OSError; for bzip2, so is damaged data. Both
        # lack a number. EINVAL is a seek to an offset that damaged bytes state.
        is_content = error.errno in (None, errno.EINVAL)
        raise (coded(error) if is_content else disk_error(error, path)) from error
    except Exception as error:  # Libraries and versions raise different errors for damaged bytes.
        raise coded(error) from error
