"""The n-grams and words of `features` as compiled loops."""

import numpy as np

from ..util.compiled import compiled

SPACE = ord(" ")
# Odd multipliers of the polynomial hash and of its finaliser (64 bits).
BASE = np.uint64(0x9E3779B97F4A7C15)
MIX1 = np.uint64(0xBF58476D1CE4E5B9)
MIX2 = np.uint64(0x94D049BB133111EB)
# What tells kinds of features apart, besides the lengths of n-grams.
WORD, WHOLE = np.uint64(101), np.uint64(102)
# By the position of a character in its word; characters beyond the longest word do not count.
MAX_WORD = 64
POWERS = np.zeros(MAX_WORD + 1, dtype=np.uint64)
POWERS[:MAX_WORD] = np.cumprod(np.append(np.uint64(1), np.full(MAX_WORD - 1, BASE)))
_HALF = np.uint64(32)


@compiled
def text_rows(codes, starts, lengths, shortest, longest, rows, whole, found, counts):  # type: ignore[no-untyped-def]
    """Write the rows of all texts to `found`, text by text, and their number per text to `counts`
    (n,).

    codes: folded, of all texts, each between two spaces. starts, lengths (n,): of each text. rows:
        uint64. whole: add one feature per text, all of its characters in order.
    RETURNS: the total number of rows.
    """
    longest_text = lengths.max()
    reach = np.empty(longest_text, np.int64)
    rolling = np.empty(longest_text, np.uint64)
    at = 0
    for text in range(len(starts)):
        start, length = starts[text], lengths[text]
        first = at
        # Distance to the next space: an n-gram within it lies within a word.
        space = length - 1
        reach[space] = 0
        for offset in range(length - 2, -1, -1):
            reach[offset] = space - offset
            if codes[start + offset] == SPACE:
                space = offset
        for offset in range(length):
            rolling[offset] = np.uint64(codes[start + offset])
        for n in range(2, longest + 1):
            for offset in range(length - n + 1):
                rolling[offset] = rolling[offset] * BASE + np.uint64(codes[start + offset + n - 1])
            if n < shortest:
                continue
            for offset in range(length - n + 1):
                if reach[offset] >= n - 1:
                    found[at] = _row(rolling[offset], np.uint64(n), rows)
                    at += 1
        offset = 0
        while offset < length - 1:
            value = np.uint64(0)
            for i in range(reach[offset] - 1):
                value += np.uint64(codes[start + offset + 1 + i]) * POWERS[min(i, MAX_WORD)]
            if reach[offset] > 1:
                found[at] = _row(value, WORD, rows)
                at += 1
            offset += reach[offset]
        if whole and length > 2:
            value = np.uint64(0)
            for i in range(length - 2):
                value += np.uint64(codes[start + 1 + i]) * POWERS[min(i, MAX_WORD - 1)]
            found[at] = _row(value, WHOLE, rows)
            at += 1
        counts[text] = at - first
    return at


@compiled
def distinct_words(codes, starts, lengths, words, counts, firsts, sizes):  # type: ignore[no-untyped-def]
    """Write the index of each word of all texts to `words`, text by text.

    The number of words per text goes to `counts` (n,). The offset in `codes` of each distinct word
    goes to `firsts`, its length to `sizes`.

    A word extends from one space to the next, both included, and may be empty. codes, starts,
    lengths: as for `text_rows`. words, firsts, sizes: as long as the number of spaces in the texts.
    RETURNS: the number of words, and of distinct words.
    """
    n_slots = 64
    while n_slots < 2 * len(words):
        n_slots *= 2
    # Open addressing: each slot holds the index of a word, or -1; at least half of them stay free.
    slots = np.full(n_slots, -1, np.int32)
    at, n_different = 0, 0
    for text in range(len(starts)):
        begin, last = starts[text], starts[text] + lengths[text] - 1
        before = at
        while begin < last:
            value = np.uint64(0)
            end = begin + 1
            while codes[end] != SPACE:
                value = value * BASE + np.uint64(codes[end])
                end += 1
            size = end + 1 - begin
            slot = np.int64((value * MIX1) >> _HALF) & (n_slots - 1)
            while slots[slot] >= 0 and not _same(
                codes, firsts[slots[slot]], sizes[slots[slot]], begin, size
            ):
                slot = (slot + 1) & (n_slots - 1)
            if slots[slot] < 0:
                slots[slot] = n_different
                firsts[n_different], sizes[n_different] = begin, size
                n_different += 1
            words[at] = slots[slot]
            at += 1
            begin = end
        counts[text] = at - before
    return at, n_different


@compiled
def _same(codes, first, size, other, other_size):  # type: ignore[no-untyped-def]
    """Return whether two words are equal."""
    if size != other_size:
        return False
    for i in range(1, size - 1):  # noqa: SIM110 (numba has no generators)
        if codes[first + i] != codes[other + i]:
            return False
    return True


@compiled
def _row(value, salt, rows):  # type: ignore[no-untyped-def]
    """Return the table row of a hash, as `features._to_rows`."""
    value = value + salt * BASE
    value = (value ^ (value >> np.uint64(30))) * MIX1
    value = (value ^ (value >> np.uint64(27))) * MIX2
    return np.int64(((value >> _HALF) * rows) >> _HALF)
