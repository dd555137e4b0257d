"""Forms of a text that matching compares, its words, and the hashes of its spans."""

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np

# Typographic variants that publishers use interchangeably; each is one character.
_VARIANTS = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u02bc", "'"),
    "\u00b5": "\u03bc",
}
_NOT_PLAIN = re.compile("[^\\S ]|[" + "".join(_VARIANTS) + "]")
# A combining mark belongs to the letter before it: no word ends between the two.
_NOT_WORD = re.compile("[^\\w \u0300-\u036f]|_")
_ASCII_SPACES = {code: " " for code in range(128) if chr(code).isspace()}
_ASCII_NOT_WORD = {code: " " for code in range(128) if not chr(code).isalnum()}
# An odd number has an inverse modulo 2^64. The sum of a span's characters, each times a power of
# the inverse, becomes independent of its offset when multiplied by a power of the number: a rolling
# hash from cumulative sums.
BASE = 0x9E3779B97F4A7C15
_MIX = np.uint64(0xD6E8FEB86659FD93)
_SPACE = ord(" ")


class Forms(NamedTuple):
    """A text's forms for matching; each has as many characters as the text.

    plain: white space as a space; dashes, apostrophes and the micro sign in one form each; case
        unchanged.
    key: `plain`, case folded on request.
    words: `key` with everything but letters, digits and combining marks as a space.
    """

    plain: str
    key: str
    words: str


def forms(text: str, fold: bool) -> Forms:
    plain = plain_form(text)
    key = fold_case(plain) if fold else plain
    return Forms(plain, key, word_form(key))


def plain_form(text: str) -> str:
    if text.isascii():
        return text.translate(_ASCII_SPACES)
    return _NOT_PLAIN.sub(lambda match: _VARIANTS.get(match[0], " "), text)


def word_form(key: str) -> str:
    # `translate` is about twenty times faster than the expression, but only for ASCII.
    return key.translate(_ASCII_NOT_WORD) if key.isascii() else _NOT_WORD.sub(" ", key)


def fold_case(text: str) -> str:
    """Return `text` in lower case, character by character; its length never changes.

    The few characters whose lower case is longer (`İ`) are kept. Both sigmas become one, since
    `str.lower` chooses between them by the letters around.
    """
    lower = text.lower()
    if text.isascii():
        return lower
    if len(lower) != len(text):
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return lower.replace("ς", "σ")


class SpanHashes:
    """64-bit hashes of the spans of a text, before and after case folding.

    Each hash takes one step, whatever its length.

    plain: the text. key: the same, case folded; of the same length.
    """

    def __init__(self, plain: str, key: str) -> None:
        # Texts of about the same length share their powers.
        self._powers, inverse_powers = _powers(1 << len(key).bit_length())
        self._sums = np.zeros(len(key) + 1, dtype=np.uint64)
        folded = codes(key)
        np.cumsum(
            np.multiply(folded, inverse_powers[: len(key)], dtype=np.uint64), out=self._sums[1:]
        )
        # Capitals are rare: only the difference that each makes to the sums is kept for `plain`.
        raised = codes(plain)
        self.capitals = (
            np.flatnonzero(raised != folded) if plain is not key else np.zeros(0, dtype=np.int64)
        )
        more = raised[self.capitals].astype(np.uint64) - folded[self.capitals].astype(np.uint64)
        self._more = np.append(np.uint64(0), np.cumsum(more * inverse_powers[self.capitals]))

    def __len__(self) -> int:
        return len(self._sums) - 1

    def hashes(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the hashes of the characters of `key` from `starts` to `ends`: (n,) uint64."""
        return self._mixed(self._sums[ends] - self._sums[starts], starts)

    def plain_hashes(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return the hashes of the characters of `plain`: those of `key` if there is no capital."""
        more = (
            self._more[np.searchsorted(self.capitals, ends)]
            - self._more[np.searchsorted(self.capitals, starts)]
        )
        return self._mixed(self._sums[ends] - self._sums[starts] + more, starts)

    def has_capital(self, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
        """Return whether there is a capital from `starts` to `ends`: (n,), (n,) → (n,) bool."""
        return np.searchsorted(self.capitals, starts) < np.searchsorted(self.capitals, ends)

    def _mixed(self, sums: np.ndarray, starts: np.ndarray) -> np.ndarray:
        sums *= self._powers[starts]
        # The low bits of the product depend on few of the characters' bits.
        for _ in range(2):
            sums ^= sums >> np.uint64(32)
            sums *= _MIX
        return sums


class Words:
    """Offsets of the words of a text: `starts`, `ends` (n_words,).

    words: the text in its `word_form`.
    """

    def __init__(self, words: str) -> None:
        # Padded by one at both ends.
        self._inside = np.zeros(len(words) + 2, dtype=bool)
        np.not_equal(codes(words), _SPACE, out=self._inside[1:-1])
        edges = np.flatnonzero(self._inside[1:] != self._inside[:-1])
        self.starts, self.ends = edges[::2], edges[1::2]

    def inside(self, offsets: np.ndarray) -> np.ndarray:
        """Return whether each character is in a word, (n,) bool.

        offsets: (n,), from -1 (before the text) to its length.
        """
        return self._inside[offsets + 1]


def codes(text: str) -> np.ndarray:
    """Return the code points, (n_chars,): uint8 for ASCII, otherwise uint32."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)


@lru_cache(maxsize=8)
def _powers(n: int) -> tuple[np.ndarray, np.ndarray]:
    powers, inverse_powers = np.ones((2, n), dtype=np.uint64)
    powers[1:] = BASE
    inverse_powers[1:] = pow(BASE, -1, 2**64)
    return np.cumprod(powers, dtype=np.uint64), np.cumprod(inverse_powers, dtype=np.uint64)
