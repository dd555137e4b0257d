"""NumPy's forms of the CUDA kernels that the package runs by way of thinc."""

from typing import Any

import numpy

from ._core import ndarray


class ElementwiseKernel:
    def __init__(
        self, in_params: str, out_params: str, operation: str, name: str, **settings: Any
    ) -> None:
        self.name = name

    def __call__(self, *args: Any, **settings: Any) -> None:
        _run(self.name, args)


class ReductionKernel(ElementwiseKernel):
    def __init__(
        self, in_params: str, out_params: str, map_expr: str, reduce_expr: str, post_map_expr: str,
        identity: str, name: str, **settings: Any,
    ) -> None:  # fmt: skip
        self.name = name


class RawKernel:
    def __init__(self, code: str, name: str, **settings: Any) -> None:
        self.name = name

    def __call__(self, grid: Any, block: Any, args: Any, **settings: Any) -> None:
        _run(self.name.partition("<")[0], args)


class RawModule:
    def __init__(self, *, code: str, options: Any = (), name_expressions: Any = None) -> None:
        self.code = code

    def get_function(self, name: str) -> RawKernel:
        return RawKernel(self.code, name)


def _run(name: str, args: Any) -> None:
    if name not in _KERNELS:
        raise NotImplementedError(
            f"the stand-in has no kernel '{name}' (tests/standin/cupy/kernels.py)"
        )
    for arg in args:
        if isinstance(arg, (numpy.ndarray, list)):
            raise TypeError(f"Unsupported type {type(arg)}")
    _KERNELS[name](*(arg._host if isinstance(arg, ndarray) else arg for arg in args))


def _adam(
    grad: Any, lr: float, rate1: float, rate2: float, eps: float, param: Any, m: Any, v: Any
) -> None:
    m += rate1 * (grad - m)
    v += rate2 * (grad * grad - v)
    param -= lr * m / (numpy.sqrt(v) + eps)


def _gelu(out: Any, X: Any, threshold: float, n: int) -> None:
    out[...] = _numpy_ops().gelu(numpy.ascontiguousarray(X))


def _backprop_gelu(out: Any, dY: Any, X: Any, threshold: float, n: int) -> None:
    out[...] = _numpy_ops().backprop_gelu(numpy.ascontiguousarray(dY), numpy.ascontiguousarray(X))


def _numpy_ops() -> Any:
    from thinc.api import NumpyOps

    return NumpyOps()


_KERNELS = {"adam": _adam, "gelu": _gelu, "backprop_gelu": _backprop_gelu}
