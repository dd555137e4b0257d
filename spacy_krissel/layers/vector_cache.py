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

    Threads share it without a lock, which a fork might leave locked: a dict of vectors only grows, and to forget is to
    begin another. What a thread has read, or writes late, is in the dict that it began with.
    """

    def __init__(self) -> None:
        super().__init__(None)
        self._vectors: Dict[str, numpy.ndarray] = {}

    def encode(self, encoder: Model[List[View], Floats2d], names: Sequence[str]) -> numpy.ndarray:
        """(len(names), width) float32 on the CPU."""
        distinct = list(dict.fromkeys(names))
        kept = self._vectors
        found = {name: kept[name] for name in distinct if name in kept}
        new = [name for name in distinct if name not in found]
        if new:
            if len(kept) + len(new) > MOST_NAMES:
                self.forget()
                kept = self._vectors
            # Copies, since a row of a batch would hold all of it in memory.
            vectors = [vector.copy() for vector in encoder.ops.to_numpy(encoder.predict([name_view(n) for n in new]))]
            found.update(zip(new, vectors))
            kept.update(zip(new[:MOST_NAMES], vectors))
        if not distinct:
            return numpy.zeros((0, 0), dtype="float32")
        places = {name: place for place, name in enumerate(distinct)}
        return numpy.stack([found[name] for name in distinct])[[places[name] for name in names]]

    def forget(self) -> None:
        self._vectors = {}

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
        return {**self.__dict__, "_vectors": {}}
