"""The folder of an unfinished run: its work, what it was started with, and a lock against other runs."""

import json
import os
import shutil
import tempfile
import uuid
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any, Dict, Optional, Type
from weakref import WeakSet

from ..errors import Errors, KrisselError
from .disk import coded_io, try_lock

STATE = "state.json"


class FolderLock:
    """Holds the folder `path`, made if need be, against other processes, and against others in this one.

    It ends with the process. held: False where there are no locks (Windows, some network disks).

    Raises KrisselError K045 when another holds it, K026 when the disk refuses.
    """

    def __init__(self, path: Path) -> None:
        self._handle: Optional[int] = None
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
                # Its holder removed it when the work was done.
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
    # The workers of a run that was killed would hold its folder for as long as they live.
    for lock in _held:
        lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_held)


class WorkFolder:
    """The folder `path` of an unfinished run, held from here to the end of a `with` block.

    A run that was stopped at any moment leaves what it has done, and one with the same state goes on. At the end of the
    block the lock is released, and a folder without work is removed.

    Raises KrisselError K045 when another run holds the folder, K026 when the disk refuses.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._state: Dict[str, Any] = {}
        self._lock = FolderLock(path)

    def __enter__(self: Any) -> Any:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self._lock.held and not self.has_work():
            self.remove()
        self._lock.release()

    def start(self, state: Dict[str, Any], *, restart: bool = False) -> None:
        """Go on with the work that an earlier run of this `state`, JSON, left, or begin.

        restart: throw away what an earlier run left.

        Raises what `refusal` makes where there is work of another state.
        """
        self._state = json.loads(json.dumps(state))
        with coded_io(self.path):
            # Without its state, the folder is one that was being removed.
            if restart or not self.has_work() or not (self.path / STATE).exists():
                self._clear()
            elif difference := self._difference():
                self._lock.release()
                raise self.refusal(difference)
            self.write(STATE, json.dumps(self._state, indent=2, sort_keys=True).encode())

    def has_work(self) -> bool:
        """Whether there is something to lose."""
        raise NotImplementedError

    def refusal(self, difference: str) -> KrisselError:
        """Why a run is not begun. difference: to the state that the work there was made with."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises KrisselError K045 when another run has taken the folder, where no lock could prevent it."""
        if not self._lock.held and self._difference():
            raise KrisselError(Errors.K045.format(path=self.path))

    def temporary(self, name: str) -> Path:
        """A new path in the folder for a file that is to become `name`, or part of it."""
        return self.path / f"{name}.{uuid.uuid4().hex}.tmp"

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all."""
        temporary = self.temporary(name)
        temporary.write_bytes(content)
        os.replace(temporary, self.path / name)

    def remove(self) -> None:
        """The work is done: after this, the folder may be another's."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()

    def _clear(self) -> None:
        # The folder itself stays: the lock is on it.
        for each in self.path.iterdir():
            if each.is_dir() and not each.is_symlink():
                shutil.rmtree(each)
            else:
                each.unlink()

    def _difference(self) -> str:
        """How the state differs from the one that was written, for messages; "" where it does not."""
        try:
            earlier = json.loads((self.path / STATE).read_text(encoding="utf8"))
        except (FileNotFoundError, ValueError, RecursionError):
            earlier = None
        if not isinstance(earlier, dict):
            return f"its {STATE} cannot be read"
        now = self._state
        differing = sorted(key for key in {*earlier, *now} if earlier.get(key) != now.get(key))
        return "; ".join(_change(key, earlier.get(key), now.get(key)) for key in differing)


def _change(key: str, earlier: Any, now: Any) -> str:
    # Of hashes nobody reads more than that they are others.
    if len(f"{earlier!r}{now!r}") < 120 and not isinstance(now, list):
        return f"{key} was {earlier!r} and is {now!r}"
    return f"{key} changed"


def _has_locks(folder: Path) -> bool:
    """Whether folders in `folder` can be locked."""
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
