"""Protocol of vector search, and checks of the arrays given to an index."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import Errors, KrisselError
from ..util.memory import forget_pages

# Matrix of row vectors, (n, d): float32, or float16 for storage only.
Vectors = NDArray[Any]
# Inner products, best first: (q, k) float32, padded with -inf.
Scores = NDArray[np.float32]
# Row numbers of the vectors with these scores, in order of addition: (q, k) int64, padded with -1.
Rows = NDArray[np.int64]
# Mask of the rows that may be found: (n,) bool.
Mask = NDArray[np.bool_]


class Searches(Protocol):
    """Protocol of objects that find the nearest rows."""

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> tuple[Scores, Rows]:
        """Return the `k` rows with the highest inner product for each of the queries (q, d).

        allowed: mask of the rows to consider; None: all.
        """


class VectorIndex(Searches, Protocol):
    """Protocol of an index of vectors, searched by inner product. It knows no entities.

    Many threads may search an index that is not being changed; a `copy.copy` of it may be changed
    meanwhile.

    kind: the name by which a saved index finds its class (`index.kinds`).
    owns_vectors: whether it holds its own copy of the vectors, so that `add` saves work that
        `build` repeats.
    """

    kind: str
    owns_vectors: bool

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that are saved and restored, without the device. JSON values only."""

    def can_read(self, settings: dict[str, Any]) -> bool:
        """Return whether `from_disk` can read the files of an index of this kind with
        `settings`.
        """

    def __len__(self) -> int: ...

    def build(self, vectors: Vectors) -> None:
        """Index the rows of `vectors` (n, d), replacing all earlier rows."""

    def add(self, vectors: Vectors) -> None:
        """Index more rows (m, d); their numbers continue those of the present rows."""

    def to_disk(self, directory: Path) -> None:
        """Write the files of the index into the existing `directory`.

        An index that needs only the vectors writes none.
        """

    def from_disk(self, directory: Path, vectors: Vectors) -> None:
        """Read the files of `to_disk`.

        vectors: (n, d), possibly memory-mapped, the same as in the build.
        """


MakeIndex = Callable[[], VectorIndex]
# Rows that are checked at a time, so that few of a mapped matrix are in memory.
CHECKED_ROWS = 65_536


def check_vectors(array: Any, width: int | None, what: str) -> Vectors:
    """Return `array` as finite floats of shape (any, `width`).

    what: names the array in messages.

    Raises KrisselError K503 (no float matrix of that width) and K504 (NaN or infinity).
    """
    matrix = np.asarray(array)
    if (
        matrix.ndim != 2
        or matrix.dtype.kind != "f"
        or (width is not None and matrix.shape[1] != width)
    ):
        found = f"shape {matrix.shape} of {matrix.dtype}"
        raise KrisselError(
            Errors.K503.format(what=what, rows="any", width=width or "any", found=found)
        )
    # A sum detects rows with NaN or infinity without a boolean copy of the whole matrix.
    sums = np.empty(len(matrix))
    with np.errstate(invalid="ignore", over="ignore"):
        for start in range(0, len(matrix), CHECKED_ROWS):
            part = slice(start, start + CHECKED_ROWS)
            np.add.reduce(matrix[part], axis=1, dtype=np.float64, out=sums[part])
            forget_pages(array)
    bad = np.flatnonzero(~np.isfinite(sums))
    if len(bad):
        raise KrisselError(
            Errors.K504.format(count=len(bad), total=len(matrix), what=what, first=bad[0])
        )
    return matrix


def check_queries(array: Any, width: int) -> Vectors:
    """Return queries as finite, C-contiguous float32 of shape (any, `width`)."""
    return np.ascontiguousarray(check_vectors(array, width, "query vectors"), dtype=np.float32)


def check_mask(allowed: Any, n: int, what: str) -> Mask:
    """Return `allowed` as a boolean array of length `n`. Raises KrisselError K505."""
    mask = np.asarray(allowed)
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise KrisselError(
            Errors.K505.format(n=n, what=what, found=f"shape {mask.shape} of {mask.dtype}")
        )
    return mask


def read_only(array: np.ndarray) -> np.ndarray:
    """Return a read-only view. Mapped files are read-only, and loops are compiled for one array
    type.
    """
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view
