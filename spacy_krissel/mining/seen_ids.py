"""Which ids were there before, of more ids than would fit in memory as strings."""

from typing import List

import numpy as np


class SeenIds:
    """A set of ids by their 64-bit hashes, in 8 bytes each.

    Of 4 * 10^7 ids, two are taken for one with a probability of 1 in 20,000.
    """

    def __init__(self) -> None:
        # Sorted, each at least twice as long as the next: few to search, and an id is seldom moved.
        self._runs: List[np.ndarray] = []

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Add ids. RETURNS: whether each is new, and the first of its kind among these, (n,) bool."""
        new = np.zeros(len(hashes), dtype=bool)
        new[np.unique(hashes, return_index=True)[1]] = True
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            new &= run[place] != hashes
        if new.any():
            self._runs.append(np.sort(hashes[new]))
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            self._runs[-2:] = [np.sort(np.concatenate(self._runs[-2:]))]
        return new
