"""All entities by the vectors that the encoder in training gives them, so that a mention's nearest can be found."""

import os
import re
import uuid
from pathlib import Path
from typing import Any, Callable, List, Optional, Sequence, Union

import numpy as np

from ...errors import Errors, KrisselError
from ...util.disk import coded_io
from ...util.progress import progress_bar

# Entities encoded at a time; with a cache, what is lost when the work is cut off.
BLOCK = 4096
# In a cache, folders of this name that hold this file were made here, and of what is in them, what has such a name.
PREFIX = "krissel-vectors-"
MARKER = "made-by-spacy-krissel"
OWN = re.compile(rf"{MARKER}|\d+\.npy|\.\d+\.npy\.\w+\.tmp")

# What makes vectors of blocks, by number, and the rows of each block, to the vectors of all rows.
Make = Callable[[Callable[[List[int]], np.ndarray], Sequence[range]], np.ndarray]


class NearestEntities:
    """An index of the vectors of all entities, or of other rows, that is made anew every so many steps (PEL §5.3.1,
    hard negative mining).

    make_index: makes the vector index, such as that of `spacy-krissel.ExactIndex.v1`.
    refresh_every: steps between two refreshes, the first at the first step; 0 refreshes then alone.
    cache: a folder in which the vectors are kept while they are made, so that a refresh that was cut off goes on where
        it stopped when the same training is started again. Holds those of one refresh, in a folder of their own; what
        else is there stays as it is. None keeps nothing.
    what: what the rows are, for the progress bar.

    Raises KrisselError K006 for a wrong setting.
    """

    def __init__(
        self,
        make_index: Callable[[], Any],
        n_entities: int,
        *,
        refresh_every: int = 500,
        cache: Optional[Union[str, Path]] = None,
        what: str = "entities",
    ) -> None:
        check_refresh(refresh_every)
        self.make_index = make_index
        self.n_entities = n_entities
        self.refresh_every = refresh_every
        self.cache = None if cache is None else Path(cache)
        self.what = what
        self.steps = 0
        self._index: Any = None

    def step(self, encode: Callable[[range], np.ndarray], key: Callable[[], str], make: Optional[Make] = None) -> bool:
        """Count a step, and refresh the index where it is due. RETURNS: whether it was.

        encode: rows of the ontology → their vectors (n, d).
        key: names the encoder's present state, e.g. by the hash of its weights; asked for where there is a cache.
        make: where several processes train together, makes all vectors of what each of them encodes.
        """
        due = self._index is None or (self.refresh_every and self.steps % self.refresh_every == 0)
        self.steps += 1
        if due:
            folder = None if self.cache is None else _begin(self.cache, key())
            blocks = [range(start, min(start + BLOCK, self.n_entities)) for start in range(0, self.n_entities, BLOCK)]

            def encode_blocks(numbers: List[int]) -> np.ndarray:
                settings: Any = {"desc": f"Vectors of all {self.what}", "unit": " blocks", "leave": False}
                own = progress_bar([blocks[number] for number in numbers], show=True, **settings)
                return np.concatenate([_vectors(encode, rows, folder) for rows in own])

            vectors = encode_blocks(list(range(len(blocks)))) if make is None else make(encode_blocks, blocks)
            self._index = self.make_index()
            self._index.build(vectors)
        return bool(due)

    def search(self, vectors: np.ndarray, k: int) -> np.ndarray:
        """The rows of the k nearest entities of each vector (q, d): (q, k), the nearest first, -1 for none."""
        return self._index.search(np.asarray(vectors, dtype=np.float32), k)[1]


def _begin(cache: Path, key: str) -> Path:
    """The folder of the vectors of a state of the encoder; those of other states are removed.

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
    """Remove what was made here, and the folder if nothing else is in it."""
    if folder.is_symlink():
        return
    # The marker last, so that what was interrupted is gone on with.
    own = [file_ for file_ in folder.iterdir() if OWN.fullmatch(file_.name) and not file_.is_dir()]
    for file_ in sorted(own, key=lambda file_: file_.name == MARKER):
        # Several processes may do so at once.
        file_.unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        # Something else is in it, or it is gone.
        pass


def _vectors(encode: Callable[[range], np.ndarray], rows: range, folder: Optional[Path]) -> np.ndarray:
    """The vectors of these rows, from the folder where they are there."""
    path = None if folder is None else folder / f"{rows.start}.npy"
    found = None if path is None else _read(path, len(rows))
    if found is not None:
        return found
    vectors = np.asarray(encode(rows), dtype=np.float32)
    if path is not None:
        _write(vectors, path)
    return vectors


def _read(path: Path, n_rows: int) -> Optional[np.ndarray]:
    """The vectors at `path`; None where there are none, or damaged ones."""
    try:
        vectors = np.load(path, allow_pickle=False)
    except MemoryError:
        raise
    except Exception:  # Of damaged bytes, numpy raises many things.
        return None
    whole = vectors.dtype == np.float32 and vectors.ndim == 2 and len(vectors) == n_rows
    return vectors if whole and np.isfinite(vectors).all() else None


def _write(vectors: np.ndarray, path: Path) -> None:
    """Whole or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    with coded_io(path):
        with temporary.open("wb") as file_:
            np.save(file_, vectors, allow_pickle=False)
        os.replace(temporary, path)


def check_refresh(refresh_every: int) -> None:
    """Raises KrisselError K006."""
    if refresh_every < 0:
        expected = "a number of steps, or 0 for the first alone"
        raise KrisselError(Errors.K006.format(setting="refresh_every", found=refresh_every, expected=expected))
