"""Loops that numba compiles, where it is installed (the extra `cpu`); else NumPy does the same work in more passes."""

import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ..errors import KrisselWarning, Warnings

# To import numba takes half a second, for which the first link of a few mentions is not to wait.
LEAST = 256


def compile_from_the_start() -> None:
    """Import the loops for few texts too, from now on: in a process that links few at a time, for long."""
    global LEAST
    LEAST = 0


def kernel(name: str, n: int) -> ModuleType | None:
    """The module `name` of this package, whose functions are `compiled`; None where numba is not installed, and for
    fewer than `LEAST` texts where nothing has imported the module yet.

    Warns KW031, once, where numba is installed, and cannot be imported.
    """
    return _imported(name) if n >= LEAST or name in sys.modules else None


@cache
def _imported(name: str) -> ModuleType | None:
    if find_spec("numba") is None:
        return None
    try:
        return import_module(name)
    except (ImportError, OSError) as error:
        # Such as with a version of NumPy that is newer than it, or without LLVM's library.
        warnings.warn(Warnings.KW031.format(problem=error), KrisselWarning, stacklevel=4)
        return None


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile the function when it is first called, for each combination of types of its arguments.

    It runs without Python's lock, and its machine code is kept for other processes: next to its file, or in the user's
    cache. options: others of `numba.njit`, such as `fastmath`.
    """
    import numba

    if function is None:
        return partial(compiled, **options)
    jit: Any = numba.njit
    try:
        return jit(function, nogil=True, cache=True, **options)
    except RuntimeError:
        # No folder that it may write to.
        return jit(function, nogil=True, **options)
