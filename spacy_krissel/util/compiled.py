"""Compiled loops, and threads for them.

Modules with loops are imported by the functions that call them: to import numba takes half a
second.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

from ..errors import Errors, KrisselError

Result = TypeVar("Result")


def compiled(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile the function on first call, for each combination of argument types.

    It runs without Python's lock, and its machine code is kept for other processes: next to its
    file, or in the user's cache. options: others of `numba.njit`, such as `fastmath`.

    Raises KrisselError K803 where numba cannot be imported, such as with a version of NumPy that is
    newer than it.
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


def in_parts(work: Callable[[int, int], Result], n: int, min_size: int) -> list[Result]:
    """Return `work(start, end)` of consecutive parts of `range(n)`, in their order.

    There is one part per thread that torch may use here, or fewer if a part would be smaller than
    `min_size`.

    Meant for compiled loops and NumPy operations on large arrays, which release the lock. The
    threads end with the call: a pool of them would not survive a fork.
    """
    # Another module has imported torch wherever its number of threads was set.
    torch = sys.modules.get("torch")
    n_threads = torch.get_num_threads() if torch is not None else os.cpu_count() or 1
    n_parts = max(1, min(n_threads, n // min_size))
    parts = list(pairwise(n * part // n_parts for part in range(n_parts + 1)))
    if n_parts == 1:
        return [work(*parts[0])]
    with ThreadPoolExecutor(n_parts - 1) as threads:
        others = [threads.submit(work, *part) for part in parts[1:]]
        return [work(*parts[0]), *(other.result() for other in others)]
