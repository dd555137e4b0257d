"""Stand-in for CuPy on a CPU, for tests of code that is to run on a card.

Its arrays are on the host and pass for arrays on a device: they refuse what CuPy's refuse, and
`traffic` counts the copies and what the host waits for. Only names that CuPy 13 and 14 have are
here, and of these the ones that somebody calls; any other raises AttributeError.
"""

import sys
import types
from typing import Any

import numpy
from numpy import (  # noqa: F401 (part of CuPy's names)
    bool_,
    e,
    finfo,
    float16,
    float32,
    float64,
    iinfo,
    inf,
    int8,
    int16,
    int32,
    int64,
    isscalar,
    nan,
    newaxis,
    pi,
    uint8,
    uint16,
    uint32,
    uint64,
)

from . import _core, cublas, cuda, kernels, linalg, random  # noqa: F401
from ._core import ndarray, ufunc
from .kernels import ElementwiseKernel, RawKernel, RawModule, ReductionKernel  # noqa: F401

__version__ = "14.2.0"
dtype = numpy.dtype

for _name in (
    "absolute add arctan2 ceil cos cosh divide equal exp expm1 fabs floor floor_divide fmax fmin "
    "greater greater_equal invert isfinite isinf isnan left_shift less less_equal log log1p log2 "
    "logaddexp logical_and logical_not logical_or maximum minimum mod multiply negative not_equal "
    "power reciprocal rint sign sin sqrt square subtract tan tanh true_divide"
).split():
    globals()[_name] = ufunc(_name)
abs = globals()["absolute"]

for _name in (
    "all amax amin any argmax argmin argpartition argsort broadcast_to clip count_nonzero cumsum "
    "diag diff dot expand_dims fill_diagonal flip isin matmul max mean median min moveaxis "
    "nan_to_num outer partition percentile prod put_along_axis ravel repeat reshape roll "
    "searchsorted sort squeeze std sum swapaxes take take_along_axis tensordot tile transpose tril "
    "triu var zeros_like ones_like empty_like full_like allclose array_equal"
).split():
    globals()[_name] = _core.on_arrays(getattr(numpy, _name))

for _name in "column_stack concatenate dstack hstack stack vstack".split():
    globals()[_name] = _core.on_sequences(getattr(numpy, _name))

# How long the result is depends on values; `bincount` asks for the lowest and the highest.
for _name, _times in {
    "argwhere": 1,
    "flatnonzero": 1,
    "nonzero": 1,
    "unique": 1,
    "bincount": 2,
}.items():
    globals()[_name] = _core.waiting(_core.on_arrays(getattr(numpy, _name)), _times)


def _maker(name: str) -> Any:
    function = getattr(numpy, name)

    def make(*args: Any, **kwargs: Any) -> ndarray:
        found = function(*map(_core._argument, args), **kwargs)
        _core.checked_type(found.dtype)
        return _core.wrapped(found)

    return make


for _name in "arange empty eye full identity linspace ones zeros".split():
    globals()[_name] = _maker(_name)
del _name, _times


def array(
    obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", ndmin: int = 0
) -> ndarray:
    if isinstance(obj, ndarray) and not copy and dtype in (None, obj.dtype):
        return obj
    return _core.as_array(obj, dtype)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, blocking: bool = False) -> ndarray:
    return array(a, dtype, copy=False)


def ascontiguousarray(a: Any, dtype: Any = None) -> ndarray:
    found = asarray(a, dtype)
    return (
        found if found.flags.c_contiguous else _core.wrapped(numpy.ascontiguousarray(found._host))
    )


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None) -> numpy.ndarray:
    return a.get() if isinstance(a, ndarray) else numpy.asarray(a)


def copyto(dst: ndarray, src: Any) -> None:
    dst._host[...] = _core.operand(src)


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None:
        return globals()["nonzero"](condition)
    return _core.wrapped(numpy.where(*map(_core.operand, (condition, x, y))))


def einsum(subscripts: str, *operands: Any) -> ndarray:
    return _core.wrapped(numpy.einsum(subscripts, *map(_core.operand, operands)))


def split(ary: ndarray, indices_or_sections: Any, axis: int = 0) -> list[ndarray]:
    return _core.wrapped(numpy.split(_core.operand(ary), indices_or_sections, axis))


def get_array_module(*args: Any) -> types.ModuleType:
    return sys.modules[__name__] if any(isinstance(arg, ndarray) for arg in args) else numpy


def from_dlpack(array: Any) -> ndarray:
    """Share the memory of a tensor. Takes a capsule too, as CuPy does."""
    if not hasattr(array, "__dlpack_device__"):
        capsule = array
        array = types.SimpleNamespace(
            __dlpack__=lambda **_: capsule, __dlpack_device__=lambda: (1, 0)
        )
    shared = numpy.from_dlpack(array)
    # NumPy takes a tensor for one that must not be written to.
    data, _ = shared.__array_interface__["data"]
    interface = {**shared.__array_interface__, "data": (data, False)}
    owner = types.SimpleNamespace(__array_interface__=interface, shared=shared)
    return _core.wrapped(numpy.asarray(owner))


def get_default_memory_pool() -> Any:
    return cuda.MemoryPool()


def save(file: Any, arr: Any, allow_pickle: Any = None) -> None:
    numpy.save(file, asnumpy(arr), allow_pickle=False)


def load(file: Any, mmap_mode: Any = None, allow_pickle: Any = None) -> ndarray:
    return array(numpy.load(file, allow_pickle=False))
