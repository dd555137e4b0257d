"""Block-by-block encoding of views, and a store of vectors for resuming."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from ..errors import Errors, KrisselError
from ..kb.columns import read_array, write_array
from ..kb.prototype_kb import Encode
from ..util.disk import coded_io
from ..util.hashing import sha256_file
from ..util.work_folder import WorkFolder
from ..views import View

Item = TypeVar("Item")
VERSION = 1


class Encoders:
    """Encodes in this process; subclasses encode elsewhere, ahead of the caller.

    n_ahead: number of blocks that are being encoded at a time.
    """

    n_ahead = 0

    def __init__(self, encode: Encode) -> None:
        self._encode = encode

    def begin(self, views: list[View]) -> Callable[[], np.ndarray]:
        """Start to encode these views.

        RETURNS: a function that waits for the vectors (n, width) float32.
        """
        return partial(self._encode, views)


class VectorWork(WorkFolder):
    """Vectors of an unfinished knowledge base, next to the output in `.{output}.vectors.partial`.

    There is a file per block of views, committed by rename: a run that was stopped leaves its
    encoded blocks, and a run with the same state resumes it.

    state: everything that views and vectors depend on, JSON. restart: discard the work of an
        earlier run.

    Raises KrisselError K529 if an earlier run of another state left work, K045 if another run works
    there.
    """

    def __init__(self, output: Path, state: dict[str, Any], *, restart: bool = False) -> None:
        super().__init__(output.parent / f".{output.name}.vectors.partial")
        # "<f2" if the knowledge base rounds the vectors anyway.
        self.dtype = "<f4"
        self.start({"version": VERSION, **state}, restart=restart)

    def has_work(self) -> bool:
        return any(self.path.glob("*.npy"))

    def refusal(self, difference: str) -> KrisselError:
        return KrisselError(Errors.K529.format(path=self.path, difference=difference))

    def get(self, name: str, rows: int, width: int) -> np.ndarray | None:
        """Return the vectors (rows, width) of a block, or None if they are missing or damaged."""
        try:
            if self._file(name, ".sha256").read_text("ascii") != sha256_file(self._file(name)):
                return None
            return read_array(self._file(name), rows, width, self.dtype)
        except (FileNotFoundError, ValueError):  # includes KrisselError
            return None

    def put(self, name: str, vectors: np.ndarray) -> None:
        temporary = self.temporary(f"{name}.npy")
        with coded_io(self.path):
            self.check()
            write_array(np.asarray(vectors, dtype=self.dtype), temporary)
            self.write(f"{name}.sha256", sha256_file(temporary).encode())
            os.replace(temporary, self._file(name))

    def _file(self, name: str, suffix: str = ".npy") -> Path:
        return self.path / f"{name}{suffix}"


def encode_blocks(
    blocks: Iterable[list[Item]],
    view: Callable[[Item], View],
    encoders: Encoders,
    width: int,
    work: VectorWork | None = None,
    name: str = "block",
) -> Iterator[tuple[list[Item], np.ndarray]]:
    """Yield the blocks, in order, with the vectors of their views (n, width).

    Few blocks are in memory at a time.

    work: a store to read vectors from and write them to. name: of these blocks in the store.
    """
    waiting: deque[tuple[str, list[Item], np.ndarray | None, Any]] = deque()

    def finish(n_left: int) -> Iterator[tuple[list[Item], np.ndarray]]:
        while len(waiting) > n_left:
            file_name, block, vectors, result = waiting.popleft()
            if vectors is None:
                vectors = result()
                if work is not None:
                    work.put(file_name, vectors)
            yield block, vectors

    for number, block in enumerate(blocks):
        file_name = f"{name}-{number:06}"
        vectors = None if work is None else work.get(file_name, len(block), width)
        result = encoders.begin([view(item) for item in block]) if vectors is None else None
        waiting.append((file_name, block, vectors, result))
        yield from finish(encoders.n_ahead)
    yield from finish(0)
