"""Loops that numba compiles: modules of them are imported in the functions that call them, since numba's import takes
half a second."""

from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import Errors, KrisselError


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile the function on first call, for each combination of argument types.

    It runs without Python's lock, and its machine code is kept for other processes: next to its file, or in the user's
    cache. options: others of `numba.njit`, such as `fastmath`.

    Raises KrisselError K803 where numba cannot be imported, such as with a version of NumPy that is newer than it.
    """
    try:
        import numba
    except (ImportError, OSError) as error:
        raise KrisselError(Errors.K803.format(problem=error)) from error

    if function is None:
        return partial(compiled, **options)
    jit: Any = numba.njit
    try:
        return jit(function, nogil=True, cache=True, **options)
    except RuntimeError:
        # No folder is writable.
        return jit(function, nogil=True, **options)
