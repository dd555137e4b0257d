"""Products by cuBLAS."""

import numpy

from ._core import ndarray, wrapped


def nrm2(x: ndarray) -> ndarray:
    """Return the norm of a vector, which stays on the device."""
    return wrapped(numpy.linalg.norm(x._host))
