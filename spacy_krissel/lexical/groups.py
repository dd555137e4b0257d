"""Values grouped by key as flat arrays, read for many keys at once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..index.protocol import Rows


class Groups(NamedTuple):
    """Values by key: those of key `i` are `values[edges[i] : edges[i + 1]]`."""

    values: Rows
    edges: Rows

    @classmethod
    def of(cls, keys: Rows, values: Rows) -> "Groups":
        """Group the values by key. keys: ascending."""
        return cls(values, edges(np.bincount(keys, minlength=1)))

    @property
    def present(self) -> Rows:
        """Return the keys that have values, ascending."""
        return np.flatnonzero(np.diff(self.edges))

    def at(self, key: int) -> Rows:
        """Return the values of one key."""
        if not 0 <= key < len(self.edges) - 1:
            return self.values[:0]
        return self.values[int(self.edges[key]) : int(self.edges[key + 1])]

    def take(self, keys: Rows) -> tuple[Rows, Rows]:
        """Return all values of the `keys`, and the index in `keys` of each value's key,
        ascending."""
        starts, ends = self.bounds(keys)
        lengths = ends - starts
        return self.values[ranges(starts, lengths)].astype(np.int64, copy=False), np.repeat(
            np.arange(len(keys)), lengths
        )

    def bounds(self, keys: Rows) -> tuple[Rows, Rows]:
        """Return where the values of each of the `keys` start and end: (n,) both."""
        last = len(self.edges) - 1
        return self.edges[np.clip(keys, 0, last)], self.edges[np.clip(keys + 1, 0, last)]


def edges(lengths: Rows) -> Rows:
    """Return the start offset of each consecutive group, and the end of the last: (n + 1,).

    lengths: of the groups (n,).
    """
    found = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=found[1:])
    return found


def ranges(starts: Rows, lengths: Rows) -> Rows:
    """Concatenate the ranges `start, start + 1, …`, one per start, of the given lengths."""
    total = int(lengths.sum())
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(total)


def pad_groups(values: Rows, owners: Rows, n: int, width: int) -> Rows:
    """Put the first `width` values of each of n owners in a row of their own: (n, width), padded
    with -1.

    owners: the owner of each value, ascending.
    """
    rank = np.arange(len(owners)) - np.searchsorted(owners, owners)
    first = rank < width
    lines = np.full((n, width), -1, dtype=np.int64)
    lines[owners[first], rank[first]] = values[first]
    return lines


def pair_keys(first: Rows, second: Rows) -> Rows:
    """Encode each pair of non-negative numbers as one number that sorts like the pair."""
    return first * (second.max(initial=0) + 1) + second


def indices_of(ascending: Rows, values: Rows) -> Rows:
    """Return the index of each of the `values` in the ascending array, -1 for missing values."""
    positions = np.searchsorted(ascending, values)
    positions[positions == len(ascending)] = -1
    return np.where(ascending[positions] == values, positions, -1) if len(ascending) else positions


def distinct(values: Sequence[Any]) -> tuple[list[Any], Rows]:
    """Return the distinct values in order of first occurrence, and the index of each value among
    them.
    """
    positions: dict[Any, int] = {}
    numbers = [positions.setdefault(value, len(positions)) for value in values]
    return list(positions), np.array(numbers, dtype=np.int64)
