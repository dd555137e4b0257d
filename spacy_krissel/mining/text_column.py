"""Many texts in hardly more bytes than they have."""

from itertools import islice
from typing import TYPE_CHECKING, Iterable, List

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_PART = 1 << 16


class TextColumn:
    """Texts as one buffer of UTF-8: a Python string costs some 50 bytes more than its characters.

    Forked processes share it, since no references into it are counted.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._bytes = b""
        self._ends = np.zeros(1, dtype=np.int64)
        # What `extend` brought since the last reading.
        self._new_bytes: List[bytes] = []
        self._new_lengths: List[np.ndarray] = []
        rest = iter(texts)
        while part := list(islice(rest, _PART)):
            self.extend(part)
        self.settle()

    def __len__(self) -> int:
        return len(self._ends) - 1 + sum(map(len, self._new_lengths))

    def __getitem__(self, i: int) -> str:
        return self.take(np.array([i]))[0]

    def take(self, places: np.ndarray) -> List[str]:
        return [text.decode("utf8", "surrogatepass") for text in self.encoded(places)]

    def encoded(self, places: np.ndarray) -> List[bytes]:
        """The texts in UTF-8."""
        self.settle()
        whole = self._bytes
        return [whole[a:b] for a, b in zip(self._ends[places].tolist(), self._ends[places + 1].tolist(), strict=True)]

    def arrow(self, places: np.ndarray) -> "pa.Array":
        """The texts as an array of strings."""
        import pyarrow as pa

        self.settle()
        buffers = (pa.py_buffer(self._ends), pa.py_buffer(self._bytes))
        return pa.LargeStringArray.from_buffers(len(self), *buffers).take(pa.array(places)).cast(pa.string())

    def extend(self, texts: List[str]) -> None:
        encoded = [text.encode("utf8", "surrogatepass") for text in texts]
        self._new_bytes.append(b"".join(encoded))
        self._new_lengths.append(np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded)))

    def settle(self) -> None:
        """Make one of what `extend` brought; done by itself before anything is read."""
        if self._new_bytes:
            ends = self._ends[-1] + np.cumsum(np.concatenate(self._new_lengths))
            self._ends = np.append(self._ends, ends)
            self._bytes = b"".join([self._bytes, *self._new_bytes])
            self._new_bytes, self._new_lengths = [], []
