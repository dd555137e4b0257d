"""Weak references that may be pickled and copied."""

from typing import Any, Generic, TypeVar
from weakref import ref

Target = TypeVar("Target")


class Weak(Generic[Target]):
    """A weak reference. A copy of it refers to nothing; if `followed`, to the target's copy while others hold that."""

    def __init__(self, target: Target | None = None, followed: bool = False) -> None:
        self._ref = None if target is None else ref(target)
        self._followed = followed

    def __call__(self) -> Target | None:
        return None if self._ref is None else self._ref()

    def __reduce__(self) -> tuple[Any, ...]:
        return Weak, (self() if self._followed else None, self._followed)
