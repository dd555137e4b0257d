"""Workers that read and mine: this process, several on this machine, or those of a Ray cluster."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from ..corpora.text_stream import Text
from ..distributed.workers import first_done, follow_parent, ray_cluster
from ..errors import Errors, KrisselError
from .miner import MinedChunk, Miner, mine_chunk
from .reading import Chunk, SeenIds, Unit, read_unit, unit_bytes
from .shards import read_shard, write_shard

# Maximum bytes of files whose texts may be in memory, read but not yet mined.
READ_AHEAD = 128_000_000
# The miner of a worker process, and its output folder.
_miner: Miner | None = None
_directory = Path()
# Maximum retries of a task whose worker was lost.
MAX_RETRIES = 5
# Bytes of files that are read ahead, per processor.
READ_AHEAD_PER_CPU = 16_000_000
# Number of chunks mined with one copy of the limits: sending a copy costs 8 bytes per entity.
CHUNKS_WITH_LIMITS = 64


class Workers:
    """Worker that reads and mines in this process, at once.

    Subclasses do so in other processes, later and in any order.

    n_ahead: chunks that are mined while others are read. ahead_bytes: maximum size of the files
        read ahead.
    """

    n_ahead = 0
    ahead_bytes = 0

    def __init__(self, miner: Miner) -> None:
        self.miner = miner

    def read(self, unit: Unit, number: int, chunk_chars: int) -> Iterator[tuple[Chunk, Any]]:
        """Read a unit like `read_unit`, with a handle for `mine` instead of the texts."""
        return read_unit(unit, number, chunk_chars)

    def mine(self, texts: Any, new: np.ndarray) -> Callable[[], MinedChunk]:
        """Mine texts like `mine_chunk`.

        RETURNS: a function that waits for the result.
        """
        mined = mine_chunk(self.miner, texts, new)
        return lambda: mined


def mine_units(
    workers: Workers,
    units: Iterable[tuple[int, Unit]],
    chunk_chars: int,
    seen: SeenIds,
    n_skipped: int,
) -> Iterator[tuple[Chunk, MinedChunk, np.ndarray]]:
    """Yield the mined chunks of the units in order, each with the hashes of its new ids.

    The first text of each id is mined. Few chunks are in memory at a time.

    units: with their indices. n_skipped: chunks of the first unit that were mined before. seen: the
        ids of those and of all earlier units.
    """
    waiting: deque[tuple[Chunk, np.ndarray, Callable[[], MinedChunk]]] = deque()

    def finish(n_left: int) -> Iterator[tuple[Chunk, MinedChunk, np.ndarray]]:
        while len(waiting) > n_left:
            chunk, ids, result = waiting.popleft()
            yield chunk, result(), ids

    for chunk, texts in islice(_read(workers, units, chunk_chars), n_skipped, None):
        new = seen.add(chunk.ids)
        gone = chunk.deleted[seen.add(chunk.deleted)]
        waiting.append((chunk, np.append(chunk.ids[new], gone), workers.mine(texts, new)))
        yield from finish(workers.n_ahead)
    yield from finish(0)


def _read(
    workers: Workers, units: Iterable[tuple[int, Unit]], chunk_chars: int
) -> Iterator[tuple[Chunk, Any]]:
    ahead: deque[tuple[int, Iterator[tuple[Chunk, Any]]]] = deque()
    n_bytes = 0
    for number, unit in units:
        size = unit_bytes(unit)
        ahead.append((size, workers.read(unit, number, chunk_chars)))
        n_bytes += size
        while ahead and n_bytes > workers.ahead_bytes:
            size, chunks = ahead.popleft()
            n_bytes -= size
            yield from chunks
    for _, chunks in ahead:
        yield from chunks


class Processes(Workers):
    """Processes of this machine. Forked processes share the miner's memory.

    Workers also read whole units. Texts and mentions are passed as files in the work directory,
    which this process does not open: pipes are 5 % slower. A unit that is too large to be read
    ahead is read here, chunk by chunk. If there are fewer units than processes, all are read here
    (`in_workers` is False).
    """

    def __init__(self, pool: ProcessPoolExecutor, n_process: int, in_workers: bool) -> None:
        self._pool = pool
        self.n_ahead = n_process + 1
        self.ahead_bytes = READ_AHEAD if in_workers else 0

    def read(self, unit: Unit, number: int, chunk_chars: int) -> Iterator[tuple[Chunk, Any]]:
        if unit_bytes(unit) > self.ahead_bytes:
            return read_unit(unit, number, chunk_chars)
        # Starts now; the result is awaited when the first chunk is requested.
        read = self._pool.submit(_read_whole, unit, number, chunk_chars)
        return (chunk for future in (read,) for chunk in future.result())

    def mine(self, texts: list[Text] | Path, new: np.ndarray) -> Callable[[], MinedChunk]:
        return self._pool.submit(_mine_in_worker, texts, new).result


@contextmanager
def local_workers(miner: Miner, n_process: int, n_units: int, directory: Path) -> Iterator[Workers]:
    """Yield workers that write to `directory`. Raises KrisselError K303 if a process dies."""
    if n_process == 1:
        yield Workers(miner)
        return
    pool = ProcessPoolExecutor(n_process, initializer=_start_worker, initargs=(miner, directory))
    try:
        yield Processes(pool, n_process, in_workers=n_units > n_process)
    except BrokenProcessPool as error:
        raise KrisselError(Errors.K303.format(problem=error, n_process=n_process)) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _read_whole(unit: Unit, number: int, chunk_chars: int) -> list[tuple[Chunk, Path]]:
    return [(chunk, _save_texts(texts)) for chunk, texts in read_unit(unit, number, chunk_chars)]


def _save_texts(texts: list[Text]) -> Path:
    import pyarrow as pa

    schema = pa.schema(
        [(name, pa.int64() if name == "line" else pa.large_string()) for name in Text._fields]
    )
    columns = zip(*texts, strict=True) if texts else [()] * len(Text._fields)
    path = _directory / f"{uuid4().hex}.tmp"
    write_shard(path, pa.table(dict(zip(Text._fields, columns, strict=True)), schema=schema))
    return path


def _load_texts(path: Path) -> list[Text]:
    texts = list(map(Text, *(column.to_pylist() for column in read_shard(path).columns)))
    path.unlink()
    return texts


def _start_worker(miner: Miner, directory: Path) -> None:
    global _miner, _directory
    _miner, _directory = miner, directory
    follow_parent()


def _mine_in_worker(texts: list[Text] | Path, new: np.ndarray) -> MinedChunk:
    assert _miner is not None
    mined = mine_chunk(_miner, _load_texts(texts) if isinstance(texts, Path) else texts, new)
    path = _directory / f"{uuid4().hex}.tmp"
    write_shard(path, mined.mentions)
    return mined._replace(mentions=path)


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
        self._read_task = ray.remote(num_returns="streaming", max_retries=MAX_RETRIES)(_read_on_ray)
        self._mine_task = ray.remote(max_retries=MAX_RETRIES)(_mine_on_ray)

    def read(self, unit: Unit, number: int, chunk_chars: int) -> Iterator[tuple[Chunk, Any]]:
        if unit_bytes(unit) > READ_AHEAD:
            return read_unit(unit, number, chunk_chars)
        # Starts now, not when the first chunk is requested.
        return self._chunks(self._read_task.remote(unit, number, chunk_chars))

    def mine(self, texts: Any, new: np.ndarray) -> Callable[[], MinedChunk]:
        if self._n_mined % CHUNKS_WITH_LIMITS == 0:
            self._sent_limits = self._ray.put(self._limits)
        self._n_mined += 1
        return partial(
            self._get, self._mine_task.remote(self._miner, self._sent_limits, texts, new)
        )

    def _chunks(self, parts: Any) -> Iterator[tuple[Chunk, Any]]:
        def next_part() -> Any:
            return next(first_done(self._ray, [parts]), None)

        while (part := next_part()) is not None:
            yield self._get(part), next_part()

    def _get(self, reference: Any) -> Any:
        return self._ray.get(first_done(self._ray, [reference]))


@contextmanager
def ray_workers(miner: Miner, address: str) -> Iterator[RayWorkers]:
    """Yield workers on the cluster at `address` (see `distributed.workers.ray_cluster`).

    All machines need this package, and the files at the same paths.

    Raises KrisselError K023 to K025, K029 (Ray).
    """
    with ray_cluster(address, MAX_RETRIES) as ray:
        yield RayWorkers(ray, miner)


def _read_on_ray(unit: Unit, number: int, chunk_chars: int) -> Iterator[Any]:
    """Yield chunks and their texts alternately, so that texts stay on the machine that read
    them.
    """
    for chunk, texts in read_unit(unit, number, chunk_chars):
        yield chunk
        yield texts


def _mine_on_ray(
    miner: Miner, limits: np.ndarray, texts: list[Text], new: np.ndarray
) -> MinedChunk:
    return mine_chunk(miner._replace(limits=limits), texts, new)
