"""One device, and nothing to allocate or to wait for on it."""

from types import SimpleNamespace
from typing import Any

from . import device  # noqa: F401
from .device import Device  # noqa: F401 (part of CuPy's names)


class CUDARuntimeError(RuntimeError):
    """Raised by CUDA, not here."""


class MemoryPool:
    def __init__(self, allocator: Any = None) -> None:
        self.malloc = allocator

    def free_all_blocks(self) -> None:
        """Free nothing."""


def set_allocator(allocator: Any = None) -> None:
    """Leave memory to NumPy."""


runtime = SimpleNamespace(getDeviceCount=lambda: 1, CUDARuntimeError=CUDARuntimeError)
