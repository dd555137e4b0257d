"""A capped uniform sample of each entity's mentions, independent of their order.

Every mention has a priority, a 64-bit hash of the seed, its document, offset and entity. Per entity
the mentions with the lowest priorities are kept (bottom-k sampling). As in a classical reservoir,
each mention of an entity is equally likely, but the sample depends on the mentions alone: not on
the order of the texts, the number of processes, or the point of an interruption. Samples can be
merged: the sample of a whole is in the union of the samples of its parts.
"""

import mmap
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

# Number of mentions kept before the first pass that discards those over the cap.
MIN_NEW = 1 << 16


def doc_prefix(seed: int, doc: str) -> bytes:
    """Return the common prefix of the mentions of one document, for `priorities`."""
    return f"{seed}\0{doc}\0".encode()


def priorities(
    prefixes: Iterable[bytes], starts: Iterable[int], entities: Iterable[bytes]
) -> np.ndarray:
    """Return the priorities of mentions, uniform in [0, 2^64), (n,) uint64; the lowest are kept."""
    digests = [
        blake2b(b"%b%d\0%b" % (prefix, start, entity), digest_size=8).digest()
        for prefix, start, entity in zip(prefixes, starts, entities, strict=True)
    ]
    return np.frombuffer(b"".join(digests), dtype=">u8").astype(np.uint64)


def lowest(rows: np.ndarray, priorities: np.ndarray, cap: int | None) -> np.ndarray:
    """Return the positions of the first `cap` mentions of each row, by row and priority.

    Equal priorities keep their order.
    """
    # One combined key sorts many times faster than two, and nearly all keys differ.
    keys = _Keys(int(rows.max(initial=0)) + 1).of(rows, priorities)
    order = np.argsort(keys)
    keys = keys[order]
    if (keys[1:] == keys[:-1]).any():
        order = np.lexsort((priorities, rows))
    return order if cap is None else order[_within(rows[order], cap)]


def _within(rows: np.ndarray, cap: int) -> np.ndarray:
    """Return whether each entry is among the first `cap` of its row, for sorted rows, (n,) bool."""
    kept = np.ones(len(rows), dtype=bool)
    kept[cap:] = rows[cap:] != rows[: max(0, len(rows) - cap)]
    return kept


class _Keys:
    """Row and priority in one number: row in the high bits, then the priority's high bits.

    n_rows: number of rows.
    """

    def __init__(self, n_rows: int) -> None:
        # At least one bit, so that neither is shifted by 64.
        self._row_bits = np.uint64(max(1, (n_rows - 1).bit_length()))
        self._priority_bits = np.uint64(64) - self._row_bits

    def of(self, rows: np.ndarray, priorities: np.ndarray) -> np.ndarray:
        return rows.astype(np.uint64) << self._priority_bits | priorities >> self._row_bits

    def rows(self, keys: np.ndarray) -> np.ndarray:
        return (keys >> self._priority_bits).view(np.int64)

    def highest_priorities(self, keys: np.ndarray) -> np.ndarray:
        """Return the highest priority with each of these keys."""
        return ~(~keys << self._row_bits)


class Reservoir:
    """Current sample of each entity; a mention outside it never enters a later sample.

    Takes 8 bytes per mention that may be in the sample, and 8 per entity.

    cap: mentions per entity; None keeps all. n_rows: entities.
    limits: (n_rows,) uint64, the highest priority that can still enter the sample of each entity.
        They only decrease, also as seen by processes that are forked later.
    """

    def __init__(self, cap: int | None, n_rows: int) -> None:
        self.cap = cap
        self.limits = np.frombuffer(mmap.mmap(-1, max(1, 8 * n_rows)), dtype=np.uint64)[:n_rows]
        self.limits[:] = np.iinfo(np.uint64).max
        self._keys = _Keys(n_rows)
        self._sample: list[np.ndarray] = [np.zeros(0, dtype=np.uint64)]
        self._n_new = 0

    def offer(self, rows: np.ndarray, priorities: np.ndarray) -> np.ndarray:
        """Add mentions.

        RETURNS: which may be in the sample, (n,) bool.
        """
        if self.cap is None:
            return np.ones(len(rows), dtype=bool)
        kept = priorities <= self.limits[rows]
        self._sample.append(self._keys.of(rows[kept], priorities[kept]))
        self._n_new += len(self._sample[-1])
        # Sorting takes time in proportion to the sample, and becomes rarer as the sample grows.
        if self._n_new > max(MIN_NEW, len(self._sample[0]) // 4):
            self._compact(self.cap)
        return kept

    def _compact(self, cap: int) -> None:
        keys = np.sort(np.concatenate(self._sample))
        rows = self._keys.rows(keys)
        kept = _within(rows, cap)
        # The last mention of a full sample.
        full = kept & ~_within(rows, cap - 1)
        self.limits[rows[full]] = self._keys.highest_priorities(keys[full])
        self._sample, self._n_new = [keys[kept]], 0
