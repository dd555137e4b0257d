"""Linear algebra on the device."""

import numpy

from ._core import on_arrays

norm = on_arrays(numpy.linalg.norm)
