"""One input read, and what came of it. Runs in a worker process, which it may end."""

import faulthandler
import linecache
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from spacy_krissel.errors import KrisselError, KrisselWarning

from .seeds import Files
from .targets import Target

CPU_SECONDS = 5.0
MEMORY = 2**30
# Above what a worker has when it begins: the machine is not to suffer. More than MEMORY, which is
# measured.
ADDRESS_SPACE = 3 * 2**30
OK, WARNED, CODED, TOKENIZER = "ok", "warned", "coded", "tokenizer"
UNCODED, HANG, TOO_LARGE, CRASH = "uncoded", "hang", "memory", "crash"
OUTCOMES = (OK, WARNED, CODED, TOKENIZER, UNCODED, HANG, TOO_LARGE, CRASH)
FAILURES = (UNCODED, HANG, TOO_LARGE, CRASH)
PACKAGE = f"{os.sep}spacy_krissel{os.sep}"
HERE = str(Path(__file__).parent)


class Result(NamedTuple):
    """detail: the code of a coded error; of a failure, what would be the same for another of its
    cause.

    warned: by others than this package. left_open: files that were closed by garbage collection
        alone.
    """

    outcome: str
    detail: str = ""
    warned: list[str] = []  # noqa: RUF012 (never written to)
    left_open: int = 0


class OutOfTime(BaseException):
    """No exception that a reader may catch."""


def limit_worker(log: Path) -> None:
    """Prepare a process for inputs: limits, and a file for what it says at its end."""
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(out, descriptor)
    faulthandler.enable(file=2)
    faulthandler.register(signal.SIGUSR1, file=2)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, _end_of_time)
    space = _memory()[0] + ADDRESS_SPACE
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _end_of_time(signum: int, frame: Any) -> None:
    raise OutOfTime


def _memory() -> list[int]:
    """The sizes of this process in bytes: address space, resident."""
    return [
        int(pages) * resource.getpagesize()
        for pages in Path("/proc/self/statm").read_text().split()[:2]
    ]


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def write_files(folder: Path, files: Files) -> Path:
    """Write a folder anew and return the path of its first file."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / next(iter(files))


def attempt(target: Target, files: Files, thorough: bool, work: Path) -> Result:
    """Read a damaged folder to its end, below the folder `work`."""
    path = write_files(work / "input", files)
    tempfile.tempdir = str(work)
    problem: BaseException | None = None
    resident, before = _memory()[1], peak()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            # Again each second, should the first be lost in a callback of C code.
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS, 1)
            try:
                target.read(path, thorough)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except BaseException as error:
            problem = error
        after = peak()
        result = _judge(problem, after - resident if after > before else 0)
        if problem is not None:
            # Frames hold files open.
            traceback.clear_frames(problem.__traceback__)
            problem = None
    outcome = result.outcome
    if outcome == OK and any(issubclass(each.category, KrisselWarning) for each in caught):
        outcome = WARNED
    others = [
        each for each in caught if not issubclass(each.category, (KrisselWarning, ResourceWarning))
    ]
    left_open = sum(issubclass(each.category, ResourceWarning) for each in caught)
    return result._replace(
        outcome=outcome, warned=[_describe(each) for each in others], left_open=left_open
    )


def _judge(problem: BaseException | None, growth: int) -> Result:
    if isinstance(problem, OutOfTime):
        where = _where(problem)
        lines = [
            f"{frame.filename}:{frame.line}"
            for frame in traceback.extract_tb(problem.__traceback__)
        ]
        is_tokenizer = any(in_tokenizer(line) for line in lines)
        return Result(TOKENIZER if is_tokenizer else HANG, where)
    if growth > MEMORY:
        return Result(
            TOO_LARGE,
            f"{_where(problem)} (more than {MEMORY >> 30} GiB)" if problem else "read to its end",
        )
    if problem is None:
        return Result(OK)
    if isinstance(problem, KrisselError):
        return Result(CODED, problem.code)
    if isinstance(problem, MemoryError):
        return Result(TOO_LARGE, _where(problem))
    return Result(UNCODED, _where(problem))


def in_tokenizer(line: str) -> bool:
    """Does a line of a stack (`file:code`) belong to spaCy's tokenizer, or call it? Its own frames
    may be missing."""
    return "spacy/tokenizer" in line or "nlp.tokenizer(" in line


def _where(problem: BaseException) -> str:
    """The exception, and the innermost place in the package that it passed."""
    frames = traceback.extract_tb(problem.__traceback__)
    own = [frame for frame in frames if PACKAGE in frame.filename] or [
        frame for frame in frames if not frame.filename.startswith(HERE)
    ]
    place = (
        f"{own[-1].filename.rpartition(PACKAGE)[2]}:{own[-1].lineno}"
        if own
        else "the check after reading"
    )
    return f"{type(problem).__name__} in {place}: {' '.join(str(problem).split())[:100]}"


def _describe(caught: warnings.WarningMessage) -> str:
    return f"{caught.category.__name__}: {' '.join(str(caught.message).split())[:80]}"


def innermost(log: str) -> str:
    """The innermost place of a stack that faulthandler wrote, as `file:code`."""
    for line in log.splitlines():
        if line.strip().startswith('File "'):
            name, _, rest = line.strip()[6:].partition('", line ')
            number = int(rest.split()[0])
            return (
                f"{name.rpartition(PACKAGE)[2]}:{number}: {linecache.getline(name, number).strip()}"
            )
    return "no stack"


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
