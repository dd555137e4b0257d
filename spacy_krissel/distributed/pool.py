"""Workers that answer requests, and are replaced when they are lost: this process, processes of
this machine, or actors of a Ray cluster.
"""

import gc
import multiprocessing
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from multiprocessing import connection
from typing import Any, NamedTuple

from ..errors import KrisselError
from .workers import first_done, follow_parent, n_free_slots, ray_cluster

# Answers a request in a worker.
Work = Callable[[Any], Any]
# Called once in each worker. It is sent there, and so are requests and answers.
Start = Callable[[], Work]
# Seconds that a worker has to end at the end of a run.
PATIENCE = 5.0


class Event(Enum):
    """A worker can take requests, or was lost with its request and is replaced by a new one."""

    READY = "ready"
    LOST = "lost"


class Failure(NamedTuple):
    """An error without a code, as text, since it may not be picklable."""

    text: str


class Pool:
    """A worker in this process, which works in `receive`.

    n: number of workers, numbered from 0. Each first answers READY, then one request at a time.
    """

    n = 1

    def __init__(self, start: Start) -> None:
        self._start = start
        self._work: Work | None = None
        self._request: Any = None

    def send(self, worker: int, request: Any) -> None:
        """Send a request to a worker that has answered."""
        self._request = request

    def receive(self) -> tuple[int, Any]:
        """Wait for an answer. RETURNS: the worker, and its answer or an `Event`.

        Raises the KrisselError of a worker, or RuntimeError for other errors there.
        """
        if self._work is None:
            self._work = self._start()
            return 0, Event.READY
        return 0, self._work(self._request)

    def renew(self, worker: int) -> None:
        """Replace a worker that has answered by a new one, whose memory is as at its start."""
        self._work = None
        # Before the next one, since there may be no memory for two.
        gc.collect()


class Processes(Pool):
    """Processes of this machine, which end with this one."""

    def __init__(self, start: Start, n: int) -> None:
        super().__init__(start)
        self.n = n
        # Neither this process's threads nor its memory should be in theirs, but one import serves
        # all of them.
        methods = multiprocessing.get_all_start_methods()
        self._context: Any = multiprocessing.get_context(
            "forkserver" if "forkserver" in methods else "spawn"
        )
        if "forkserver" in methods:
            self._context.set_forkserver_preload([start_module(start)])
        self._workers = [self._new() for _ in range(n)]

    def send(self, worker: int, request: Any) -> None:
        # `receive` sees that it is gone.
        with suppress(OSError):
            self._workers[worker][1].send(request)

    def receive(self) -> tuple[int, Any]:
        channels = [channel for _, channel in self._workers]
        ready = connection.wait(channels)
        worker = next(number for number, channel in enumerate(channels) if channel in ready)
        try:
            answer = channels[worker].recv()
        except (EOFError, OSError):
            channels[worker].close()
            self._workers[worker] = self._new()
            return worker, Event.LOST
        return worker, _checked(answer)

    def renew(self, worker: int) -> None:
        process, channel = self._workers[worker]
        channel.close()
        process.kill()
        process.join()
        self._workers[worker] = self._new()

    def pids(self) -> list[int]:
        """Return the ids of the processes."""
        return [process.pid for process, _ in self._workers]

    def close(self) -> None:
        for _, channel in self._workers:
            channel.close()
        for process, _ in self._workers:
            # Working still, after an error here.
            process.join(PATIENCE if sys.exc_info()[0] is None else 0)
            process.kill()
            process.join()

    def _new(self) -> tuple[Any, Any]:
        own, other = self._context.Pipe()
        process = self._context.Process(target=_serve, args=(self._start, other), daemon=True)
        process.start()
        other.close()
        return process, own


class Actors(Pool):
    """Actors of a Ray cluster, one for each free processor.

    A new actor that finds no place in the cluster is never ready, and the others go on.
    """

    def __init__(self, ray: Any, start: Start, address: str) -> None:
        super().__init__(start)
        self._ray = ray
        self.n = n_free_slots(ray, "CPU", address)
        self._make = ray.remote(num_cpus=1)(_Actor)
        self._actors: list[Any] = [None] * self.n
        # Workers, by the answer that they owe.
        self._owed: dict[Any, int] = {}
        for worker in range(self.n):
            self._new(worker)

    def send(self, worker: int, request: Any) -> None:
        self._owed[self._actors[worker].answer.remote(request)] = worker

    def receive(self) -> tuple[int, Any]:
        reference = first_done(self._ray, self._owed)
        worker = self._owed.pop(reference)
        try:
            answer = self._ray.get(reference)
        except (self._ray.exceptions.RayActorError, self._ray.exceptions.ObjectLostError):
            self._new(worker)
            return worker, Event.LOST
        return worker, _checked(answer)

    def renew(self, worker: int) -> None:
        self._ray.kill(self._actors[worker])
        self._new(worker)

    def close(self) -> None:
        """End the actors, whose processors the next run of this program may use."""
        # The cluster may be gone.
        with suppress(self._ray.exceptions.RayError):
            for actor in self._actors:
                self._ray.kill(actor)

    def _new(self, worker: int) -> None:
        # Replaced, and so ended, if it is another that was only not heard.
        self._actors[worker] = self._make.remote(self._start)
        self._owed[self._actors[worker].ready.remote()] = worker


class _Actor:
    def __init__(self, start: Start) -> None:
        self._start = start

    def ready(self) -> Any:
        # Not in the constructor, whose errors lose their code.
        self._work, found = _started(self._start)
        return found

    def answer(self, request: Any) -> Any:
        return _answer(self._work, request)


@contextmanager
def workers(start: Start, n_process: int, ray: str | None) -> Iterator[Pool]:
    """Start workers, and end them at the end of the block.

    n_process: 1 works in this process. ray: address of a cluster (`ray_cluster`); all its machines
        need this package.

    Raises KrisselError K023 to K025, K029 (Ray).
    """
    if ray is not None:
        with ray_cluster(ray, 0) as module:
            actors = Actors(module, start, ray)
            try:
                yield actors
            finally:
                actors.close()
        return
    if n_process == 1:
        yield Pool(start)
        return
    processes = Processes(start, n_process)
    try:
        yield processes
    finally:
        processes.close()


def start_module(start: Any) -> str:
    """Return the module of a function, or of that of a `partial`."""
    return str(getattr(start, "func", start).__module__)


def _serve(start: Start, channel: Any) -> None:
    follow_parent()
    # The other end is closed when the run ends.
    with suppress(EOFError, OSError):
        work, found = _started(start)
        channel.send(found)
        while True:
            channel.send(_answer(work, channel.recv()))


def _started(start: Start) -> tuple[Any, Any]:
    work = _answer(lambda _: start(), None)
    failed = isinstance(work, (KrisselError, Failure))
    # What was loaded stays: exclude it from the worker's garbage collection.
    gc.collect()
    gc.freeze()
    return work, work if failed else Event.READY


def _answer(work: Any, request: Any) -> Any:
    try:
        return work(request)
    except KrisselError as error:
        return error
    except MemoryError:
        # The worker ends, and its memory is free for the next one.
        raise
    except Exception:
        return Failure(traceback.format_exc())


def _checked(answer: Any) -> Any:
    if isinstance(answer, KrisselError):
        raise answer
    if isinstance(answer, Failure):
        raise RuntimeError(f"A worker failed:\n{answer.text}")
    return answer
