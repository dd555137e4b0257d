"""A capped uniform sample of each entity's mentions that does not depend on the order in which they come.

Every mention has a priority, a 64-bit hash of the seed, its document, place and entity; of each entity the mentions
of lowest priority are kept ("bottom-k" sampling). As with a classical reservoir each mention of an entity has the same
chance, but which ones are kept depends on the mentions alone: not on the order of the texts, the number of processes,
or where a run was interrupted. And samples merge: the sample of a whole is in the union of its parts' samples.
"""

import mmap
from hashlib import blake2b
from typing import Iterable, List, Optional

import numpy as np

# Mentions that are kept before the first look at which of them are too many.
MIN_NEW = 1 << 16


def priority(seed: int, doc: str, start: int, entity: str) -> int:
    """The mention's priority, uniform in [0, 2^64); the lowest are kept."""
    return int(priorities([doc_prefix(seed, doc)], [start], [entity.encode()])[0])


def doc_prefix(seed: int, doc: str) -> bytes:
    """What the mentions of one document have in common, for `priorities`."""
    return f"{seed}\0{doc}\0".encode()


def priorities(prefixes: Iterable[bytes], starts: Iterable[int], entities: Iterable[bytes]) -> np.ndarray:
    """The priorities of many mentions, (n,)."""
    digests = [
        blake2b(b"%b%d\0%b" % (prefix, start, entity), digest_size=8).digest()
        for prefix, start, entity in zip(prefixes, starts, entities)
    ]
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def lowest(rows: np.ndarray, priorities: np.ndarray, cap: Optional[int]) -> np.ndarray:
    """Positions of the first `cap` mentions of each row by priority (n ≤ len(rows)), by row and priority.

    Equal priorities, should there ever be any, stand in the order in which they came.
    """
    order = np.lexsort((priorities, rows))
    return order if cap is None else order[_ranks(rows[order]) < cap]


class Reservoir:
    """What is the sample of each entity so far: a mention that is not in it will never be.

    Of each mention that may be in the sample there are 12 bytes in memory, and of each entity 8.

    cap: mentions an entity; None keeps all. n_rows: entities.

    limits: (n_rows,) uint64, the priority that a mention of each entity may have at most to be among the sample. They
        only sink. Processes that are forked afterwards see them sink.
    """

    def __init__(self, cap: Optional[int], n_rows: int) -> None:
        self.cap = cap
        self.limits = np.frombuffer(mmap.mmap(-1, max(1, 8 * n_rows)), dtype=np.uint64)[:n_rows]
        self.limits[:] = np.iinfo(np.uint64).max
        self._rows: List[np.ndarray] = [np.zeros(0, dtype=np.int32)]
        self._priorities: List[np.ndarray] = [np.zeros(0, dtype=np.uint64)]
        self._n_new = 0

    def offer(self, rows: np.ndarray, priorities: np.ndarray) -> np.ndarray:
        """Which mentions may be in the sample, (n,) bool; they are remembered."""
        if self.cap is None:
            return np.ones(len(rows), dtype=bool)
        kept = priorities <= self.limits[rows]
        self._rows.append(rows[kept])
        self._priorities.append(priorities[kept])
        self._n_new += int(kept.sum())
        # Sorting costs in proportion to all, and happens the more rarely.
        if self._n_new > max(MIN_NEW, len(self._rows[0]) // 4):
            self._settle(self.cap)
        return kept

    def _settle(self, cap: int) -> None:
        rows, priorities = np.concatenate(self._rows), np.concatenate(self._priorities)
        order = lowest(rows, priorities, cap)
        rows, priorities = rows[order], priorities[order]
        full = np.flatnonzero(_ranks(rows) == cap - 1)
        self.limits[rows[full]] = priorities[full]
        self._rows, self._priorities, self._n_new = [rows], [priorities], 0


def _ranks(rows: np.ndarray) -> np.ndarray:
    """How many of the same row stand before each, (n,), for sorted rows."""
    return np.arange(len(rows)) - np.searchsorted(rows, rows, side="left")
