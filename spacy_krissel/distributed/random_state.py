"""Capture and replay of random states, so that a forward pass can be repeated with the same dropout."""

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy


class RandomState(NamedTuple):
    """The states of all generators that a layer may use; None for libraries that are not loaded."""

    python: Any
    numpy: Any
    torch: Any
    cuda: list[Any] | None
    cupy_seed: int | None


def capture_rng() -> RandomState:
    """The current states. CuPy's cannot be read, so CuPy is seeded with a number that numpy draws here."""
    cupy_seed = None
    if _cupy_in_use():
        cupy_seed = int(numpy.random.randint(2**31))
        sys.modules["cupy"].random.seed(cupy_seed)
    torch = sys.modules.get("torch")
    cuda = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    return RandomState(
        python=random.getstate(),
        numpy=numpy.random.get_state(),
        torch=torch.get_rng_state() if torch is not None else None,
        cuda=torch.cuda.get_rng_state_all() if torch is not None and cuda else None,
        cupy_seed=cupy_seed,
    )


@contextmanager
def replay_rng(state: RandomState) -> Iterator[None]:
    """Within, the random numbers drawn after `state` are drawn again; afterwards generators continue as before."""
    before = capture_rng()
    _set_rng(state)
    try:
        yield
    finally:
        _set_rng(before)


def _set_rng(state: RandomState) -> None:
    random.setstate(state.python)
    numpy.random.set_state(state.numpy)
    torch = sys.modules.get("torch")
    if torch is not None and state.torch is not None:
        torch.set_rng_state(state.torch)
        if state.cuda is not None:
            torch.cuda.set_rng_state_all(state.cuda)
    if state.cupy_seed is not None:
        sys.modules["cupy"].random.seed(state.cupy_seed)


def _cupy_in_use() -> bool:
    if "cupy" not in sys.modules:
        return False
    from thinc.api import CupyOps, get_current_ops

    return isinstance(get_current_ops(), CupyOps)
