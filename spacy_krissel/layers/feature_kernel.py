"""`text_features` of `features` as one compiled loop: import it by `util.compiled.kernel`."""

import numpy as np

from ..util.compiled import compiled
from .features import BASE, MAX_WORD, MIX1, MIX2, POWERS, SPACE, WORD

_HALF = np.uint64(32)


@compiled
def text_rows(codes, starts, lengths, shortest, longest, rows, found, counts):  # type: ignore[no-untyped-def]
    """Write the rows of all texts to `found`, one text's after the other's, and how many each has to `counts` (n,).

    codes: folded, of all texts, each between two spaces. starts, lengths (n,): of each text. rows: uint64.
    RETURNS: how many there are.
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
        for place in range(length - 2, -1, -1):
            reach[place] = space - place
            if codes[start + place] == SPACE:
                space = place
        for place in range(length):
            rolling[place] = np.uint64(codes[start + place])
        for n in range(2, longest + 1):
            for place in range(length - n + 1):
                rolling[place] = rolling[place] * BASE + np.uint64(codes[start + place + n - 1])
            if n < shortest:
                continue
            for place in range(length - n + 1):
                if reach[place] >= n - 1:
                    found[at] = _row(rolling[place], np.uint64(n), rows)
                    at += 1
        place = 0
        while place < length - 1:
            value = np.uint64(0)
            for i in range(reach[place] - 1):
                value += np.uint64(codes[start + place + 1 + i]) * POWERS[min(i, MAX_WORD)]
            if reach[place] > 1:
                found[at] = _row(value, WORD, rows)
                at += 1
            place += reach[place]
        counts[text] = at - first
    return at


@compiled
def _row(value, salt, rows):  # type: ignore[no-untyped-def]
    """As `features._to_rows`."""
    value = value + salt * BASE
    value = (value ^ (value >> np.uint64(30))) * MIX1
    value = (value ^ (value >> np.uint64(27))) * MIX2
    return np.int64(((value >> _HALF) * rows) >> _HALF)
