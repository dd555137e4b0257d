"""Hashes of stretches of a text, each in one step whatever its length."""

from functools import lru_cache
from typing import Tuple

import numpy as np

# An odd number has an inverse modulo 2^64. A sum over the characters of a text, each times a power of the inverse, is
# the same for the same characters wherever they stand, once it is multiplied by a power of the number itself.
BASE = 0x9E3779B97F4A7C15
_MIX = np.uint64(0xD6E8FEB86659FD93)
_SPACE = ord(" ")


class Stretches:
    """A text's stretches by their 64-bit hashes: before its case was folded, and after.

    plain: as it stood. key: with its case folded, of the same length.
    """

    def __init__(self, plain: str, key: str) -> None:
        # So that texts of about the same length share their powers.
        self._powers, inverse_powers = _powers(1 << len(key).bit_length())
        self._sums = np.zeros(len(key) + 1, dtype=np.uint64)
        folded = codes(key)
        np.cumsum(np.multiply(folded, inverse_powers[: len(key)], dtype=np.uint64), out=self._sums[1:])
        # There are few capitals: of the sums of `plain`, what they are more than those of `key`, by capital.
        raised = codes(plain)
        self.capitals = np.flatnonzero(raised != folded) if plain is not key else np.zeros(0, dtype=np.int64)
        more = raised[self.capitals].astype(np.uint64) - folded[self.capitals].astype(np.uint64)
        self._more = np.append(np.uint64(0), np.cumsum(more * inverse_powers[self.capitals]))

    def __len__(self) -> int:
        return len(self._sums) - 1

    def hashes(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The hashes of the characters of `key` from `starts` to `ends`: (n,), (n,) → (n,) uint64."""
        return self._mixed(self._sums[ends] - self._sums[starts], starts)

    def plain_hashes(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The hashes of the characters of `plain`: equal to those of `key` where there is no capital."""
        more = self._more[np.searchsorted(self.capitals, ends)] - self._more[np.searchsorted(self.capitals, starts)]
        return self._mixed(self._sums[ends] - self._sums[starts] + more, starts)

    def has_capital(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Whether there is one from `starts` to `ends`: (n,), (n,) → (n,) bool."""
        return np.searchsorted(self.capitals, starts) < np.searchsorted(self.capitals, ends)

    def _mixed(self, sums: np.ndarray, starts: np.ndarray) -> np.ndarray:
        sums *= self._powers[starts]
        # The low bits of the product know few of the characters' bits.
        for _ in range(2):
            sums ^= sums >> np.uint64(32)
            sums *= _MIX
        return sums


class Words:
    """Where the words of a text begin and end: `starts`, `ends` (n_words,).

    words: the text with everything but letters, digits and combining marks as a space (`folding.word_form`).
    """

    def __init__(self, words: str) -> None:
        # One place more at both ends.
        self._inside = np.zeros(len(words) + 2, dtype=bool)
        np.not_equal(codes(words), _SPACE, out=self._inside[1:-1])
        edges = np.flatnonzero(self._inside[1:] != self._inside[:-1])
        self.starts, self.ends = edges[::2], edges[1::2]

    def inside(self, places: np.ndarray) -> np.ndarray:
        """Whether a word has the character there: (n,) of -1 (before the text) to its length (behind it) → (n,)."""
        return self._inside[places + 1]


def codes(text: str) -> np.ndarray:
    """The characters as numbers, (n_chars,): uint8 of ASCII alone, otherwise uint32."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


@lru_cache(maxsize=8)
def _powers(n: int) -> Tuple[np.ndarray, np.ndarray]:
    powers, inverse_powers = np.ones((2, n), dtype=np.uint64)
    powers[1:] = BASE
    inverse_powers[1:] = pow(BASE, -1, 2**64)
    return np.cumprod(powers, dtype=np.uint64), np.cumprod(inverse_powers, dtype=np.uint64)
