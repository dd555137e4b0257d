"""Functions of CuPy that NumPy does not have."""

from typing import Any

import cupy


def scatter_add(a: cupy.ndarray, slices: Any, value: Any) -> None:
    """Add values at indices, which may repeat."""
    a.scatter_add(slices, value)
