"""Hashed character n-grams and words of views, computed for a whole batch at once.

All work is on one array of code points per batch, in compiled loops (`feature_kernel`):
scikit-learn's `HashingVectorizer` takes more than 8 times as long
(benchmarks/small_encoder_parts.py). A feature is the row of an embedding table; the features of a
view form a bag.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..util.compiled import in_parts
from ..util.folding import plain_text
from ..views import View

SPACE = ord(" ")
_TABLE_SIZE = 0x3000
# Texts that are worth a thread.
MIN_PER_THREAD = 256


def _fold_table() -> np.ndarray:
    """Return folded code points by code point.

    A character becomes lower case if that is one character; white space and punctuation become a
    space.
    """
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


class Bags(NamedTuple):
    """Features of a batch of bags.

    Feature `rows[i]` belongs to bag `bags[i]` (both int64, of equal length, in any order).
    """

    rows: np.ndarray
    bags: np.ndarray


class WordBags(NamedTuple):
    """Features by words, which texts share: once per distinct word, or per word and thread.

    rows: of these words, word by word. n_rows (w,): number of rows per word.
    words: indices of each text's words, text by text. n_words (n,): number of words per text.
    """

    rows: np.ndarray
    n_rows: np.ndarray
    words: np.ndarray
    n_words: np.ndarray


def mention_features(views: Sequence[View], *, rows: int, ngrams: tuple[int, int]) -> Bags:
    """Return the features of each surface form: `text_features`, plus one for the whole string.

    A masked view has a single feature, the last row.
    """
    texts = ["" if view.masked else view.mention for view in views]
    found = text_features(texts, rows=rows - 1, ngrams=ngrams, whole=True)
    masked = [bag for bag, view in enumerate(views) if view.masked]
    return (
        _join([found, Bags(np.full(len(masked), rows - 1), np.array(masked))]) if masked else found
    )


def context_features(
    views: Sequence[View], *, rows: int, ngrams: tuple[int, int], chars: int
) -> Bags:
    """Return the features of each context, the nearest `chars` characters on both sides in one
    bag.
    """
    return text_features(_nearest(views, chars), rows=rows, ngrams=ngrams)


def context_words(
    views: Sequence[View], *, rows: int, ngrams: tuple[int, int], chars: int
) -> WordBags:
    """`context_features` by words."""
    return word_features(_nearest(views, chars), rows=rows, ngrams=ngrams)


def text_features(
    texts: Sequence[str], *, rows: int, ngrams: tuple[int, int], whole: bool = False
) -> Bags:
    """Return the words and the character n-grams of each text.

    ngrams: shortest and longest length. whole: add one feature per non-empty text, all of its
        folded characters in order.

    Case and punctuation are folded. An n-gram lies within a word with the space on either side, so
    that "Neoplasms, Breast" and "breast neoplasms" share all features, "relapsing" and "relapse"
    most.
    """
    if not len(texts):
        return Bags(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    codes, starts, lengths = _codes([f" {text} " for text in texts])

    def read(start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        return _rows(codes, starts[start:end], lengths[start:end], rows, ngrams, whole)

    of_texts, counts = _concatenated(in_parts(read, len(texts), MIN_PER_THREAD))
    return Bags(of_texts, np.repeat(np.arange(len(texts)), counts))


def word_features(texts: Sequence[str], *, rows: int, ngrams: tuple[int, int]) -> WordBags:
    """`text_features` by words, of one text or more. The contexts of 5,031 mentions have 170,000
    words, of which 10,600 different ones have 146,000 features, instead of 1,221,000."""
    from . import feature_kernel

    codes, starts, lengths = _codes([f" {text} " for text in texts])
    n_words = np.empty(len(texts), dtype=np.int64)

    def read(start: int, end: int) -> tuple[np.ndarray, ...]:
        own = slice(start, end)
        n_spaces = np.count_nonzero(
            codes[starts[start] : starts[end - 1] + lengths[end - 1]] == SPACE
        )
        words, firsts, sizes = np.empty((3, n_spaces), dtype=np.int64)
        n, n_different = feature_kernel.distinct_words(
            codes, starts[own], lengths[own], words, n_words[own], firsts, sizes
        )
        return *_rows(codes, firsts[:n_different], sizes[:n_different], rows, ngrams), words[:n]

    parts = in_parts(read, len(texts), MIN_PER_THREAD)
    # Parts do not know each other's words: one that several have gets a number in each.
    before = 0
    for _, counts, words in parts:
        words += before
        before += len(counts)
    of_words, counts, words = _concatenated(parts)
    return WordBags(of_words, counts, words, n_words)


def _rows(
    codes: np.ndarray,
    starts: np.ndarray,
    lengths: np.ndarray,
    rows: int,
    ngrams: tuple[int, int],
    whole: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of pieces of `codes`, each between two spaces, one piece's after the other's, and
    how many each has."""
    from . import feature_kernel

    counts = np.empty(len(starts), dtype=np.int64)
    # One n-gram per length and position, plus words.
    found = np.empty(lengths.sum() * (1 + max(0, ngrams[1] - ngrams[0] + 1)), dtype=np.int64)
    n = feature_kernel.text_rows(
        codes, starts, lengths, *ngrams, np.uint64(rows), whole, found, counts
    )
    return found[:n], counts


def _concatenated(parts: Sequence[tuple[np.ndarray, ...]]) -> list[np.ndarray]:
    """Return the concatenated arrays of all parts."""
    return (
        [np.concatenate(each) for each in zip(*parts, strict=True)]
        if len(parts) > 1
        else [*parts[0]]
    )


def _nearest(views: Sequence[View], chars: int) -> list[str]:
    """Return the nearest `chars` characters on both sides of each mention."""
    return [
        f"{_nearest_left(view.left, chars)} {_nearest_right(view.right, chars)}" for view in views
    ]


def _nearest_left(text: str, chars: int) -> str:
    """Return the last `chars` characters, without a word that they would cut."""
    near = text[len(text) - chars :] if len(text) > chars else text
    if near is text or text[-chars - 1].isspace() or near[:1].isspace():
        return near
    words = near.split(None, 1)
    return words[1] if len(words) == 2 else ""


def _nearest_right(text: str, chars: int) -> str:
    """Return the first `chars` characters, without a word that they would cut."""
    near = text[:chars]
    if len(text) <= chars or text[chars].isspace() or near[-1:].isspace():
        return near
    words = near.rsplit(None, 1)
    return words[0] if len(words) == 2 else ""


def _join(parts: Sequence[Bags]) -> Bags:
    return Bags(*_concatenated(parts))


def _codes(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the folded code points of all texts in one array, and each text's start and length."""
    joined = "".join(texts)
    if not joined.isascii():
        # Folded like compared names: "β" is "beta", and accents are dropped.
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
