"""Parallel work in threads, for functions that rarely hold Python's lock."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

Result = TypeVar("Result")


def in_parts(work: Callable[[int, int], Result], n: int, min_size: int) -> list[Result]:
    """Return `work(start, end)` of consecutive parts of `range(n)`, in their order.

    There is one part per thread that torch may use here, or fewer if a part would be smaller than
    `min_size`.

    Meant for compiled loops and NumPy operations on large arrays, which release the lock. The
    threads end with the call: a pool of them would not survive a fork.
    """
    import torch

    n_parts = max(1, min(torch.get_num_threads(), n // min_size))
    parts = list(pairwise(n * part // n_parts for part in range(n_parts + 1)))
    if n_parts == 1:
        return [work(*parts[0])]
    with ThreadPoolExecutor(n_parts - 1) as threads:
        others = [threads.submit(work, *part) for part in parts[1:]]
        return [work(*parts[0]), *(other.result() for other in others)]
