"""Hashed character n-grams and words of views, computed for a whole batch at once.

All work is on one array of code points a batch, so the cost is that of a few numpy passes over the text, not of a Python
loop over its n-grams. A feature is the row of an embedding table; features of one view form a bag.
"""

from typing import List, NamedTuple, Sequence, Tuple

import numpy as np

from ..views import View

# Odd multipliers of the polynomial hash and of its finaliser (64-bit, taken modulo 2^64).
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_SPACE = 32
_TABLE_SIZE = 0x3000
_MAX_WORD = 64
# Characters read for each context word wanted: generous, so that the cut falls beyond the last word.
_CHARS_PER_WORD = 12


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


def mention_features(
    views: Sequence[View], *, rows: int, ngrams: Tuple[int, int], words: bool = True
) -> Bags:
    """The n-grams (with `ngrams` = shortest, longest length), words and whole string of every view's surface form.

    The form is folded (case, punctuation). An n-gram lies within a word, of which the space on either side is part, so
    that "Neoplasms, Breast" shares its features with "breast neoplasms". A masked view has one feature of its own, the
    last row, in place of all others.
    """
    texts = ["" if view.masked else f" {view.mention} " for view in views]
    codes, starts, lengths = _codes(texts)
    total = len(codes)
    bag_of = np.repeat(np.arange(len(views)), lengths)
    end_of = np.repeat(starts + lengths, lengths)
    position = np.arange(total)
    found_rows: List[np.ndarray] = []
    found_bags: List[np.ndarray] = []
    # Spaces strictly before each place: an n-gram whose inner characters hold none lies within a word.
    spaces = np.concatenate(([0], np.cumsum(codes == _SPACE)))
    wide = codes.astype(np.uint64)
    rolling = wide.copy()
    with np.errstate(over="ignore"):
        for n in range(2, ngrams[1] + 1):
            rolling = rolling[: total - n + 1] * _BASE + wide[n - 1 :] if total >= n else rolling[:0]
            if n < ngrams[0]:
                continue
            starts_at = position[: len(rolling)]
            inside = starts_at + n <= end_of[: len(rolling)]
            inside &= spaces[starts_at + n - 1] == spaces[starts_at + 1]
            found_rows.append(_to_rows(rolling[inside], n, rows - 1))
            found_bags.append(bag_of[: len(rolling)][inside])
        if words:
            word_hash, word_bag, _ = _words(codes, bag_of)
            found_rows.append(_to_rows(word_hash, 101, rows - 1))
            found_bags.append(word_bag)
            # The whole string as one feature: the sum of its words' hashes by rank would lose order, so hash by place.
            place = np.minimum(position - np.repeat(starts, lengths), _MAX_WORD - 1)
            filled = lengths > 0
            if total:
                whole = np.add.reduceat(wide * _POWERS[place], starts[filled])
                found_rows.append(_to_rows(whole, 102, rows - 1))
                found_bags.append(np.flatnonzero(filled))
    masked = np.flatnonzero([view.masked for view in views])
    found_rows.append(np.full(len(masked), rows - 1, dtype=np.int64))
    found_bags.append(masked)
    return Bags(np.concatenate(found_rows), np.concatenate(found_bags))


def context_features(views: Sequence[View], *, rows: int, words: int, prefix: int = 5) -> Bags:
    """The `words` words nearest to the mention on each side, and their prefixes of `prefix` characters.

    Prefixes stand in for stems, so that "relapsing" supports "relapse". Words without letters or digits do not count.
    """
    found_rows: List[np.ndarray] = []
    found_bags: List[np.ndarray] = []
    reach = words * _CHARS_PER_WORD
    for side in (0, 2):
        if side == 0:
            codes, _, lengths = _codes([view.left[-reach:] for view in views])
        else:
            codes, _, lengths = _codes([view.right[:reach] for view in views])
        bag_of = np.repeat(np.arange(len(views)), lengths)
        for salt, longest in ((103, _MAX_WORD), (104, prefix)):
            hashes, bags, word_lengths = _words(codes, bag_of, longest=longest)
            counts = np.bincount(bags, minlength=len(views))
            firsts = np.cumsum(counts) - counts
            rank = np.arange(len(bags)) - firsts[bags]
            if side == 0:
                rank = counts[bags] - 1 - rank
            keep = rank < words
            if longest < _MAX_WORD:
                keep &= word_lengths > longest
            with np.errstate(over="ignore"):
                found_rows.append(_to_rows(hashes[keep], salt, rows))
            found_bags.append(bags[keep])
    return Bags(np.concatenate(found_rows), np.concatenate(found_bags))


def _codes(texts: Sequence[str]) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The folded code points of all texts in a row, and each text's start and length."""
    # "surrogatepass": a lone surrogate from a careless decoder is a feature like any other, not a crash.
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    small = codes < _TABLE_SIZE
    folded = _FOLD[np.where(small, codes, 0)]
    folded = np.where(small, folded, codes)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return folded, np.cumsum(lengths) - lengths, lengths


def _words(codes: np.ndarray, bag_of: np.ndarray, longest: int = _MAX_WORD) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hash, bag and length of every word (run of characters that did not fold to space or to a mark), in text order."""
    letter = codes > _SPACE
    if not letter.any():
        empty = np.zeros(0, dtype=np.int64)
        return empty.astype(np.uint64), empty, empty
    new = letter.copy()
    new[1:] &= ~letter[:-1] | (bag_of[1:] != bag_of[:-1])
    starts = np.flatnonzero(new)
    word_of = np.cumsum(new) - 1
    place = np.arange(len(codes)) - starts[np.maximum(word_of, 0)]
    counted = letter & (place < longest)
    terms = np.where(counted, codes, 0).astype(np.uint64) * _POWERS[np.clip(place, 0, _MAX_WORD - 1)]
    hashes = np.add.reduceat(terms, starts)
    lengths = np.add.reduceat(letter.astype(np.int64), starts)
    return hashes, bag_of[starts], lengths


def _to_rows(hashes: np.ndarray, salt: int, rows: int) -> np.ndarray:
    """Spread 64-bit hashes over `rows` rows; `salt` keeps kinds of features apart."""
    mixed = hashes + np.uint64((salt * int(_BASE)) & 0xFFFFFFFFFFFFFFFF)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _MIX1
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _MIX2
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(rows)).astype(np.int64)
