"""Arrays that hold NumPy's, and refuse whatever CuPy's refuse.

Followed are the rules of CuPy 13 and 14 (`cupy/_core/core.pyx`, `_kernel.pyx`,
`_routines_indexing.pyx`): an operand is an array of CuPy's or a scalar; an index may be host data,
which is copied; a value assigned to a plain slice may not, one assigned by index or mask may.
"""

import operator
from typing import Any

import numpy
from traffic import note

SCALARS = (bool, int, float, complex, numpy.generic)


class ndarray:
    """Array on the device: `_host` is the NumPy array behind it, which no caller may touch."""

    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100
    _host: numpy.ndarray

    def __init__(self, shape: Any, dtype: Any = float, order: str = "C") -> None:
        self._host = numpy.empty(shape, checked_type(dtype), order)

    # To the host ------------------------------------------------------------------------------

    def get(
        self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True
    ) -> Any:
        note("to_host")
        return self._host.copy()

    def tobytes(self, order: str = "C") -> bytes:
        note("to_host")
        return self._host.tobytes(order)

    def tolist(self) -> Any:
        note("waits")
        return self._host.tolist()

    def item(self, *args: int) -> Any:
        note("waits")
        return self._host.item(*args)

    def __bool__(self) -> bool:
        note("waits")
        return bool(self._host)

    def __int__(self) -> int:
        note("waits")
        return int(self._host)

    def __float__(self) -> float:
        note("waits")
        return float(self._host)

    def __index__(self) -> int:
        note("waits")
        return operator.index(self._host)

    def __repr__(self) -> str:
        return repr(self._host)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        raise TypeError(
            "Implicit conversion to a NumPy array is not allowed. "
            "Please use `.get()` to construct a NumPy array explicitly."
        )

    # NumPy's functions of arrays --------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        import cupy

        found = getattr(cupy, ufunc.__name__, None)
        if method != "__call__" or found is None:
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        return found(*inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        import cupy

        module = cupy.linalg if "linalg" in function.__module__ else cupy
        found = getattr(module, function.__name__, None)
        return NotImplemented if found is None else found(*args, **kwargs)

    # Exchange without a copy ------------------------------------------------------------------

    def __dlpack__(self, **settings: Any) -> Any:
        return self._host.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        # That of a CPU, since torch takes the memory for what it is.
        return self._host.__dlpack_device__()

    # Indexing ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._host)

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return wrapped(self._host[as_index(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        index = as_index(index)
        parts = index if isinstance(index, tuple) else (index,)
        if not isinstance(value, ndarray) and any(
            isinstance(part, numpy.ndarray) for part in parts
        ):
            value = as_array(value, self.dtype)
        elif isinstance(value, numpy.ndarray) and value.ndim:
            raise TypeError("non-scalar numpy.ndarray cannot be used for fill")
        self._host[index] = operand(value)

    def scatter_add(self, index: Any, value: Any) -> None:
        if self.dtype.kind not in "fu" and self.dtype != numpy.int32:
            raise TypeError(f"scatter_add does not support {self.dtype}")
        if not isinstance(value, ndarray):
            value = as_array(value, self.dtype)
        numpy.add.at(self._host, as_index(index), value._host)

    # Forms of the same array ------------------------------------------------------------------

    def astype(
        self,
        dtype: Any,
        order: str = "K",
        casting: Any = None,
        subok: Any = None,
        copy: bool = True,
    ) -> Any:
        dtype = checked_type(dtype)
        return self if not copy and dtype == self.dtype else wrapped(self._host.astype(dtype))

    def copy(self, order: str = "C") -> "ndarray":
        return wrapped(self._host.copy(order))

    def view(self, dtype: Any = None) -> "ndarray":
        return wrapped(self._host.view() if dtype is None else self._host.view(checked_type(dtype)))

    def fill(self, value: Any) -> None:
        if isinstance(value, numpy.ndarray) and value.ndim:
            raise TypeError("non-scalar numpy.ndarray cannot be used for fill")
        self._host.fill(operand(value))

    @property
    def T(self) -> "ndarray":
        return wrapped(self._host.T)

    def __getattr__(self, name: str) -> Any:
        # Shapes, sizes and flags: NumPy's own.
        if name in ("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags"):
            return getattr(self._host, name)
        raise AttributeError(f"'ndarray' object has no attribute {name!r}")


def checked_type(dtype: Any) -> Any:
    """Return a dtype. Raises ValueError for one that no device computes with."""
    found = numpy.dtype(dtype)
    if found.kind not in "?biufc":
        raise ValueError(f"Unsupported dtype {found}")
    return found


def wrapped(found: Any) -> Any:
    """Return what NumPy gave as CuPy gives it: scalars are arrays without dimensions."""
    if isinstance(found, (tuple, list)):
        return (
            type(found)(map(wrapped, found))
            if type(found) in (tuple, list)
            else tuple(map(wrapped, found))
        )
    if not isinstance(found, (numpy.ndarray, numpy.generic)):
        return found
    array = ndarray.__new__(ndarray)
    array._host = numpy.asarray(found)
    return array


def operand(value: Any) -> Any:
    """Return what NumPy computes with. Raises TypeError for what no kernel takes."""
    if isinstance(value, ndarray):
        return value._host
    if value is None or isinstance(value, SCALARS):
        return value
    raise TypeError(f"Unsupported type {type(value)}")


def as_array(data: Any, dtype: Any = None) -> ndarray:
    """Return a new array of host data, one copy, or of arrays on the device, none."""
    if isinstance(data, ndarray):
        return data.astype(data.dtype if dtype is None else dtype)
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], ndarray):
        return wrapped(numpy.stack([operand(each) for each in data]).astype(dtype or data[0].dtype))
    found = numpy.array(data, dtype=dtype)
    checked_type(found.dtype)
    note("to_device")
    return wrapped(found)


def as_index(index: Any) -> Any:
    """Return an index for NumPy. Host lists and arrays are copied to the device, and the host waits
    for the number of elements that a mask leaves."""
    return tuple(map(_as_index, index)) if isinstance(index, tuple) else _as_index(index)


def _as_index(part: Any) -> Any:
    if part is None or part is Ellipsis or isinstance(part, slice):
        return part
    if isinstance(part, (int, numpy.integer)) and not isinstance(part, bool):
        return part
    if not isinstance(part, ndarray):
        try:
            part = as_array(part)
        except ValueError as error:
            raise IndexError(
                "only integers, slices and integer or boolean arrays are valid indices"
            ) from error
        if not part.size:
            part = part.astype("int32")
    if part.dtype.kind not in "?biu":
        raise IndexError(
            "arrays used as indices must be of integer or boolean type. (actual: "
            f"{part.dtype.type})"
        )
    if part.dtype == bool and part.size:
        note("waits")
    return part._host


class ufunc:
    """Function of NumPy's, element by element, over arrays on the device."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self._function = getattr(numpy, name)

    def __call__(self, *args: Any, out: Any = None, dtype: Any = None) -> Any:
        inputs = [operand(arg) for arg in args]
        found = self._function(*inputs, **({} if dtype is None else {"dtype": dtype}))
        if out is None:
            return wrapped(found)
        if not isinstance(out, ndarray):
            raise TypeError(f"return arrays must be of ArrayType, not {type(out)}")
        out._host[...] = found
        return out

    def at(self, a: ndarray, index: Any, b: Any = None) -> None:
        if self.__name__ != "add":
            raise NotImplementedError(f"`{self.__name__}.at` is not supported")
        a.scatter_add(index, b)

    def reduce(self, array: ndarray, axis: Any = 0, keepdims: bool = False) -> ndarray:
        return wrapped(self._function.reduce(operand(array), axis=axis, keepdims=keepdims))

    def outer(self, a: Any, b: Any) -> ndarray:
        return wrapped(self._function.outer(operand(a), operand(b)))


def on_arrays(function: Any) -> Any:
    """Make CuPy's form of a function of NumPy's whose first argument is an array."""

    def call(a: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(a, ndarray):
            raise TypeError(f"Unsupported type {type(a)}")
        keep = {key: _argument(value) for key, value in kwargs.items() if value is not None}
        out = kwargs.get("out")
        found = function(a._host, *map(_argument, args), **keep)
        return wrapped(found) if out is None else out

    call.__name__ = getattr(function, "__name__", "")
    return call


def on_sequences(function: Any) -> Any:
    """Make CuPy's form of a function of NumPy's that joins arrays."""

    def call(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        parts = list(arrays)
        for part in parts:
            if not isinstance(part, ndarray):
                raise TypeError(f"Only cupy arrays can be concatenated, not {type(part)}")
        return wrapped(function([part._host for part in parts], *args, **kwargs))

    call.__name__ = function.__name__
    return call


def waiting(function: Any, times: int = 1) -> Any:
    """Make the form of a function whose result depends on values that the host waits for."""

    def call(*args: Any, **kwargs: Any) -> Any:
        note("waits", times)
        return function(*args, **kwargs)

    call.__name__ = function.__name__
    return call


def _argument(value: Any) -> Any:
    if isinstance(value, (numpy.ndarray, list)):
        raise TypeError(f"Unsupported type {type(value)}")
    return value._host if isinstance(value, ndarray) else value


def _binary(name: str, swapped: bool) -> Any:
    function = getattr(operator, name)

    def apply(self: ndarray, other: Any) -> Any:
        if isinstance(other, str) or not isinstance(other, (ndarray, numpy.ndarray, *SCALARS)):
            return NotImplemented
        a, b = self._host, operand(other)
        return wrapped(function(b, a) if swapped else function(a, b))

    return apply


def _unary(function: Any) -> Any:
    return lambda self: wrapped(function(self._host))


def _in_place(name: str) -> Any:
    function = getattr(operator, name)

    def apply(self: ndarray, other: Any) -> ndarray:
        self._host = function(self._host, operand(other))
        return self

    return apply


def _add_operators() -> None:
    for name in (
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "matmul",
        "and_",
        "or_",
        "xor",
    ):
        short = name.rstrip("_")
        setattr(ndarray, f"__{short}__", _binary(name, False))
        setattr(ndarray, f"__r{short}__", _binary(name, True))
        setattr(ndarray, f"__i{short}__", _in_place(f"i{short}"))
    for name in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(ndarray, f"__{name}__", _binary(name, False))
    for name in ("neg", "pos", "abs", "invert"):
        setattr(ndarray, f"__{name}__", _unary(getattr(operator, name)))
    for name in (
        "all any argmax argmin argsort clip cumsum diagonal dot flatten max mean min prod ravel "
        "repeat reshape round searchsorted squeeze std sum swapaxes take trace transpose var"
    ).split():
        setattr(ndarray, name, on_arrays(getattr(numpy.ndarray, name)))
    ndarray.nonzero = waiting(on_arrays(numpy.nonzero))  # type: ignore[attr-defined]


_add_operators()
