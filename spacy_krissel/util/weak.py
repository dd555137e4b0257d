"""References that keep nothing alive and go nowhere."""

from typing import Any, Generic, Optional, Tuple, TypeVar
from weakref import ref

T = TypeVar("T")


class Weak(Generic[T]):
    """A weak reference that may be pickled and copied: the copy refers to nothing."""

    def __init__(self, target: Optional[T] = None) -> None:
        self._ref = None if target is None else ref(target)

    def __call__(self) -> Optional[T]:
        return None if self._ref is None else self._ref()

    def __reduce__(self) -> Tuple[Any, ...]:
        return Weak, ()
