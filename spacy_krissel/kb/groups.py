"""Values by key as flat arrays, for many keys at a time."""

from typing import NamedTuple

import numpy as np

from ..index.protocol import Rows


class Groups(NamedTuple):
    """Values by key: those of key `i` are `values[starts[i] : starts[i] + lengths[i]]`, none for an unknown key."""

    values: Rows
    starts: Rows
    lengths: Rows

    @classmethod
    def of(cls, keys: Rows, values: Rows) -> "Groups":
        """`keys` in ascending order."""
        lengths = np.bincount(keys, minlength=1)
        return cls(values, np.cumsum(lengths) - lengths, lengths)

    @property
    def present(self) -> Rows:
        """The keys that have values, in ascending order."""
        return np.flatnonzero(self.lengths)

    def at(self, key: int) -> Rows:
        """The values of one key."""
        if not 0 <= key < len(self.lengths):
            return self.values[:0]
        start = int(self.starts[key])
        return self.values[start : start + int(self.lengths[key])]

    def take(self, keys: Rows) -> tuple[Rows, Rows]:
        """All values of the `keys`, and for each the place in `keys` that it belongs to, ascending."""
        known = np.flatnonzero((keys >= 0) & (keys < len(self.lengths)))
        keys = keys[known]
        lengths = self.lengths[keys]
        return self.values[ranges(self.starts[keys], lengths)], np.repeat(known, lengths)


def ranges(starts: Rows, lengths: Rows) -> Rows:
    """`start, start + 1, …`, of the given length for each start, one after another."""
    total = int(lengths.sum())
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(total)


def pair_keys(first: Rows, second: Rows) -> Rows:
    """One number per pair of numbers from 0 on, in the order of the pairs."""
    return first * (second.max(initial=0) + 1) + second
