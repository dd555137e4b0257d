"""Loops compiled by numba if it is installed (the extra `cpu`); otherwise NumPy does the same work
in more passes.
"""

import sys
import warnings
from collections.abc import Callable
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ..errors import KrisselWarning, Warnings

# Importing numba takes half a second, which linking a few mentions should not wait for.
MIN_COMPILED_TEXTS = 256


def compile_eagerly() -> None:
    """Use the compiled loops for few texts, too: for long-running processes that link a few texts
    at a time.
    """
    global MIN_COMPILED_TEXTS
    MIN_COMPILED_TEXTS = 0


def kernel(name: str, n: int) -> ModuleType | None:
    """Return the module `name` of this package, whose functions are `compiled`.

    RETURNS: None without numba, and for fewer than `MIN_COMPILED_TEXTS` texts unless the module is
        already imported.

    Warns KW031, once, if numba is installed and cannot be imported.
    """
    return _imported(name) if n >= MIN_COMPILED_TEXTS or name in sys.modules else None


@cache
def _imported(name: str) -> ModuleType | None:
    if find_spec("numba") is None:
        return None
    try:
        return import_module(name)
    except (ImportError, OSError) as error:
        # For example, NumPy is too new for numba, or LLVM's library is missing.
        warnings.warn(Warnings.KW031.format(problem=error), KrisselWarning, stacklevel=4)
        return None


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile the function on first call, for each combination of argument types.

    It releases the GIL. Its machine code is cached for other processes, next to its file or in the
    user's cache.

    options: further options of `numba.njit`, such as `fastmath`.
    """
    import numba

    if function is None:
        return partial(compiled, **options)
    jit: Any = numba.njit
    try:
        return jit(function, nogil=True, cache=True, **options)
    except RuntimeError:
        # No folder is writable.
        return jit(function, nogil=True, **options)
