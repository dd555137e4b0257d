"""Worker processes that end with their parent, and Ray clusters."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from multiprocessing import connection
from typing import Any

from spacy.util import minibatch
from torch import Generator
from torch.utils.data import DataLoader, Dataset

from ..errors import Errors, KrisselError


def follow_parent() -> None:
    """End this worker with its parent, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def end_with_parent() -> None:
        # A killed parent cannot end its workers, which would wait for work forever.
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()


@contextmanager
def ray_cluster(address: str, retries: int) -> Iterator[Any]:
    """Yield the module `ray`, connected.

    address: of a cluster (`host:port`, "auto"), or "local" for a temporary one on this machine. If
        the program is already connected to a cluster, that one is used.
    retries: maximum retries of lost work, for the message.

    Raises KrisselError K023 (Ray is not installed), K024 (no cluster), K025 (work lost repeatedly),
    and the errors of the work itself; `first_done` raises K029.
    """
    try:
        import ray
    except ImportError as error:
        raise KrisselError(Errors.K023) from error

    connected = ray.is_initialized()
    if not connected:
        # No usage reports.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        local: dict[str, Any] = {"include_dashboard": False} if address == "local" else {}
        try:
            ray.init(address=address, log_to_driver=False, **local)
        # Ray has no class for a node that starts too slowly.
        except Exception as error:
            raise KrisselError(Errors.K024.format(address=address, problem=error)) from error
    try:
        yield ray
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, KrisselError):
            raise cause from error
        raise KrisselError(Errors.K025.format(problem=error, retries=retries)) from error
    finally:
        if not connected:
            ray.shutdown()


# Seconds between two looks at the node while a run waits for work.
LOOK = 10.0


def first_done(ray: Any, references: Iterable[Any]) -> Any:
    """Wait for one of the references (or streaming generators), and return it. Ray would wait
    forever if this machine's node is lost.

    Raises KrisselError K029 if it is.
    """
    waiting = [*references]
    while True:
        # Not fetched: parts may stay where they were read.
        done, _ = ray.wait(waiting, num_returns=1, timeout=LOOK, fetch_local=False)
        if done:
            return done[0]
        own = ray.get_runtime_context().get_node_id()
        if not any(node["Alive"] and node["NodeID"] == own for node in ray.nodes()):
            raise KrisselError(Errors.K029)


# Seconds that workers of an earlier run of this program have to give their slots back, and after
# which no more are expected.
RELEASE, SETTLED = 60.0, 1.0


def n_free_slots(ray: Any, kind: str, address: str) -> int:
    """Return the number of a cluster's free processors (kind "CPU") or GPUs.

    Ray frees those of an ended run later, one by one: wait until all are free, or their number
    stays the same. address: of the cluster, for the message.

    Raises KrisselError K024 if none is free after a minute.
    """
    end, n_free, since = time.monotonic() + RELEASE, -1, time.monotonic()
    while True:
        total = int(ray.cluster_resources().get(kind, 0))
        found, now = int(ray.available_resources().get(kind, 0)), time.monotonic()
        if found != n_free:
            n_free, since = found, now
        if total and n_free and (n_free >= total or now - since >= SETTLED):
            return n_free
        if not total or now > end:
            problem = f"the one there has no free {kind}"
            raise KrisselError(Errors.K024.format(address=address, problem=problem))
        time.sleep(0.1)


# Items per transfer: each transfer has a cost, and a first batch should not wait for many.
BLOCK = 1024
Read = Callable[[int], Iterator[Any]]
Block = list[Any] | KrisselError


class ReadAhead:
    """Items of an epoch, in the same order, read by another process that lives as long as this
    object.

    read: returns the items of the epoch with this number. It is sent to the other process, and
        keeps its state there.
    size: number of items that may be read ahead, in whole blocks.
    """

    def __init__(self, read: Read, size: int) -> None:
        sampler = self._sampler = _Blocks(read, BLOCK)
        ahead = max(2, size // BLOCK)
        settings: dict[str, Any] = {
            "num_workers": 1,
            "persistent_workers": True,
            "prefetch_factor": ahead,
        }
        # Spawned, since a fork would inherit this process's GPU and locks. With a generator of its
        # own, so that the numbers drawn in training stay the same.
        settings |= {"multiprocessing_context": "spawn", "generator": Generator()}
        self._blocks: DataLoader[Block] = DataLoader(
            sampler, None, sampler=sampler, collate_fn=_identity, **settings
        )

    def epoch(self, number: int) -> Iterator[Any]:
        """Yield the items of an epoch.

        Raises KrisselError like `read`, and K645 if the other process ended.
        """
        self._sampler.epoch = number
        try:
            for block in self._blocks:
                if isinstance(block, KrisselError):
                    raise block
                if not block:
                    return
                yield from block
        except RuntimeError as error:
            raise KrisselError(Errors.K645) from error


class _Blocks(Dataset[Block]):
    """Sampler and data set of the blocks.

    In this process it yields the keys of the next blocks, epoch and number. In the other process it
    returns these blocks.
    """

    def __init__(self, read: Read, size: int) -> None:
        self._read, self._size, self.epoch = read, size, 0
        self._blocks: Iterator[list[Any]] = iter(())

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((self.epoch, number) for number in count())

    def __getitem__(self, key: tuple[int, int]) -> Block:
        """Return the next block; empty after the last."""
        epoch, number = key
        if not number:
            self._blocks = minibatch(self._read(epoch), self._size)
        try:
            return next(self._blocks, [])
        except KrisselError as error:
            # If raised, it would arrive as text, with the traceback of the other process.
            return error


def _identity(block: Block) -> Block:
    return block
