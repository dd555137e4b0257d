"""Workers that read and mine: this process, or several on this machine."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from uuid import uuid4

import numpy as np

from ..corpora.text_stream import Text
from ..distributed.workers import follow_parent
from ..errors import Errors, KrisselError
from .miner import MinedChunk, Miner, mine_chunk
from .reading import Chunk, SeenIds, Unit, read_unit, unit_bytes
from .shards import write_shard

# Bytes of files whose texts may be in memory, read but not yet mined.
READ_AHEAD = 128_000_000
# Texts, or a file of them.
Texts = list[Text] | Path
# The miner of a worker process, and the folder it writes to.
_miner: Miner | None = None
_directory = Path()


class Workers(Protocol):
    """Where texts are read and mined, possibly later, elsewhere and in any order.

    n_ahead: chunks that are mined while others are read. ahead_bytes: maximum size of the files read before their turn.
    """

    n_ahead: int
    ahead_bytes: int

    def read(self, unit: Unit, number: int, chunk_chars: int) -> Iterator[tuple[Chunk, Any]]:
        """`read_unit`, with a handle in place of the texts, which `mine` takes."""

    def mine(self, texts: Any, new: np.ndarray) -> Any:
        """`mine_chunk`, with a handle in place of the result, which `result` takes."""

    def result(self, mined: Any) -> MinedChunk:
        """Wait for the result."""


class Done(NamedTuple):
    """A mined chunk. ids: hashes of its new ids."""

    chunk: Chunk
    mined: MinedChunk
    ids: np.ndarray


def mine_units(
    workers: Workers, units: Iterable[tuple[int, Unit]], chunk_chars: int, seen: SeenIds, n_skipped: int
) -> Iterator[Done]:
    """The mined chunks of the units in order, few of them in memory at a time. The first text of each id is mined.

    units: with their indices. n_skipped: chunks of the first unit that were mined before. seen: the ids of those and of
    all earlier units.
    """
    waiting: deque[tuple[Chunk, np.ndarray, Any]] = deque()
    for chunk, texts in _read(workers, units, chunk_chars):
        if n_skipped:
            n_skipped -= 1
            continue
        new = seen.add(chunk.ids)
        gone = chunk.deleted[seen.add(chunk.deleted)]
        waiting.append((chunk, np.append(chunk.ids[new], gone), workers.mine(texts, new)))
        while len(waiting) > workers.n_ahead:
            yield _done(workers, waiting)
    while waiting:
        yield _done(workers, waiting)


def _done(workers: Workers, waiting: deque[tuple[Chunk, np.ndarray, Any]]) -> Done:
    chunk, ids, mined = waiting.popleft()
    return Done(chunk, workers.result(mined), ids)


def _read(workers: Workers, units: Iterable[tuple[int, Unit]], chunk_chars: int) -> Iterator[tuple[Chunk, Any]]:
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


class ThisProcess:
    """Reads and mines at once in this process."""

    n_ahead = 0
    ahead_bytes = 0

    def __init__(self, miner: Miner) -> None:
        self._miner = miner

    def read(self, unit: Unit, number: int, chunk_chars: int) -> Iterator[tuple[Chunk, list[Text]]]:
        return read_unit(unit, number, chunk_chars)

    def mine(self, texts: list[Text], new: np.ndarray) -> MinedChunk:
        return mine_chunk(self._miner, texts, new)

    def result(self, mined: MinedChunk) -> MinedChunk:
        return mined


class Processes:
    """Processes of this machine. Where they are forked, they share the miner's memory.

    Each reads whole units too. Texts and mentions are passed as files in the work directory, which this process does
    not open: pipes are 5 % slower. A unit that is too large to be read ahead is read here, chunk by chunk, and so is
    everything if there are fewer units than processes (`read_apart` is False).
    """

    def __init__(self, pool: ProcessPoolExecutor, n_process: int, read_apart: bool) -> None:
        self._pool = pool
        self._read_apart = read_apart
        self.n_ahead = n_process + 1
        self.ahead_bytes = READ_AHEAD if read_apart else 0

    def read(self, unit: Unit, number: int, chunk_chars: int) -> Iterator[tuple[Chunk, Texts]]:
        if not self._read_apart or unit_bytes(unit) > READ_AHEAD:
            return read_unit(unit, number, chunk_chars)
        return _later(self._pool.submit(_read_whole, unit, number, chunk_chars))

    def mine(self, texts: "Texts", new: np.ndarray) -> "Future[MinedChunk]":
        return self._pool.submit(_mine_in_worker, texts, new)

    def result(self, mined: "Future[MinedChunk]") -> MinedChunk:
        return mined.result()


@contextmanager
def local_workers(miner: Miner, n_process: int, n_units: int, directory: Path) -> Iterator[Workers]:
    """directory: of the work. Raises KrisselError K303 when a process dies."""
    # Built first, so that forked processes share it.
    miner.matcher.build()
    if n_process == 1:
        yield ThisProcess(miner)
        return
    pool = ProcessPoolExecutor(n_process, initializer=_start_worker, initargs=(miner, directory))
    try:
        yield Processes(pool, n_process, read_apart=n_units > n_process)
    except BrokenProcessPool as error:
        raise KrisselError(Errors.K303.format(problem=error, n_process=n_process)) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _later(chunks: "Future[list[tuple[Chunk, Path]]]") -> Iterator[tuple[Chunk, Path]]:
    yield from chunks.result()


def _read_whole(unit: Unit, number: int, chunk_chars: int) -> list[tuple[Chunk, Path]]:
    return [(chunk, _put(texts)) for chunk, texts in read_unit(unit, number, chunk_chars)]


def _put(texts: list[Text]) -> Path:
    import pyarrow as pa

    path = _new_path()
    columns = list(zip(*texts, strict=True)) or [()] * len(Text._fields)
    table = pa.table(dict(zip(Text._fields, columns, strict=True)), schema=_text_schema())
    with pa.OSFile(str(path), "wb") as file_, pa.ipc.new_file(file_, table.schema) as writer:
        writer.write_table(table)
    return path


def _take(path: Path) -> list[Text]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file_:
        table = pa.ipc.open_file(file_).read_all()
        texts = list(map(Text, *(column.to_pylist() for column in table.columns)))
    path.unlink()
    return texts


def _text_schema() -> Any:
    import pyarrow as pa

    return pa.schema([(name, pa.int64() if name == "line" else pa.large_string()) for name in Text._fields])


def _new_path() -> Path:
    return _directory / f"{uuid4().hex}.tmp"


def _start_worker(miner: Miner, directory: Path) -> None:
    global _miner, _directory
    _miner, _directory = miner, directory
    follow_parent()


def _mine_in_worker(texts: "Texts", new: np.ndarray) -> MinedChunk:
    assert _miner is not None
    mined = mine_chunk(_miner, _take(texts) if isinstance(texts, Path) else texts, new)
    path = _new_path()
    write_shard(path, mined.mentions)
    return mined._replace(mentions=path)
