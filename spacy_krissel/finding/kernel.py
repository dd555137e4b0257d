"""The search of `NameBags` as a compiled loop."""

import numpy as np

from ..util.compiled import compiled


@compiled
def find(keys, skipped, gaps, known, max_words, shift, starts, hashes, first, last, bag):  # type: ignore[no-untyped-def]
    """Write each run of words that is a name: its first and last word, and the number of its bag.

    keys, skipped, gaps (n,): of `TextWords`. known (n,): does any name have the word. shift: of the
    hashes to the number of their bucket. starts: of each bucket. hashes: ascending. first, last,
    bag: written, up to their length.
    RETURNS: the number of runs, which may be more.
    """
    n = 0
    for i in range(len(keys)):
        if not known[i] or skipped[i]:
            continue
        total, words = np.uint64(0), 0
        for j in range(i, len(keys)):
            if not skipped[j]:
                if not known[j]:
                    break
                total += keys[j]
                words += 1
                mixed = total ^ (total >> np.uint64(32))
                mixed *= np.uint64(0xD6E8FEB86659FD93)
                mixed ^= mixed >> np.uint64(32)
                bucket = mixed >> shift
                # Within the array, whatever a damaged file says.
                low = max(starts[bucket], 0)
                high = min(starts[bucket + np.uint64(1)], len(hashes))
                while low < high:
                    middle = (low + high) // 2
                    if hashes[middle] < mixed:
                        low = middle + 1
                    else:
                        high = middle
                if low < len(hashes) and hashes[low] == mixed:
                    if n < len(first):
                        first[n], last[n], bag[n] = i, j, low
                    n += 1
                if words == max_words:
                    break
            # A sentence or a line ends.
            if gaps[j] >= 2:
                break
    return n
