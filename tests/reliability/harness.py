"""Shared helpers of the reliability tests: child processes, faults, damage and tables."""

import errno
import faulthandler
import hashlib
import io
import os
import pickle
import random
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from spacy_krissel.errors import KrisselError

Drawn = TypeVar("Drawn")
# The name by which pytest knows the `Size` of a run by command.
SIZE = "krissel-reliability-size"


class Size(NamedTuple):
    """Extent of a test run: a few points in CI, all of them by command.

    points: faults per command and kind, of a few kinds if 1; 0: every operation. offsets: flipped
        bits per file.
    seconds, threads: of each round of threads. full_disk: also with real full disks, which root
        alone can mount.
    """

    points: int = 1
    offsets: int = 3
    seconds: float = 3.0
    threads: int = 8
    full_disk: bool = False


class Ended(NamedTuple):
    """Outcome: "returned", "coded" (KrisselError), "uncoded", "killed", "crashed" or "hung".

    value: what was returned, or the message. where: the innermost lines of the package for an
        uncoded error.
    """

    how: str
    value: Any = None
    where: str = ""


def in_child(work: Callable[[], Any], seconds: int = 120) -> Ended:
    """Do `work` in a forked process, whose output goes nowhere."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reader)
            silent = os.open(os.devnull, os.O_RDWR)
            for stream in (1, 2):
                os.dup2(silent, stream)
            # pytest's are files, which have limits of their own.
            sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
            faulthandler.disable()
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(seconds)
            ended = ended_by(work)
            with os.fdopen(writer, "wb") as told:
                pickle.dump(tuple(ended), told)
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as told:
        data = told.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        how = {signal.SIGALRM: "hung", signal.SIGKILL: "killed"}.get(number, "crashed")
        return Ended(how, signal.Signals(number).name)
    return Ended(*pickle.loads(data)) if data else Ended("crashed", f"exit {status}")


def ended_by(work: Callable[[], Any]) -> Ended:
    """Run `work` in this process, and return its outcome."""
    try:
        return Ended("returned", work())
    except KrisselError as error:
        return Ended("coded", str(error))
    except BaseException as error:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "spacy_krissel" in frame.filename
        ]
        where = " < ".join(
            f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[:-4:-1]
        )
        return Ended("uncoded", f"{type(error).__name__}: {error}"[:300], where)


def digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode("utf8")).hexdigest()[:16]


def spread(n: int, points: int) -> list[int]:
    """So many of the numbers 1 to n, as evenly as can be."""
    return sorted({round(n * (i + 0.5) / points) or 1 for i in range(points)}) if n else []


def drawn(numbers: Sequence[Drawn], points: int, seed: str) -> list[Drawn]:
    """One of each of so many equal parts of the numbers, drawn by seed; 0: all."""
    if not points:
        return list(numbers)
    draw = random.Random(seed)
    parts = [
        numbers[i * len(numbers) // points : (i + 1) * len(numbers) // points]
        for i in range(points)
    ]
    return [draw.choice(part) for part in parts if part]


# Faults -------------------------------------------------------------------------------------------

REMOVING = ("os.remove", "os.rmdir")
CHANGING = ("os.mkdir", "os.rename", "os.link", "os.symlink", "os.truncate", "os.chmod", *REMOVING)


class Operation(NamedTuple):
    what: str
    path: str

    @property
    def takes_space(self) -> bool:
        return self.what in ("open", "write", "os.mkdir", "fsync")

    @property
    def removes(self) -> bool:
        """Does it take away what is not wanted any more? What cannot be removed stays. See
        `util.beside`."""
        return self.what in REMOVING or (
            self.what == "os.rename" and self.path.endswith((".old", ".del"))
        )


class Fault(NamedTuple):
    """kind: ENOSPC (from operation number `at` on), EIO or EACCES (there alone), KILL (there),
    FSIZE (no file may be longer than `at`, native code included)."""

    kind: str
    at: int

    def fits(self, operation: Operation) -> bool:
        if self.kind == "ENOSPC":
            return operation.takes_space
        if self.kind == "EACCES":
            return operation.what not in ("write", "fsync", "read")
        return self.kind == "EIO" or operation.what != "read"


class Injector:
    """Counts this process's operations on files below `root`, and fails or kills at one of them.

    Audit events tell of opening, making, renaming and removing; writing is seen through the raw
    file under Python's buffers. It cannot be taken out again: for a child process.
    """

    def __init__(self, root: Path, fault: Fault | None = None) -> None:
        self.root = str(root)
        self.fault = fault
        self.operations: list[Operation] = []
        sys.addaudithook(self._audit)
        self._patch()
        if fault and fault.kind == "FSIZE":
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(
                resource.RLIMIT_FSIZE, (fault.at, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
            )

    def hit(self, what: str, path: str) -> None:
        operation = Operation(what, path)
        self.operations.append(operation)
        fault, n = self.fault, len(self.operations)
        if fault is None or fault.kind == "FSIZE" or n < fault.at or not fault.fits(operation):
            return
        if fault.kind == "ENOSPC" or n == fault.at:
            if fault.kind == "KILL":
                os.kill(os.getpid(), signal.SIGKILL)
            number = getattr(errno, fault.kind)
            raise OSError(number, os.strerror(number), path)

    def is_below(self, path: Any) -> bool:
        return isinstance(path, (str, bytes, os.PathLike)) and os.path.abspath(
            os.fsdecode(path)
        ).startswith(self.root)

    def _audit(self, event: str, arguments: Sequence[Any]) -> None:
        if event == "open":
            path, mode, flags = arguments
            if self.is_below(path):
                writes = (
                    set("wxa+") & set(mode)
                    if mode
                    else flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
                )
                self.hit("open" if writes else "read", os.fsdecode(path))
        elif event in CHANGING:
            path = _resolved(event, arguments)
            if self.is_below(path):
                self.hit(event, os.fsdecode(path))

    def _patch(self) -> None:
        import builtins

        injector, plain_open, plain_fsync = self, io.open, os.fsync

        class Raw(io.FileIO):
            def write(self, data: Any) -> Any:
                injector.hit("write", str(self.name))
                return super().write(data)

        def opened(
            file,
            mode="r",
            buffering=-1,
            encoding=None,
            errors=None,
            newline=None,
            closefd=True,
            opener=None,
        ):
            if not (set("wxa+") & set(mode) and injector.is_below(file)) or not buffering:
                return plain_open(file, mode, buffering, encoding, errors, newline, closefd, opener)
            raw = Raw(file, mode.replace("b", "").replace("t", ""), closefd, opener)
            buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
            if "b" in mode:
                return buffered
            text = io.TextIOWrapper(buffered, encoding, errors, newline)
            text.mode = mode
            return text

        def fsync(handle: Any) -> None:
            path = os.readlink(
                f"/proc/self/fd/{handle if isinstance(handle, int) else handle.fileno()}"
            )
            if injector.is_below(path):
                injector.hit("fsync", path)
            plain_fsync(handle)

        io.open = builtins.open = opened  # type: ignore[assignment]
        os.fsync = fsync  # type: ignore[assignment]


def _resolved(event: str, arguments: Sequence[Any]) -> Any:
    """The path of an event, also where it is given by a name and an open folder, as `shutil.rmtree`
    does."""
    path, folder = arguments[0], arguments[-1]
    if event in REMOVING and isinstance(folder, int) and folder >= 0 and not os.path.isabs(path):
        return os.path.join(os.readlink(f"/proc/self/fd/{folder}"), os.fsdecode(path))
    return path


# Damage -------------------------------------------------------------------------------------------


SMALL_FILE = 200


def bits_to_flip(size: int, offsets: int, seed: int) -> list[tuple[int, int]]:
    """(byte, bit) to flip: the first byte, the last and `offsets` others; of a small file, where
    there are to be many, each byte."""
    draw = random.Random(seed)
    if size <= SMALL_FILE and offsets >= 10:
        places = set(range(size))
    else:
        places = {0, size - 1, *(draw.randrange(size) for _ in range(offsets))} if size else set()
    return [(place, draw.randrange(8)) for place in sorted(places)]


def flip(path: Path, byte: int, bit: int) -> None:
    with path.open("r+b") as file_:
        file_.seek(byte)
        (value,) = file_.read(1)
        file_.seek(byte)
        file_.write(bytes([value ^ (1 << bit)]))


# Tables -------------------------------------------------------------------------------------------


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)
