"""Many inputs in worker processes that survive them, and the table of what came of them."""

import gc
import json
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from .attempt import (
    CPU_SECONDS,
    CRASH,
    FAILURES,
    HANG,
    OUTCOMES,
    TOKENIZER,
    Result,
    attempt,
    in_tokenizer,
    innermost,
    limit_worker,
    say,
    write_files,
)
from .targets import Target, make_case

CHUNK = 25
# For a worker that is past its time: the signal for that is seen between bytecodes alone.
PATIENCE = 4.0
WALL_SECONDS = 300
# spaCy's strings grow with what is tokenised.
WORKER_INPUTS = 3_000
SAVED_PER_CAUSE = 2
PROGRESS_SECONDS = 60
TICK = os.sysconf("SC_CLK_TCK")
COLUMNS = {
    "ok": "ok",
    "warned": "warned",
    "coded": "coded",
    "tokenizer": "spaCy's tokenizer",
    "uncoded": "**uncoded**",
    "hang": "**hang**",
    "memory": "**> 1 GiB**",
    "crash": "**crash**",
    "other warnings": "other warnings",
    "left open": "files left open",
}


@dataclass
class Chunk:
    """Inputs `start` to `stop` of a target, by its place in the list."""

    target: int
    start: int
    stop: int


@dataclass
class Worker:
    """tasks, results: the pipes to it and from it. cpu, wall: when the input began that it is
    at."""

    pid: int
    tasks: int
    results: int
    folder: Path
    chunk: Chunk | None = None
    unread: bytes = b""
    cpu: float = 0.0
    wall: float = 0.0
    retired: bool = False
    killed: bool = False

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")


@dataclass
class Failure:
    """A cause of failures, and the inputs that met it: target and number."""

    outcome: str
    detail: str
    inputs: list[tuple[str, int]] = field(default_factory=list)
    saved: list[Path] = field(default_factory=list)


