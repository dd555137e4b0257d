"""Folder of an unfinished run: its work, its initial state, and a lock against other runs."""

import json
import os
import shutil
import tempfile
import uuid
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from weakref import WeakSet

from ..errors import Errors, KrisselError
from .disk import coded_io, try_lock

STATE = "state.json"


class FolderLock:
    """A lock on the folder `path` against other processes and other locks in this one. A missing
    folder is created.

    The lock ends with the process. held: False if locks are not supported (Windows, some network
    disks).

    Raises KrisselError K045 if the folder is locked, K026 for a disk error.
    """

    def __init__(self, path: Path) -> None:
        self._handle: int | None = None
        with coded_io(path):
            while True:
                path.mkdir(parents=True, exist_ok=True)
                self._handle = try_lock(path)
                if self._handle is None:
                    if _has_locks(path.parent):
                        raise KrisselError(Errors.K045.format(path=path))
                    return
                if _is_same(self._handle, path):
                    break
                # The holder of the lock finished and removed the folder.
                self.release()
        _held.add(self)

    @property
    def held(self) -> bool:
        return self._handle is not None

    def release(self) -> None:
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None

    __del__ = release


_held: "WeakSet[FolderLock]" = weakref.WeakSet()


def _forget_held() -> None:
    # Otherwise, workers of a killed run would keep its folder locked.
    for lock in _held:
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_held)


class WorkFolder:
    """The folder `path` of an unfinished run, locked until the end of a `with` block.

    A run stopped at any moment leaves its work, and a run with the same state resumes it. The end
    of the block releases the lock and removes a folder without work.

    Raises KrisselError K045 if another run holds the folder, K026 for a disk error.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: dict[str, Any] = {}
        self._lock = FolderLock(path)

    def __enter__(self: Any) -> Any:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._lock.held and not self.has_work():
            self.remove()
        self._lock.release()

    def start(self, state: dict[str, Any], *, restart: bool = False) -> None:
        """Start, or resume the work of an earlier run with the same `state` (JSON).

        restart: discard earlier work.

        Raises the error of `refusal` for work with another state.
        """
        self._state = json.loads(json.dumps(state))
        with coded_io(self.path):
            # A folder without state was about to be removed.
            if restart or not self.has_work() or not (self.path / STATE).exists():
                self._clear()
            elif changes := self._difference():
                self._lock.release()
                raise self.refusal(changes)
            self.write(STATE, json.dumps(self._state, indent=2, sort_keys=True).encode())

    def has_work(self) -> bool:
        """Return whether the folder holds work."""
        raise NotImplementedError

    def refusal(self, difference: str) -> KrisselError:
        """Return the error for work with another state. difference: between the states."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise KrisselError K045 if another run has taken the folder, where locks are not
        supported.
        """
        if not self._lock.held and self._difference():
            raise KrisselError(Errors.K045.format(path=self.path))

    def temporary(self, name: str) -> Path:
        """Return a new path in the folder, for a file that is renamed to `name` or is a part of
        that file.
        """
        return self.path / f"{name}.{uuid.uuid4().hex}.tmp"

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""
        temporary = self.temporary(name)
        temporary.write_bytes(content)
        os.replace(temporary, self.path / name)

    def remove(self) -> None:
        """Remove the folder and release the lock."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()

    def _clear(self) -> None:
        # Keep the folder itself, since it is locked.
        for each in self.path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()

    def _difference(self) -> str:
        """Describe the difference from the saved state, for messages; "" for none."""
        try:
            earlier = json.loads((self.path / STATE).read_text(encoding="utf8"))
        except (FileNotFoundError, ValueError, RecursionError):
            earlier = None
        if not isinstance(earlier, dict):
            return f"its {STATE} cannot be read"
        return difference(earlier, self._state)


def difference(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """Describe the difference between two states (JSON), for messages; "" for none."""
    differing = sorted(key for key in {*earlier, *now} if earlier.get(key) != now.get(key))
    return "; ".join(_change(key, earlier.get(key), now.get(key)) for key in differing)


def _change(key: str, earlier: Any, now: Any) -> str:
    # Hashes and long values are not shown.
    if len(f"{earlier!r}{now!r}") < 120 and not isinstance(now, list):
        return f"{key} was {earlier!r} and is {now!r}"
    return f"{key} changed"


def _has_locks(folder: Path) -> bool:
    """Return whether folders inside `folder` can be locked."""
    with tempfile.TemporaryDirectory(prefix=".krissel-", dir=folder) as probe:
        handle = try_lock(Path(probe))
        if handle is not None:
            os.close(handle)
    return handle is not None


def _is_same(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
