"""Hashed character n-grams and words of views, computed for a whole batch at once.

All work is on one array of code points a batch, so the cost is that of a few numpy passes over the text, not of a
Python loop over its n-grams. A feature is the row of an embedding table; features of one view form a bag.
"""

from typing import NamedTuple, Sequence, Tuple

import numpy as np

from ..views import View

# Odd multipliers of the polynomial hash and of its finaliser (64-bit, taken modulo 2^64).
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_SPACE = 32
_TABLE_SIZE = 0x3000
_MAX_WORD = 64


def _fold_table() -> np.ndarray:
    """Code point → folded code point: lower case where that is one character, white space and punctuation → space."""
    table = np.arange(_TABLE_SIZE, dtype=np.uint32)
    for code in range(_TABLE_SIZE):
        char = chr(code)
        lower = char.lower()
        if len(lower) == 1:
            table[code] = ord(lower)
        if not char.isalnum():
            table[code] = _SPACE
    return table


_FOLD = _fold_table()
_POWERS = np.ones(_MAX_WORD, dtype=np.uint64)
with np.errstate(over="ignore"):
    for _i in range(1, _MAX_WORD):
        _POWERS[_i] = _POWERS[_i - 1] * _BASE


class Bags(NamedTuple):
    """Features of a batch of bags: feature `rows[i]` belongs to bag `bags[i]` (both int64, same length, any order)."""

    rows: np.ndarray
    bags: np.ndarray


def mention_features(views: Sequence[View], *, rows: int, ngrams: Tuple[int, int]) -> Bags:
    """The features of every view's surface form: `text_features`, and the whole string as one more.

    A masked view has one feature of its own, the last row, in place of all others.
    """
    texts = ["" if view.masked else view.mention for view in views]
    found = [text_features(texts, rows=rows - 1, ngrams=ngrams), _whole_features(texts, rows=rows - 1)]
    masked = np.flatnonzero([view.masked for view in views])
    found.append(Bags(np.full(len(masked), rows - 1, dtype=np.int64), masked))
    return _join(found)


def context_features(views: Sequence[View], *, rows: int, ngrams: Tuple[int, int], chars: int) -> Bags:
    """The features of every view's context, the nearest `chars` characters on each side, left and right in one bag."""
    texts = [f"{_nearest_left(view.left, chars)} {_nearest_right(view.right, chars)}" for view in views]
    return text_features(texts, rows=rows, ngrams=ngrams)


def text_features(texts: Sequence[str], *, rows: int, ngrams: Tuple[int, int]) -> Bags:
    """The words and the character n-grams (`ngrams` = shortest, longest length) of every text.

    Case and punctuation are folded. An n-gram lies within a word, of which the space on either side is part, so that
    "Neoplasms, Breast" shares its features with "breast neoplasms", and "relapsing" most of its own with "relapse".
    """
    codes, starts, lengths = _codes([f" {text} " for text in texts])
    bag_of = np.repeat(np.arange(len(texts)), lengths)
    end_of = np.repeat(starts + lengths, lengths)
    # Spaces up to each place: an n-gram whose inner characters hold none lies within a word.
    spaces = np.concatenate(([0], np.cumsum(codes == _SPACE)))
    wide = codes.astype(np.uint64)
    rolling = wide
    found = []
    with np.errstate(over="ignore"):
        for n in range(2, ngrams[1] + 1):
            rolling = rolling[: max(0, len(codes) - n + 1)]
            rolling = rolling * _BASE + wide[n - 1 :][: len(rolling)]
            if n < ngrams[0]:
                continue
            place = np.arange(len(rolling))
            within = (place + n <= end_of[: len(rolling)]) & (spaces[place + n - 1] == spaces[place + 1])
            found.append(Bags(_to_rows(rolling[within], n, rows), bag_of[: len(rolling)][within]))
        hashes, bags = _words(codes, bag_of)
        found.append(Bags(_to_rows(hashes, 101, rows), bags))
    return _join(found)


def _whole_features(texts: Sequence[str], *, rows: int) -> Bags:
    """One feature a text (none for an empty one): all of its folded characters in their order."""
    codes, starts, lengths = _codes(texts)
    filled = np.flatnonzero(lengths)
    if not len(filled):
        return Bags(np.zeros(0, dtype=np.int64), filled)
    place = np.minimum(np.arange(len(codes)) - np.repeat(starts, lengths), _MAX_WORD - 1)
    with np.errstate(over="ignore"):
        hashes = np.add.reduceat(codes.astype(np.uint64) * _POWERS[place], starts[filled])
        return Bags(_to_rows(hashes, 102, rows), filled)


def _nearest_left(text: str, chars: int) -> str:
    cut = len(text) - chars
    if cut <= 0:
        return text
    near = text[cut:]
    if text[cut - 1].isspace() or near[:1].isspace():
        return near
    # A word that the cut halves is left out whole.
    words = near.split(None, 1)
    return words[1] if len(words) == 2 else ""


def _nearest_right(text: str, chars: int) -> str:
    if len(text) <= chars:
        return text
    near = text[:chars]
    if text[chars].isspace() or near[-1:].isspace():
        return near
    words = near.rsplit(None, 1)
    return words[0] if len(words) == 2 else ""


def _join(parts: Sequence[Bags]) -> Bags:
    return Bags(np.concatenate([part.rows for part in parts]), np.concatenate([part.bags for part in parts]))


def _codes(texts: Sequence[str]) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The folded code points of all texts in a row, and each text's start and length."""
    # "surrogatepass": a lone surrogate from a careless decoder is a feature like any other, not a crash.
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    small = codes < _TABLE_SIZE
    folded = _FOLD[np.where(small, codes, 0)]
    folded = np.where(small, folded, codes)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return folded, np.cumsum(lengths) - lengths, lengths


def _words(codes: np.ndarray, bag_of: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
    """Hash and bag of every word (run of characters that did not fold to space), in text order."""
    letter = codes != _SPACE
    if not letter.any():
        return np.zeros(0, dtype=np.uint64), np.zeros(0, dtype=np.int64)
    new = letter.copy()
    new[1:] &= ~letter[:-1] | (bag_of[1:] != bag_of[:-1])
    starts = np.flatnonzero(new)
    place = np.arange(len(codes)) - starts[np.maximum(np.cumsum(new) - 1, 0)]
    # Spaces behind a word add nothing, nor do its characters from the 64th on.
    counted = letter & (place < _MAX_WORD)
    terms = np.where(counted, codes, 0).astype(np.uint64) * _POWERS[np.clip(place, 0, _MAX_WORD - 1)]
    return np.add.reduceat(terms, starts), bag_of[starts]


def _to_rows(hashes: np.ndarray, salt: int, rows: int) -> np.ndarray:
    """Spread 64-bit hashes over `rows` rows; `salt` keeps kinds of features apart."""
    mixed = hashes + np.uint64((salt * int(_BASE)) & 0xFFFFFFFFFFFFFFFF)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX2
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(rows)).astype(np.int64)
