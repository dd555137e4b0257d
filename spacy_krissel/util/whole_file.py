"""Files that are written as temporary siblings and renamed when whole, and places that can be written to."""

import errno
import glob
import os
import tempfile
import uuid
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Iterator, Union

from .disk import coded_io, try_lock


@contextmanager
def whole_file(path: Union[str, Path]) -> Iterator[Path]:
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
        _remove_abandoned(path)
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
    """`Path.write_text` in UTF-8, all or nothing (`whole_file`). What UTF-8 cannot hold, such as bytes of a command
    line that were not UTF-8, is written as escapes."""
    with whole_file(path) as temporary:
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


def _remove_abandoned(path: Path) -> None:
    for temporary in path.parent.glob(f".{glob.escape(path.name)}.????????.tmp"):
        # A folder of that name is none of ours (`util.beside`).
        if temporary.is_file() and (lock := try_lock(temporary)) is not None:
            temporary.unlink(missing_ok=True)
            os.close(lock)
