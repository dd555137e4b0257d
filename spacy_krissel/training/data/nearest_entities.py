"""An index over the vectors of all entities by the encoder in training, to find hard negatives."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...util.atomic import atomic_file
from ...util.disk import coded_io
from ...util.progress import progress_bar
from ...util.settings import Count, checked

# Entities encoded at a time; with a cache, at most this many are encoded again after an interruption.
BLOCK = 4096
# A folder in a cache was made here if it has this prefix and holds this file; a file in it if its name matches `OWN`.
PREFIX = "krissel-vectors-"
MARKER = "made-by-spacy-krissel"
OWN = re.compile(rf"{MARKER}|\d+\.npy|\.\d+\.npy\.\w+\.tmp")

# From a function that encodes blocks by number, and the rows of each block, to the vectors of all rows.
Make = Callable[[Callable[[list[int]], np.ndarray], Sequence[range]], np.ndarray]


@checked
class NearestEntities:
    """An index over the vectors of all entities, or of other rows, rebuilt at intervals (PEL §5.3.1, hard negative
    mining).

    make_index: makes the vector index, such as that of `spacy-krissel.ExactIndex.v1`.
    n_entities: number of rows.
    refresh_every: steps between two refreshes, the first at the first step; 0 for the first alone.
    cache: a folder that keeps the vectors of one refresh, so that an interrupted one resumes when the same training is
        started again; other files in it are left alone. None keeps nothing.
    what: what the rows are, for the progress bar.

    Raises KrisselError K006 for a wrong setting.
    """

    def __init__(
        self,
        make_index: Callable[[], Any],
        n_entities: int,
        *,
        refresh_every: Count = 500,
        cache: str | Path | None = None,
        what: str = "entities",
    ) -> None:
        self.make_index = make_index
        self.n_entities = n_entities
        self.refresh_every = refresh_every
        self.cache = None if cache is None else Path(cache)
        self.what = what
        self.steps = 0
        self._index: Any = None

    def step(self, encode: Callable[[range], np.ndarray], key: Callable[[], str], make: Make | None = None) -> bool:
        """Count a step, and refresh the index when it is due. RETURNS: whether it was.

        encode: rows of the ontology → their vectors (n, d).
        key: identifies the encoder's state, e.g. by the hash of its weights; called only with a cache.
        make: in data-parallel training, gathers the vectors that each process encodes.
        """
        due = self._index is None or (self.refresh_every and self.steps % self.refresh_every == 0)
        self.steps += 1
        if due:
            folder = None if self.cache is None else _begin(self.cache, key())
            blocks = [range(start, min(start + BLOCK, self.n_entities)) for start in range(0, self.n_entities, BLOCK)]

            def encode_blocks(numbers: list[int]) -> np.ndarray:
                settings: Any = {"desc": f"Vectors of all {self.what}", "unit": " blocks", "leave": False}
                own = progress_bar([blocks[number] for number in numbers], show=True, **settings)
                return np.concatenate([_vectors(encode, rows, folder) for rows in own])

            vectors = encode_blocks(list(range(len(blocks)))) if make is None else make(encode_blocks, blocks)
            self._index = self.make_index()
            self._index.build(vectors)
        return bool(due)

    def search(self, vectors: np.ndarray, k: int) -> np.ndarray:
        """The rows of the k nearest entities of each vector (q, d): (q, k), nearest first, -1 for none."""
        return self._index.search(np.asarray(vectors, dtype=np.float32), k)[1]


def _begin(cache: Path, key: str) -> Path:
    """The folder for the vectors of one state of the encoder; those of other states are removed.

    Raises KrisselError K026 when the disk refuses.
    """
    folder = cache / f"{PREFIX}{key}"
    with coded_io(cache):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARKER).touch()
        for other in cache.iterdir():
            if other.name.startswith(PREFIX) and other != folder and (other / MARKER).is_file():
                _remove(other)
    return folder


def _remove(folder: Path) -> None:
    """Remove the files made here, and the folder if it is then empty."""
    if folder.is_symlink():
        return
    # The marker last, so that an interrupted removal is resumed.
    own = [file_ for file_ in folder.iterdir() if OWN.fullmatch(file_.name) and not file_.is_dir()]
    for file_ in sorted(own, key=lambda file_: file_.name == MARKER):
        # Several processes may remove it at once.
        file_.unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        # It holds other files, or is gone.
        pass


def _vectors(encode: Callable[[range], np.ndarray], rows: range, folder: Path | None) -> np.ndarray:
    """The vectors of these rows, from the folder if it has them."""
    path = None if folder is None else folder / f"{rows.start}.npy"
    found = None if path is None else _read(path, len(rows))
    if found is not None:
        return found
    vectors = np.asarray(encode(rows), dtype=np.float32)
    if path is not None:
        with atomic_file(path) as temporary, temporary.open("wb") as file_:
            np.save(file_, vectors, allow_pickle=False)
    return vectors


def _read(path: Path, n_rows: int) -> np.ndarray | None:
    """The vectors at `path`; None if it is missing or damaged."""
    try:
        vectors = np.load(path, allow_pickle=False)
    except MemoryError:
        raise
    except Exception:  # numpy raises many types for damaged bytes.
        return None
    whole = vectors.dtype == np.float32 and vectors.ndim == 2 and len(vectors) == n_rows
    return vectors if whole and np.isfinite(vectors).all() else None
