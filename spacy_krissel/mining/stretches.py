"""Hashes of stretches of a text, each in one step whatever its length."""

from functools import lru_cache
from typing import Tuple

import numpy as np

# An odd number has an inverse modulo 2^64. A sum over the characters of a text, each times a power of the inverse, is
# the same for the same characters wherever they stand, once it is multiplied by a power of the number itself.
BASES = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_SPACE = ord(" ")


class Stretches:
    """A text's stretches by their 64-bit hashes.

    base: which of the `BASES`; what two of them make of a stretch has nothing to do with each other.
    """

    def __init__(self, text: str, base: int = 0) -> None:
        self.base = base
        # So that texts of about the same length share their powers.
        self._powers, inverse_powers = _powers(base, 1 << len(text).bit_length())
        self._sums = np.zeros(len(text) + 1, dtype=np.uint64)
        np.cumsum((codes(text).astype(np.uint64) + np.uint64(1)) * inverse_powers[: len(text)], out=self._sums[1:])

    def hashes(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """The hashes of the characters from `starts` to `ends`: (n,), (n,) → (n,)."""
        found = self._sums[ends]
        found -= self._sums[starts]
        found *= self._powers[starts]
        # The low bits of the product know few of the characters' bits.
        for _ in range(2):
            found ^= found >> np.uint64(32)
            found *= _MIX
        return found


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
    """The characters as numbers, (n_chars,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


@lru_cache(maxsize=8)
def _powers(base: int, n: int) -> Tuple[np.ndarray, np.ndarray]:
    powers, inverse_powers = np.ones((2, n), dtype=np.uint64)
    powers[1:] = BASES[base]
    inverse_powers[1:] = pow(BASES[base], -1, 2**64)
    return np.cumprod(powers, dtype=np.uint64), np.cumprod(inverse_powers, dtype=np.uint64)
