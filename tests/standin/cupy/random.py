"""Random numbers on the device, from a generator of their own."""

from typing import Any

import numpy

from ._core import ndarray, wrapped

_generator = numpy.random.RandomState(0)


def seed(seed: int | None = None) -> None:
    _generator.seed(seed if seed is None else seed % 2**32)


def uniform(low: float = 0.0, high: float = 1.0, size: Any = None, dtype: Any = float) -> ndarray:
    return wrapped(_generator.uniform(low, high, size).astype(dtype))


def normal(loc: float = 0.0, scale: float = 1.0, size: Any = None, dtype: Any = float) -> ndarray:
    return wrapped(_generator.normal(loc, scale, size).astype(dtype))
