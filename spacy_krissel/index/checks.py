"""What every index checks of the arrays it is given."""

from typing import Any

import numpy as np

from ..errors import Errors, KrisselError
from .protocol import Mask, Vectors


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
