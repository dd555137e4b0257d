"""Work in several threads at once, where it needs Python's lock for little of it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TypeVar

Result = TypeVar("Result")


def in_parts(work: Callable[[int, int], Result], n: int, fewest: int) -> list[Result]:
    """What `work(start, end)` gives for consecutive parts of `range(n)`, in their order: one part for each thread that
    torch may use here, and fewer where a part would have less than `fewest`.

    For compiled loops and NumPy's on large arrays, which let go of the lock. The threads end with the call: a pool of
    them would not survive a fork.
    """
    import torch

    n_parts = max(1, min(torch.get_num_threads(), n // fewest))
    parts = list(pairwise(n * part // n_parts for part in range(n_parts + 1)))
    if n_parts == 1:
        return [work(*parts[0])]
    with ThreadPoolExecutor(n_parts - 1) as threads:
        others = [threads.submit(work, *part) for part in parts[1:]]
        return [work(*parts[0]), *(other.result() for other in others)]
