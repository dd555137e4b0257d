"""Vectors of names, encoded once each."""

from typing import Any, Dict, List, Sequence

import numpy
from thinc.api import Model, Optimizer, Shim
from thinc.types import Floats2d

from ..views import View, name_view

# About 150 MB at a width of 384.
MOST_NAMES = 100_000


class VectorCache(Shim):
    """The vectors of names by one frozen encoder.

    A shim, because thinc tells shims when weights are loaded: then it forgets. It saves nothing.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self._rows: Dict[str, int] = {}
        self._vectors = numpy.zeros((0, 0), dtype="float32")

    def encode(self, encoder: Model[List[View], Floats2d], names: Sequence[str]) -> numpy.ndarray:
        """(len(names), width) float32 on the CPU."""
        new = self._new(names)
        if new and len(self._rows) + len(new) > MOST_NAMES:
            self.forget()
            new = self._new(names)
        if new:
            vectors = encoder.ops.to_numpy(encoder.predict([name_view(name) for name in new]))
            start = len(self._rows)
            if start + len(new) > len(self._vectors):
                grown = numpy.zeros((2 * (start + len(new)), vectors.shape[1]), dtype="float32")
                if start:
                    grown[:start] = self._vectors[:start]
                self._vectors = grown
            self._vectors[start : start + len(new)] = vectors
            self._rows.update(zip(new, range(start, start + len(new))))
        return self._vectors[[self._rows[name] for name in names]]

    def _new(self, names: Sequence[str]) -> List[str]:
        return list(dict.fromkeys(name for name in names if name not in self._rows))

    def forget(self) -> None:
        self._rows = {}
        self._vectors = numpy.zeros((0, 0), dtype="float32")

    def finish_update(self, optimizer: Optimizer) -> None:
        pass

    def to_device(self, device_type: str, device_id: int) -> None:
        pass

    def to_bytes(self) -> bytes:
        return b""

    def from_bytes(self, bytes_data: bytes) -> "VectorCache":
        self.forget()
        return self

    def __getstate__(self) -> Dict[str, Any]:
        return {**self.__dict__, "_rows": {}, "_vectors": self._vectors[:0, :0]}
