"""Values by key as flat arrays, for many keys at a time, and where values stand among others."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..index.protocol import Rows


class Groups(NamedTuple):
    """Values by key: those of key `i` are `values[edges[i] : edges[i + 1]]`, none for an unknown key."""

    values: Rows
    edges: Rows

    @classmethod
    def of(cls, keys: Rows, values: Rows) -> "Groups":
        """`keys` in ascending order."""
        return cls(values, edges(np.bincount(keys, minlength=1)))

    @property
    def present(self) -> Rows:
        """The keys that have values, in ascending order."""
        return np.flatnonzero(np.diff(self.edges))

    def at(self, key: int) -> Rows:
        """The values of one key."""
        if not 0 <= key < len(self.edges) - 1:
            return self.values[:0]
        return self.values[int(self.edges[key]) : int(self.edges[key + 1])]

    def take(self, keys: Rows) -> tuple[Rows, Rows]:
        """All values of the `keys`, and for each the place in `keys` that it belongs to, ascending."""
        known = np.flatnonzero((keys >= 0) & (keys < len(self.edges) - 1))
        keys = keys[known]
        starts = self.edges[keys]
        lengths = self.edges[keys + 1] - starts
        return self.values[ranges(starts, lengths)].astype(np.int64, copy=False), np.repeat(known, lengths)


def edges(lengths: Rows) -> Rows:
    """Where each of some groups with these lengths (n,) begins, one after another, and the last one ends: (n + 1,)."""
    found = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=found[1:])
    return found


def ranges(starts: Rows, lengths: Rows) -> Rows:
    """`start, start + 1, …`, of the given length for each start, one after another."""
    total = int(lengths.sum())
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(total)


def in_lines(values: Rows, owners: Rows, n: int, width: int) -> Rows:
    """The first `width` values of each of n owners, which ascend, in a line of its own: (n, width), -1 padded."""
    rank = np.arange(len(owners)) - np.searchsorted(owners, owners)
    first = rank < width
    lines = np.full((n, width), -1, dtype=np.int64)
    lines[owners[first], rank[first]] = values[first]
    return lines


def pair_keys(first: Rows, second: Rows) -> Rows:
    """One number per pair of numbers from 0 on, in the order of the pairs."""
    return first * (second.max(initial=0) + 1) + second


def places_of(ascending: Rows, values: Rows) -> Rows:
    """The place of each of the `values` in the ascending array, -1 where it is not there."""
    places = np.searchsorted(ascending, values)
    places[places == len(ascending)] = -1
    return np.where(ascending[places] == values, places, -1) if len(ascending) else places


def distinct(values: Sequence[Any]) -> tuple[list[Any], Rows]:
    """The distinct values in the order they come in, and the place of each value among them."""
    places: dict[Any, int] = {}
    numbers = [places.setdefault(value, len(places)) for value in values]
    return list(places), np.array(numbers, dtype=np.int64)


def read_only(array: np.ndarray) -> np.ndarray:
    """A view that cannot be written to, as those of mapped files: loops are compiled for one type."""
    view = array.view(np.ndarray)
    view.flags.writeable = False
    return view