class Fuzzer:
    """Tries inputs of targets, `jobs` at a time.

    seed: input i of a target depends on it and on nothing else. keep: where inputs that failed are
        written.
    """

    def __init__(
        self, targets: Sequence[Target], seed: int, *, jobs: int = 2, keep: Path | None = None
    ) -> None:
        self.targets = list(targets)
        self.seed, self.jobs, self.keep = seed, jobs, keep
        self.counts: dict[str, Counter] = {target.name: Counter() for target in targets}
        self.failures: dict[tuple[str, str], Failure] = {}
        self.warned: Counter = Counter()
        self.seconds = 0.0
        self._workers: list[Worker] = []
        self._left: deque[Chunk] = deque()
        self._selector = selectors.DefaultSelector()
        # Half of the time would be the disk's.
        self._folder = Path(tempfile.mkdtemp(prefix="krissel-fuzz-", dir=fast_folder()))

    def run(self, inputs: int | None = None, minutes: float | None = None) -> None:
        """Until there were so many inputs, or so many minutes; whichever is first."""
        chunks = self._chunks(inputs)
        started = shown = time.monotonic()
        until = started + 60 * minutes if minutes else float("inf")
        # What is here already is neither looked at nor copied by the workers' garbage collection.
        gc.collect()
        gc.freeze()
        try:
            for _ in range(self.jobs):
                self._start()
            while True:
                for worker in self._workers:
                    if worker.chunk is None:
                        ended = time.monotonic() > until
                        worker.chunk = (
                            self._left.popleft()
                            if self._left
                            else None
                            if ended
                            else next(chunks, None)
                        )
                        self._give(worker)
                if not any(worker.chunk for worker in self._workers):
                    break
                for key, _ in self._selector.select(0.5):
                    self._read(key.data)
                for worker in self._workers:
                    self._watch(worker)
                if time.monotonic() - shown > PROGRESS_SECONDS:
                    shown = time.monotonic()
                    say(
                        f"{self.n_inputs():,} inputs, {self.n_failures():,} failures, "
                        f"{shown - started:.0f} s"
                    )
        finally:
            self.seconds = time.monotonic() - started
            for worker in self._workers:
                os.kill(worker.pid, signal.SIGKILL)
                os.waitpid(worker.pid, 0)
            self._selector.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def n_inputs(self) -> int:
        return sum(counts[outcome] for counts in self.counts.values() for outcome in OUTCOMES)

    def n_failures(self) -> int:
        return sum(counts[outcome] for counts in self.counts.values() for outcome in FAILURES)

    def _chunks(self, inputs: int | None) -> Iterator[Chunk]:
        """Yield chunks of all targets in turn, so that a stopped run tried each equally often."""
        each = -(-inputs // len(self.targets)) if inputs else sys.maxsize
        for start in range(0, each, CHUNK):
            for i in range(len(self.targets)):
                yield Chunk(i, start, min(start + CHUNK, each))

    def _start(self) -> None:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        task_end, tasks = os.pipe()
        results, result_end = os.pipe()
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            for worker in self._workers:
                os.close(worker.tasks)
                os.close(worker.results)
            os.close(tasks)
            os.close(results)
            self._be_worker(task_end, result_end, folder)
        os.close(task_end)
        os.close(result_end)
        self._workers.append(Worker(pid, tasks, results, folder))
        self._selector.register(results, selectors.EVENT_READ, self._workers[-1])

    def _be_worker(self, tasks: int, results: int, folder: Path) -> NoReturn:
        """Read chunks of inputs from one pipe, and write what came of each to another.

        After a failure, and from time to time, the process ends: what is left of one input is not
        for the others.
        """
        # Nothing of the parent's is to run at the end, whatever happens.
        try:
            limit_worker(folder / "log")
            n = 0
            for line in os.fdopen(tasks):
                number, start, stop = json.loads(line)
                target = self.targets[number]
                for index in range(start, stop):
                    case = make_case(target, self.seed, index)
                    result = attempt(target, case.files, case.thorough, folder)
                    n += 1
                    retired = (
                        n >= WORKER_INPUTS
                        or result.outcome in FAILURES
                        or result.outcome == TOKENIZER
                    )
                    os.write(results, json.dumps([index, retired, *result]).encode() + b"\n")
                    if retired:
                        os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)

    def _give(self, worker: Worker) -> None:
        if worker.chunk is not None:
            worker.cpu, worker.wall = _cpu(worker.pid), time.monotonic()
            task = [worker.chunk.target, worker.chunk.start, worker.chunk.stop]
            os.write(worker.tasks, json.dumps(task).encode() + b"\n")

    def _read(self, worker: Worker) -> None:
        data = os.read(worker.results, 1 << 16)
        *lines, worker.unread = (worker.unread + data).split(b"\n")
        for line in lines:
            index, worker.retired, *result = json.loads(line)
            self._count(worker.chunk, index, Result(*result))
        worker.cpu, worker.wall = _cpu(worker.pid), time.monotonic()
        if (
            worker.chunk is not None
            and worker.chunk.start == worker.chunk.stop
            and not worker.retired
        ):
            worker.chunk = None
        if not data:
            self._replace(worker)

    def _watch(self, worker: Worker) -> None:
        """End a worker that is stuck where no signal reaches it."""
        if worker.chunk is None or worker.killed:
            return
        used, waited = _cpu(worker.pid) - worker.cpu, time.monotonic() - worker.wall
        if used > CPU_SECONDS + PATIENCE or waited > WALL_SECONDS:
            # Its stack goes to its log.
            os.kill(worker.pid, signal.SIGUSR1)
            time.sleep(0.3)
            os.kill(worker.pid, signal.SIGKILL)
            worker.killed = True

    def _replace(self, worker: Worker) -> None:
        """Another worker for one that ended; if not by itself, by the input that it was at."""
        _, status = os.waitpid(worker.pid, 0)
        self._selector.unregister(worker.results)
        os.close(worker.results)
        os.close(worker.tasks)
        self._workers.remove(worker)
        chunk = worker.chunk
        if chunk is not None and not worker.retired:
            if not os.WIFSIGNALED(status):
                raise RuntimeError(
                    f"input {chunk.start} of {self.targets[chunk.target].name}:\n{worker.log()}"
                )
            where = innermost(worker.log())
            outcome = CRASH if not worker.killed else TOKENIZER if in_tokenizer(where) else HANG
            self._count(
                chunk, chunk.start, Result(outcome, f"signal {os.WTERMSIG(status)} in {where}")
            )
        if chunk is not None and chunk.start < chunk.stop:
            self._left.append(chunk)
        shutil.rmtree(worker.folder, ignore_errors=True)
        self._start()

    def _count(self, chunk: Chunk | None, index: int, result: Result) -> None:
        assert chunk is not None, "a worker that was given nothing says nothing"
        chunk.start = index + 1
        name = self.targets[chunk.target].name
        counts = self.counts[name]
        counts[result.outcome] += 1
        counts["other warnings"] += bool(result.warned)
        counts["left open"] += bool(result.left_open)
        self.warned.update(result.warned)
        if result.outcome in FAILURES:
            self._note(name, index, result)

    def _note(self, name: str, index: int, result: Result) -> None:
        # The same kind and place: the message holds what was found, but for the checks' own.
        place, _, message = result.detail.partition(": ")
        key = result.outcome, f"{place}{message if place.startswith('CheckFailed') else ''}"
        failure = self.failures.setdefault(key, Failure(result.outcome, result.detail))
        failure.inputs.append((name, index))
        if (
            self.keep is not None
            and sum(each == name for each, _ in failure.inputs) <= SAVED_PER_CAUSE
        ):
            target = next(target for target in self.targets if target.name == name)
            folder = self.keep / f"{name.replace(':', '-').replace('/', '-')}-{self.seed}-{index}"
            write_files(folder, make_case(target, self.seed, index).files)
            failure.saved.append(folder)

    def table(self) -> str:
        """Return the outcomes of each target's inputs as a Markdown table."""
        rows = [
            f"| target | n | {' | '.join(COLUMNS.values())} |",
            "| --- |" + " ---: |" * (len(COLUMNS) + 1),
        ]
        total: Counter = sum(self.counts.values(), Counter())
        for name, counts in [*self.counts.items(), ("**all**", total)]:
            n = sum(counts[outcome] for outcome in OUTCOMES)
            cells = (f"{counts[column]:,}" if counts[column] else "" for column in COLUMNS)
            rows.append(f"| {name} | {n:,} | {' | '.join(cells)} |")
        return "\n".join(rows)

    def causes(self) -> str:
        """The failures by cause, each with an input and the command that repeats it."""
        lines: list[str] = []
        for failure in sorted(self.failures.values(), key=lambda each: -len(each.inputs)):
            targets = Counter(name for name, _ in failure.inputs)
            name, index = failure.inputs[0]
            lines.append(f"{failure.outcome} {len(failure.inputs)}x: {failure.detail}")
            lines.append("  " + ", ".join(f"{each} {n}" for each, n in targets.most_common(8)))
            lines.append(
                f"  python -m tests.fuzz --target '{name}' --seed {self.seed} --index {index}"
            )
            lines.extend(
                f"  python -m tests.fuzz --target '{name}' --repro '{path}'"
                for path in failure.saved[:1]
            )
        return "\n".join(lines)


def fast_folder() -> str | None:
    """Memory, where it can be written like a disk; else where temporary files are."""
    return next((path for path in ("/dev/shm",) if os.access(path, os.W_OK)), None)


def _cpu(pid: int) -> float:
    """The seconds of CPU time that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICK
