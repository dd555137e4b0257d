"""Hashed character n-grams and words of views, computed for a whole batch at once.

All work is on one array of code points per batch, in one compiled loop (`feature_kernel`) or a few NumPy passes: with
these, scikit-learn's `HashingVectorizer` takes about 8 times as long (benchmarks/small_encoder_parts.py). A feature is
the row of an embedding table; the features of a view form a bag.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import NamedTuple

import numpy as np

from ..distributed.parts import in_parts
from ..util.compiled import MIN_COMPILED_TEXTS, kernel
from ..util.plain_text import plain_text
from ..views import View

# Compiled into `feature_kernel`, whose kept machine code is made anew when that file changes, not when these do.
# Odd multipliers of the polynomial hash and of its finaliser (64 bits).
BASE = np.uint64(0x9E3779B97F4A7C15)
MIX1 = np.uint64(0xBF58476D1CE4E5B9)
MIX2 = np.uint64(0x94D049BB133111EB)
SPACE = 32
_TABLE_SIZE = 0x3000
MAX_WORD = 64
KERNEL = "spacy_krissel.layers.feature_kernel"
# What tells kinds of features apart, besides the lengths of n-grams.
WORD, WHOLE = np.uint64(101), np.uint64(102)


def _fold_table() -> np.ndarray:
    """Code point → folded code point: lower case where that is one character, white space and punctuation → space."""
    table = np.arange(_TABLE_SIZE, dtype=np.uint32)
    for code in range(_TABLE_SIZE):
        char = chr(code)
        lower = char.lower()
        if len(lower) == 1:
            table[code] = ord(lower)
        if not char.isalnum():
            table[code] = SPACE
    return table


_FOLD = _fold_table()
# By the position of a character in its word; characters beyond the longest word do not count.
POWERS = np.zeros(MAX_WORD + 1, dtype=np.uint64)
POWERS[0] = 1
with np.errstate(over="ignore"):
    for _i in range(1, MAX_WORD):
        POWERS[_i] = POWERS[_i - 1] * BASE


class Bags(NamedTuple):
    """Features of a batch of bags: feature `rows[i]` belongs to bag `bags[i]` (both int64, same length, any order)."""

    rows: np.ndarray
    bags: np.ndarray


class WordBags(NamedTuple):
    """The same features by words, which texts share: those of each different word once, or once for each thread.

    rows: of these words, one word's after the other's. n_rows (w,): how many each has.
    words: the numbers of each text's words, one text's after the other's. n_words (n,): how many each has.
    """

    rows: np.ndarray
    n_rows: np.ndarray
    words: np.ndarray
    n_words: np.ndarray


def mention_features(views: Sequence[View], *, rows: int, ngrams: tuple[int, int]) -> Bags:
    """The features of each surface form: `text_features`, and the whole string as one more. A masked view has a single
    feature, the last row."""
    texts = ["" if view.masked else view.mention for view in views]
    found = text_features(texts, rows=rows - 1, ngrams=ngrams, whole=True)
    masked = [bag for bag, view in enumerate(views) if view.masked]
    return _join([found, Bags(np.full(len(masked), rows - 1), np.array(masked))]) if masked else found


def context_features(views: Sequence[View], *, rows: int, ngrams: tuple[int, int], chars: int) -> Bags:
    """The features of each context, the nearest `chars` characters on both sides in one bag."""
    return text_features(_nearest(views, chars), rows=rows, ngrams=ngrams)


def context_words(views: Sequence[View], *, rows: int, ngrams: tuple[int, int], chars: int) -> WordBags | None:
    """`context_features` by words; None where loops are not compiled."""
    if kernel(KERNEL, len(views)) is None:
        return None
    return word_features(_nearest(views, chars), rows=rows, ngrams=ngrams)


def text_features(texts: Sequence[str], *, rows: int, ngrams: tuple[int, int], whole: bool = False) -> Bags:
    """The words and the character n-grams (`ngrams` = shortest, longest length) of each text. whole: with one feature
    more per non-empty text, all of its folded characters in order.

    Case and punctuation are folded. An n-gram lies within a word with the space on either side, so that "Neoplasms,
    Breast" and "breast neoplasms" share all features, "relapsing" and "relapse" most.
    """
    codes, starts, lengths = _codes([f" {text} " for text in texts])
    if not len(texts):
        return Bags(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    loop = kernel(KERNEL, len(texts))
    if loop is not None:

        def read(start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
            return _compiled_rows(loop, codes, starts[start:end], lengths[start:end], rows, ngrams, whole)

        of_texts, counts = _joined(in_parts(read, len(texts), MIN_COMPILED_TEXTS))
        return Bags(of_texts, np.repeat(np.arange(len(texts)), counts))
    bag_of = np.repeat(np.arange(len(texts)), lengths)
    spaces = np.flatnonzero(codes == SPACE)
    # Distance to the next space: an n-gram within it lies within a word. Each text starts and ends with a space, and
    # nothing starts at its last.
    reach = np.append(np.repeat(spaces[1:], np.diff(spaces)) - np.arange(len(codes) - 1), 0)
    reach[starts + lengths - 1] = 0
    wide = codes.astype(np.uint64)
    rolling = wide
    found = []
    with np.errstate(over="ignore"):
        for n in range(2, ngrams[1] + 1):
            rolling = rolling[: max(0, len(codes) - n + 1)]
            rolling = rolling * BASE + wide[n - 1 :][: len(rolling)]
            if n < ngrams[0]:
                continue
            # Positions, not a mask: several times as fast.
            place = np.flatnonzero(reach >= n - 1)
            found.append(Bags(_to_rows(rolling[place], np.uint64(n), rows), bag_of[place]))
        between = np.diff(spaces) - 1
        words = spaces[:-1][between > 0] + 1
        hashes = _run_hashes(wide, words, between[between > 0], MAX_WORD)
        found.append(Bags(_to_rows(hashes, WORD, rows), bag_of[words]))
        filled = np.flatnonzero(lengths > 2) if whole else starts[:0]
        hashes = _run_hashes(wide, starts[filled] + 1, lengths[filled] - 2, MAX_WORD - 1)
        found.append(Bags(_to_rows(hashes, WHOLE, rows), filled))
    return _join(found)


def word_features(texts: Sequence[str], *, rows: int, ngrams: tuple[int, int]) -> WordBags | None:
    """`text_features` by words; None where loops are not compiled. The contexts of 5,031 mentions have 170,000 words,
    of which 10,600 different ones have 146,000 features, in place of 1,221,000."""
    loop = kernel(KERNEL, len(texts))
    if loop is None or not len(texts):
        return None
    codes, starts, lengths = _codes([f" {text} " for text in texts])
    n_words = np.empty(len(texts), dtype=np.int64)

    def read(start: int, end: int) -> tuple[np.ndarray, ...]:
        own = slice(start, end)
        n_spaces = np.count_nonzero(codes[starts[start] : starts[end - 1] + lengths[end - 1]] == SPACE)
        words, firsts, sizes = np.empty((3, n_spaces), dtype=np.int64)
        n, n_different = loop.different_words(codes, starts[own], lengths[own], words, n_words[own], firsts, sizes)
        return *_compiled_rows(loop, codes, firsts[:n_different], sizes[:n_different], rows, ngrams), words[:n]

    parts = in_parts(read, len(texts), MIN_COMPILED_TEXTS)
    # Parts do not know each other's words: one that several have gets a number in each.
    before = 0
    for _, counts, words in parts:
        words += before
        before += len(counts)
    of_words, counts, words = _joined(parts)
    return WordBags(of_words, counts, words, n_words)


def _compiled_rows(
    loop: ModuleType,
    codes: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    rows: int,
    ngrams: tuple[int, int],
    whole: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of pieces of `codes`, each between two spaces, one piece's after the other's, and how many each has."""
    counts = np.empty(len(starts), dtype=np.int64)
    # Of each length one n-gram a place, and words.
    found = np.empty(lengths.sum() * (1 + max(0, ngrams[1] - ngrams[0] + 1)), dtype=np.int64)
    n = loop.text_rows(codes, starts, lengths, *ngrams, np.uint64(rows), whole, found, counts)
    return found[:n], counts


def _joined(parts: Sequence[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    """The arrays of all parts, one part's after the other's."""
    return [np.concatenate(each) for each in zip(*parts, strict=True)] if len(parts) > 1 else [*parts[0]]


def _nearest(views: Sequence[View], chars: int) -> list[str]:
    """The nearest `chars` characters on both sides of each mention."""
    return [f"{_nearest_left(view.left, chars)} {_nearest_right(view.right, chars)}" for view in views]


def _nearest_left(text: str, chars: int) -> str:
    """The last `chars` characters, without a word that they would cut."""
    near = text[len(text) - chars :] if len(text) > chars else text
    if near is text or text[-chars - 1].isspace() or near[:1].isspace():
        return near
    words = near.split(None, 1)
    return words[1] if len(words) == 2 else ""


def _nearest_right(text: str, chars: int) -> str:
    """The first `chars` characters, without a word that they would cut."""
    near = text[:chars]
    if len(text) <= chars or text[chars].isspace() or near[-1:].isspace():
        return near
    words = near.rsplit(None, 1)
    return words[0] if len(words) == 2 else ""


def _join(parts: Sequence[Bags]) -> Bags:
    return Bags(*_joined(parts))


def _codes(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The folded code points of all texts in one array, and each text's start and length."""
    joined = "".join(texts)
    if not joined.isascii():
        # As names are compared: "β" is "beta", and an accent is none.
        texts = [plain_text(text) for text in texts]
        joined = "".join(texts)
    if joined.isascii():
        folded = _FOLD[np.frombuffer(joined.encode(), dtype=np.uint8)]
    else:
        # "surrogatepass": a lone surrogate is a feature like any other.
        codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        folded = np.where(codes < _TABLE_SIZE, _FOLD[np.minimum(codes, _TABLE_SIZE - 1)], codes)
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    return folded, np.cumsum(lengths) - lengths, lengths


def _run_hashes(codes: np.ndarray, starts: np.ndarray, lengths: np.ndarray, last: int) -> np.ndarray:
    """The hash of each run of `lengths` ≥ 1 characters; those from the `last` place on have the power of that place."""
    offsets = np.cumsum(lengths) - lengths
    place = np.arange(lengths.sum()) - np.repeat(offsets, lengths)
    terms = codes[place + np.repeat(starts, lengths)] * POWERS[np.minimum(place, last)]
    return np.add.reduceat(terms, offsets) if len(offsets) else terms


def _to_rows(hashes: np.ndarray, salt: np.uint64, rows: int) -> np.ndarray:
    """Map 64-bit hashes to `rows` rows; `salt` separates kinds of features."""
    mixed = hashes + salt * BASE
    mixed ^= mixed >> np.uint64(30)
    mixed *= MIX1
    mixed ^= mixed >> np.uint64(27)
    mixed *= MIX2
    # The upper half as a fraction of 2^32, three times as fast as a remainder. Rows are fewer than that.
    mixed >>= np.uint64(32)
    mixed *= np.uint64(rows)
    mixed >>= np.uint64(32)
    return mixed.view(np.int64)
