"""Capture and replay of random states, to repeat a forward pass with the same dropout."""

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy

# Functions that restore the state of each generator that a layer may use.
RandomState = list[Callable[[], Any]]


def capture_rng() -> RandomState:
    """Return the current random state of the loaded libraries.

    CuPy's state cannot be read, so CuPy is seeded with a number that numpy draws here.
    """
    state: RandomState = []
    if _cupy_in_use():
        seed_cupy = partial(sys.modules["cupy"].random.seed, int(numpy.random.randint(2**31)))
        seed_cupy()
        state.append(seed_cupy)
    state.append(partial(random.setstate, random.getstate()))
    state.append(partial(numpy.random.set_state, numpy.random.get_state()))
    torch = sys.modules.get("torch")
    if torch is not None:
        state.append(partial(torch.set_rng_state, torch.get_rng_state()))
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            state.append(partial(torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()))
    return state


@contextmanager
def replay_rng(state: RandomState) -> Iterator[None]:
    """Context that repeats the random numbers drawn after `state`.

    On exit the generators continue as before.
    """
    before = capture_rng()
    try:
        for restore in state:
            restore()
        yield
    finally:
        for restore in before:
            restore()


def _cupy_in_use() -> bool:
    if "cupy" not in sys.modules:
        return False
    from thinc.api import CupyOps, get_current_ops

    return isinstance(get_current_ops(), CupyOps)
