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
        for prefix, start, entity in zip(prefixes, starts, entities, strict=True)
    ]
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def lowest(rows: np.ndarray, priorities: np.ndarray, cap: Optional[int]) -> np.ndarray:
    """Positions of the first `cap` mentions of each row by priority (n ≤ len(rows)), by row and priority.

    Equal priorities, should there ever be any, stand in the order in which they came.
    """
    order = _by_row(rows, priorities)
    return order if cap is None else order[_ranks(rows[order]) < cap]


def _by_row(rows: np.ndarray, priorities: np.ndarray) -> np.ndarray:
    # One number of what both are sorts many times as fast as two, and tells nearly all apart.
    keys = _Keys(int(rows.max(initial=0)) + 1).of(rows, priorities)
    order = np.argsort(keys)
    keys = keys[order]
    return np.lexsort((priorities, rows)) if (keys[1:] == keys[:-1]).any() else order


class _Keys:
    """Row and priority in one number: the first bits are the row, the others the first ones of the priority.

    n_rows: the rows that there may be.
    """

    def __init__(self, n_rows: int) -> None:
        # One bit at least, so that neither is shifted by all of 64.
        self._row_bits = np.uint64(max(1, (n_rows - 1).bit_length()))
        self._priority_bits = np.uint64(64) - self._row_bits

    def of(self, rows: np.ndarray, priorities: np.ndarray) -> np.ndarray:
        return rows.astype(np.uint64) << self._priority_bits | priorities >> self._row_bits

    def rows(self, keys: np.ndarray) -> np.ndarray:
        return (keys >> self._priority_bits).view(np.int64)

    def highest_priorities(self, keys: np.ndarray) -> np.ndarray:
        """The highest that have these keys."""
        return ~(~keys << self._row_bits)


class Reservoir:
    """What is the sample of each entity so far: a mention that is not in it will never be.

    Of each mention that may be in the sample there are 8 bytes in memory, and of each entity 8.

    cap: mentions an entity; None keeps all. n_rows: entities.

    limits: (n_rows,) uint64, the priority that a mention of each entity may have at most to be among the sample. They
        only sink. Processes that are forked afterwards see them sink.
    """

    def __init__(self, cap: Optional[int], n_rows: int) -> None:
        self.cap = cap
        self.limits = np.frombuffer(mmap.mmap(-1, max(1, 8 * n_rows)), dtype=np.uint64)[:n_rows]
        self.limits[:] = np.iinfo(np.uint64).max
        self._keys = _Keys(n_rows)
        self._sample: List[np.ndarray] = [np.zeros(0, dtype=np.uint64)]
        self._n_new = 0

    def offer(self, rows: np.ndarray, priorities: np.ndarray) -> np.ndarray:
        """Which mentions may be in the sample, (n,) bool; they are remembered."""
        if self.cap is None:
            return np.ones(len(rows), dtype=bool)
        kept = priorities <= self.limits[rows]
        self._sample.append(self._keys.of(rows[kept], priorities[kept]))
        self._n_new += len(self._sample[-1])
        # Sorting costs in proportion to all, and happens the more rarely.
        if self._n_new > max(MIN_NEW, len(self._sample[0]) // 4):
            self._settle(self.cap)
        return kept

    def _settle(self, cap: int) -> None:
        keys = np.sort(np.concatenate(self._sample))
        rows = self._keys.rows(keys)
        kept, full = np.ones(len(keys), dtype=bool), np.zeros(len(keys), dtype=bool)
        # Behind so many of its row a mention is too many, and with one less before it, the last of a full sample.
        kept[cap:] = rows[cap:] != rows[:-cap]
        full[cap - 1 :] = rows[cap - 1 :] == rows[: max(0, len(rows) - cap + 1)]
        full &= kept
        self.limits[rows[full]] = self._keys.highest_priorities(keys[full])
        self._sample, self._n_new = [keys[kept]], 0


def _ranks(rows: np.ndarray) -> np.ndarray:
    """How many of the same row stand before each, (n,), for sorted rows."""
    places = np.arange(len(rows))
    starts = places.copy()
    starts[1:][rows[1:] == rows[:-1]] = 0
    return places - np.maximum.accumulate(starts)
