"""Locks and weak references for objects that are pickled, copied and forked."""

import os
import threading
import weakref
from functools import cached_property
from typing import Any, Generic, TypeVar
from weakref import ref

Value = TypeVar("Value")
_locks: "weakref.WeakSet[Lock]" = weakref.WeakSet()


class Lock:
    """A re-entrant lock. Copies, pickles and forked children get an unlocked one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> "Lock":
        self._lock.acquire()
        return self

    def __exit__(self, *error: Any) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Lock, ()


class once(cached_property[Value]):
    """A `cached_property` that one thread computes, under the `_lock` of its object, while others
    wait.
    """

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with instance._lock:
            if self.attrname not in vars(instance):
                vars(instance)[self.attrname] = self.func(instance)
            return vars(instance)[self.attrname]


def _free_in_child() -> None:
    # The thread that held a lock does not exist in the child and would never release the lock.
    for lock in list(_locks):
        lock._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_free_in_child)


Target = TypeVar("Target")


class WeakReference(Generic[Target]):
    """A weak reference. Its copy refers to nothing or, if `followed`, to the copy of the target
    while others hold that copy.
    """

    def __init__(self, target: Target | None = None, followed: bool = False) -> None:
        self._ref = None if target is None else ref(target)
        self._followed = followed

    def __call__(self) -> Target | None:
        return None if self._ref is None else self._ref()

    def __reduce__(self) -> tuple[Any, ...]:
        return WeakReference, (self() if self._followed else None, self._followed)
