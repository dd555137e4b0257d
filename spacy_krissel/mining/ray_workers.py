"""Workers on a Ray cluster; they read and mine with the functions that one process calls.

They use tasks rather than Ray Data. One process decides, in the order of the texts and between
reading and mining, which text is the first with its id. Chunks must be the same in every run, so
that one run can resume another. A task whose worker is lost is retried and gives the same result.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from ..corpora.text_stream import Text
from ..distributed.workers import ray_cluster
from .miner import MinedChunk, Miner, mine_chunk
from .reading import Chunk, Unit, read_unit, unit_bytes
from .workers import READ_AHEAD, Workers

# Maximum retries of a task whose worker was lost.
MAX_RETRIES = 5
# Bytes of files that are read ahead, per processor.
READ_AHEAD_PER_CPU = 16_000_000
# Number of chunks mined with one copy of the limits: sending a copy costs 8 bytes per entity.
CHUNKS_WITH_LIMITS = 64


class RayWorkers(Workers):
    """Tasks of a cluster. The miner is sent to each machine once and shared by its workers.

    A unit that is too large to be read ahead is read by this process, chunk by chunk.
    """

    def __init__(self, ray: Any, miner: Miner) -> None:
        self._ray = ray
        n_processors = max(1, int(ray.cluster_resources().get("CPU", 1)))
        self.n_ahead = 2 * n_processors
        self.ahead_bytes = max(READ_AHEAD, n_processors * READ_AHEAD_PER_CPU)
        self._limits = miner.limits
        self._n_mined = 0
        self._miner = ray.put(miner._replace(limits=miner.limits[:0]))
        self._read_task = ray.remote(num_returns="streaming", max_retries=MAX_RETRIES)(_read)
        self._mine_task = ray.remote(max_retries=MAX_RETRIES)(_mine)

    def read(self, unit: Unit, number: int, chunk_chars: int) -> Iterator[tuple[Chunk, Any]]:
        if unit_bytes(unit) > READ_AHEAD:
            return read_unit(unit, number, chunk_chars)
        # Starts now, not when the first chunk is requested.
        return self._chunks(self._read_task.remote(unit, number, chunk_chars))

    def mine(self, texts: Any, new: np.ndarray) -> Callable[[], MinedChunk]:
        if self._n_mined % CHUNKS_WITH_LIMITS == 0:
            self._sent_limits = self._ray.put(self._limits)
        self._n_mined += 1
        return partial(self._ray.get, self._mine_task.remote(self._miner, self._sent_limits, texts, new))

    def _chunks(self, parts: Any) -> Iterator[tuple[Chunk, Any]]:
        for part in parts:
            yield self._ray.get(part), next(parts)


@contextmanager
def ray_workers(miner: Miner, address: str) -> Iterator[RayWorkers]:
    """Yield workers on the cluster at `address` (see `distributed.workers.ray_cluster`).

    All machines need this package, and the files at the same paths.

    Raises KrisselError K023 to K025 (Ray).
    """
    with ray_cluster(address, MAX_RETRIES) as ray:
        yield RayWorkers(ray, miner)


def _read(unit: Unit, number: int, chunk_chars: int) -> Iterator[Any]:
    """Yield chunks and their texts alternately, so that texts stay on the machine that read
    them.
    """
    for chunk, texts in read_unit(unit, number, chunk_chars):
        yield chunk
        yield texts


def _mine(miner: Miner, limits: np.ndarray, texts: list[Text], new: np.ndarray) -> MinedChunk:
    return mine_chunk(miner._replace(limits=limits), texts, new)
