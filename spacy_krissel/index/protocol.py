"""Vector search behind one small protocol, and what every index checks of the arrays it is given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import Errors, KrisselError

# A matrix of row vectors, (n, d): float32, or float16 where only storage is meant.
Vectors = NDArray[Any]
# Inner products, best first: (q, k) float32, padded with -inf.
Scores = NDArray[np.float32]
# Row numbers of the vectors that scored so, in order of addition: (q, k) int64, padded with -1.
Rows = NDArray[np.int64]
# Which rows may be found: (n,) bool.
Mask = NDArray[np.bool_]


class Searches(Protocol):
    """What can be asked for the nearest rows."""

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> tuple[Scores, Rows]:
        """The `k` rows with the highest inner product for each of the queries (q, d), among the allowed ones."""


class VectorIndex(Searches, Protocol):
    """Rows of vectors, searched by inner product. Knows no entities.

    Many threads may search one that nobody changes; a `copy.copy` of it may be changed meanwhile.

    kind: the name by which a saved index finds its class (`index.kinds`).
    owns_vectors: whether it holds its own copy of the vectors, so that `add` spares it work that `build` repeats.
    """

    kind: str
    owns_vectors: bool

    @property
    def settings(self) -> dict[str, Any]:
        """What is saved and made again on load; where it runs is no part of it. JSON values only."""

    def reads(self, settings: dict[str, Any]) -> bool:
        """Whether `from_disk` takes what an index of this kind with `settings` wrote."""

    def __len__(self) -> int: ...

    def build(self, vectors: Vectors) -> None:
        """Index the rows of `vectors` (n, d) in place of whatever it held."""

    def add(self, vectors: Vectors) -> None:
        """Index further rows (m, d); their numbers follow the present ones."""

    def to_disk(self, directory: Path) -> None:
        """Write its files into the existing `directory`. An index that lives off the vectors alone writes none."""

    def from_disk(self, directory: Path, vectors: Vectors) -> None:
        """Read what `to_disk` wrote; `vectors` (n, d), perhaps memory-mapped, are those it was built from."""


MakeIndex = Callable[[], VectorIndex]


def check_vectors(array: Any, width: int | None, what: str) -> Vectors:
    """`array` as finite floats of shape (any, `width`); `what` names it in the message.

    Raises KrisselError K503 (no float matrix of that width) and K504 (NaN or infinity).
    """
    matrix = np.asarray(array)
    if matrix.ndim != 2 or matrix.dtype.kind != "f" or (width is not None and matrix.shape[1] != width):
        found = f"shape {matrix.shape} of {matrix.dtype}"
        raise KrisselError(Errors.K503.format(what=what, rows="any", width=width or "any", found=found))
    # Summing finds a row with NaN or infinity without a boolean copy of the whole matrix.
    with np.errstate(invalid="ignore", over="ignore"):
        sums = np.add.reduce(matrix, axis=1, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(sums))
    if len(bad):
        raise KrisselError(Errors.K504.format(count=len(bad), total=len(matrix), what=what, first=bad[0]))
    return matrix


def check_queries(array: Any, width: int) -> Vectors:
    """Queries as finite, C-contiguous float32 of shape (any, `width`)."""
    return np.ascontiguousarray(check_vectors(array, width, "query vectors"), dtype=np.float32)


def check_mask(allowed: Any, n: int, what: str) -> Mask:
    """`allowed` as a boolean array of length `n`. Raises KrisselError K505."""
    mask = np.asarray(allowed)
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise KrisselError(Errors.K505.format(n=n, what=what, found=f"shape {mask.shape} of {mask.dtype}"))
    return mask
