"""Rounding to bfloat16, and the selection of high scores, as compiled loops."""

import numpy as np

from ..util.compiled import compiled

# Lets the compiler reorder sums, several values at a time.
REORDERED_SUMS = {"reassoc", "nsz", "contract"}


@compiled(fastmath=REORDERED_SUMS)
def round_rows(bits, values, rounded, widened):  # type: ignore[no-untyped-def]
    """Write float32 values in bfloat16 to `rounded`, to the nearest and half-way to even.

    bits, values (n, d): the values as uint32, and as float32. rounded (n, d) uint16. widened (d,)
    uint32, whose memory `shown` sees as float32: a buffer.
    RETURNS: the squared norms of the longest row, and of the longest difference from its rounded
        row.
    """
    longest = largest = 0.0
    shown = widened.view(np.float32)
    for row in range(len(bits)):
        for column in range(bits.shape[1]):
            value = bits[row, column]
            value = (value + np.uint32(0x7FFF) + ((value >> np.uint32(16)) & np.uint32(1))) >> (
                np.uint32(16)
            )
            rounded[row, column] = np.uint16(value)
            widened[column] = np.uint32(value) << np.uint32(16)
        # In float64: the squares of small values underflow in float32.
        square = difference = 0.0
        for column in range(bits.shape[1]):
            value_ = np.float64(values[row, column])
            square += value_ * value_
            lost = value_ - np.float64(shown[column])
            difference += lost * lost
        longest, largest = max(longest, square), max(largest, difference)
    return longest, largest


@compiled
def group_maxima(scores, size, maxima):  # type: ignore[no-untyped-def]
    """Write the highest of each `size` consecutive scores (q, b) to `maxima` (q, g)."""
    for query in range(len(scores)):
        own, best = scores[query], maxima[query]
        for group in range(len(best)):
            part = own[group * size : (group + 1) * size]
            # `max` is not compiled to instructions for several values.
            highest = part[0]
            for i in range(len(part)):
                if part[i] > highest:
                    highest = part[i]
            best[group] = highest


@compiled
def _kept(near, bits, n, k, margin, least, numbers, word):  # type: ignore[no-untyped-def]
    """Keep those of the first `n` scores that may be among the `k` best.

    numbers (2^16,): zeros, as it leaves them. word (1,): memory for a value of 32 bits.
    RETURNS: how many are kept, and the lowest score that counts.
    """
    highest = bits[0]
    for i in range(n):
        numbers[bits[i]] += 1
        if bits[i] > highest:
            highest = bits[i]
    level, n_above = np.int32(highest), numbers[highest]
    while n_above < k:
        level -= 1
        n_above += numbers[level]
    for i in range(n):
        numbers[bits[i]] = 0
    word[0] = (level ^ ((level >> 15) & 0x7FFF)) << 16
    value = word.view(np.float32)
    value[0] = value[0] - margin
    # Shifted, ordered bits are rounded down.
    level = (word[0] ^ ((word[0] >> 31) & 0x7FFFFFFF)) >> 16
    least = max(least, np.int16(level))
    kept = 0
    for i in range(n):
        if bits[i] >= least:
            near[kept], bits[kept] = near[i], bits[i]
            kept += 1
    return kept, least


@compiled
def collect(scores, size, maxima, rows, k, margin, near, bits, counts, lowest):  # type: ignore[no-untyped-def]
    """Add the rows of a block whose scores may be among the `k` best to those of each query.

    scores (q, b): ordered bits of bfloat16. size, maxima: of `group_maxima`. rows (b,): row of each
    column. margin: by how much the k-th best may be rounded up, and another one down, together.
    near, bits (q, w): rows and scores so far, of which `counts` (q,) are in use; -1 where they do
    not fit. lowest (q,): the lowest score that counts, raised here.
    """
    most = near.shape[1]
    # By value: a negative index counts from the end.
    numbers, word = np.zeros(2**16, np.int32), np.empty(1, np.int32)
    for query in range(len(scores)):
        own, at = scores[query], counts[query]
        least = lowest[query]
        for group in range(maxima.shape[1]):
            if at < 0 or maxima[query, group] < least:
                continue
            for column in range(group * size, min((group + 1) * size, len(own))):
                if own[column] < least:
                    continue
                if at == most:
                    at, least = _kept(near[query], bits[query], at, k, margin, least, numbers, word)
                    if at > most // 2:
                        at = -1
                        break
                near[query, at], bits[query, at] = rows[column], own[column]
                at += 1
        if at > k:
            at, least = _kept(near[query], bits[query], at, k, margin, least, numbers, word)
        counts[query], lowest[query] = at, least


@compiled
def keep_best(query_of, rows, values, best, best_rows):  # type: ignore[no-untyped-def]
    """Put hits among the best of their queries, `best` and `best_rows` (q, k): best first, and of
    equal ones the earlier.

    query_of, rows, values (n,): of the hits.
    """
    last = best.shape[1] - 1
    for hit in range(len(query_of)):
        value = values[hit]
        own, own_rows = best[query_of[hit]], best_rows[query_of[hit]]
        if value > own[last]:
            at = last
            while at and own[at - 1] < value:
                own[at], own_rows[at] = own[at - 1], own_rows[at - 1]
                at -= 1
            own[at], own_rows[at] = value, rows[hit]


@compiled(fastmath=REORDERED_SUMS)
def products(vectors, rows, queries, of_query, found):  # type: ignore[no-untyped-def]
    """Write `vectors[rows[i]] · queries[of_query[i]]` to `found` (n,), without copying rows.

    vectors (p, d), queries (q, d), found: float32. rows, of_query (n,): int64, valid rows.
    """
    for i in range(len(rows)):
        vector, query = vectors[rows[i]], queries[of_query[i]]
        total = np.float32(0)
        for j in range(len(vector)):
            total += vector[j] * query[j]
        found[i] = total
