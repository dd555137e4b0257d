"""Names around an abbreviation: "von Hippel-Lindau (VHL) disease", and "VHL disease" after it."""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from ..mentions.abbreviations import Definition
from .table import MAX_NAME_WORDS
from .words import END, FREE, TextWords

# Maximum number of words that are searched for one by one.
FEW_WORDS = 8
_WORD = re.compile(r"[^\W_]+")
_BEFORE = re.compile(r"\s*[(\[{][\"'“‘]*")
# The rest of a bracket, which may hold more, before a word: "(G6PD; EC 1.1.1.49) deficiency".
_AFTER = re.compile(r"[^()\[\]{}]{0,80}[)\]}](?=[ \t-]{1,3}[^\W_])")


class Reading(NamedTuple):
    """Part of a text that is read as a long form: `start` to `end` as `long_start` to `long_end`.

    number: of the text. start: that of the long form, if a bracket after it has the short form.
    is_bracket: it is a whole definition, and no short form alone.
    """

    number: int
    start: int
    end: int
    long_start: int
    long_end: int
    is_bracket: bool

    def written(self, text: str, start: int, end: int) -> str:
        """Return `text[start:end]`, which is around this reading, with the long form instead."""
        if self.start == self.long_start:
            return text[start : self.long_end] + text[self.end : end]
        long = text[self.long_start : self.long_end]
        return text[start : self.start] + long + text[self.end : end]


class Windows(NamedTuple):
    """Words around readings, with the long form of each in its stead.

    words: of all windows, one after the other, with their offsets in the texts. readings, first,
    end: of each window, the reading, the first word of its long form and the first one after that.
    """

    words: TextWords
    readings: list[Reading]
    first: np.ndarray
    end: np.ndarray

    def around(self, first: int, last: int) -> tuple[Reading, int, int] | None:
        """Return the reading that a run of words is around, and the offsets of the run in the text.
        None if it is around none, or begins or ends within what stands for the reading."""
        window = self.words.text[first]
        reading, long_first, after = self.readings[window], self.first[window], self.end[window]
        start, end = int(self.words.start[first]), int(self.words.end[last])
        if reading.start == reading.long_start:
            # The long form stands there, and a name may begin in it.
            return (reading, start, end) if first < after <= last else None
        if first > long_first or last < after - 1 or (first, last) == (long_first, after - 1):
            return None
        return (
            reading,
            reading.start if first == long_first else start,
            reading.end if last == after - 1 else end,
        )


def _readings(number: int, text: str, pairs: Iterable[Definition]) -> list[Reading]:
    """Return the parts of a text that can be read as long forms: definitions, and the short forms
    elsewhere."""
    brackets: dict[int, Reading] = {}
    longs: dict[str, tuple[int, int]] = {}
    for pair in pairs:
        long_start = _long_start(pair)
        longs.setdefault(pair.short, (long_start, pair.long_end))
        is_last = pair.long_end <= pair.start
        between = (pair.long_end, pair.start) if is_last else (pair.end, pair.long_start)
        rest = _AFTER.match(text, max(pair.end, pair.long_end))
        if rest and between[0] < between[1] and _BEFORE.fullmatch(text, *between):
            start = long_start if is_last else pair.start
            reading = Reading(number, start, rest.end(), long_start, pair.long_end, True)
            brackets.setdefault(rest.end(), reading)
    found = sorted(brackets.values())
    starts = [each.start for each in found]
    reached = [0, *accumulate((each.end for each in found), max)]
    for start, end in short_forms(text, longs):
        if start >= reached[bisect_right(starts, start)]:
            found.append(Reading(number, start, end, *longs[text[start:end]], False))
    return found


def _long_start(pair: Definition) -> int:
    # Of an implied short form, the long form is the end of another.
    return pair.long_end - len(pair.long)


def windows(
    texts: Sequence[str],
    pairs: Mapping[int, Sequence[Definition]],
    words: TextWords,
    offsets: tuple[np.ndarray, np.ndarray],
    known: np.ndarray,
) -> Windows | None:
    """Return the words around the readings that names may be around; None if there is none.

    pairs: the definitions of each text, by its index. The first one of a short form counts. words,
    offsets: of the texts, and where each word is in its text. known (n,): does any name have the
    word.
    """
    starts = (words.text.astype(np.int64) << 32) + offsets[0]

    def index(number: np.ndarray, at: np.ndarray | int) -> np.ndarray:
        """Return the first words at or after these offsets."""
        return np.searchsorted(starts, (number << 32) + at)

    # All words of the long form are words of names.
    rows = [
        (number, _long_start(pair), pair.long_end, at)
        for number, own in pairs.items()
        for at, pair in enumerate(own)
    ]
    if not rows:
        return None
    number, start, end, at = np.array(rows, dtype=np.int64).T
    first, after = index(number, start), index(number, end)
    n_unknown = np.append(0, np.cumsum(~(known | words.skipped)))
    is_known = (first < after) & (n_unknown[first] == n_unknown[after])
    of: dict[int, list[Definition]] = {}
    for each, which in zip(number[is_known].tolist(), at[is_known].tolist(), strict=True):
        of.setdefault(each, []).append(pairs[each][which])
    found = [reading for each, own in of.items() for reading in _readings(each, texts[each], own)]
    if not found:
        return None
    number, start, end, long_start, long_end, _ = np.array(found, dtype=np.int64).T
    low, high = index(number, 0), index(number + 1, 0)
    first, after = index(number, start), index(number, end)
    long_first, long_after = index(number, long_start), index(number, long_end)
    # So is the next word on one of its sides.
    content = np.flatnonzero(~words.skipped)
    nearest = np.append(content, -1)

    def continues(at: np.ndarray) -> np.ndarray:
        index = nearest[at]
        return (low <= index) & (index < high) & known[index]

    ahead = continues(np.searchsorted(content, first) - 1) & (start != long_start)
    kept = np.flatnonzero(ahead | continues(np.searchsorted(content, after)))
    if not len(kept):
        return None
    sources, gaps, firsts, ends, n = [], [], [], [], 0
    for at in kept.tolist():
        parts = (
            (max(low[at], first[at] - MAX_NAME_WORDS), first[at]),
            (long_first[at], long_after[at]),
            (after[at], min(high[at], after[at] + MAX_NAME_WORDS)),
        )
        source = np.concatenate([np.arange(*part) for part in parts])
        gap, n_head = words.gap[source], parts[0][1] - parts[0][0]
        end_of_long = n_head + parts[1][1] - parts[1][0]
        gap[end_of_long - 1] = FREE if found[at].is_bracket else words.gap[after[at] - 1]
        gap[-1] = END
        sources.append(source)
        gaps.append(gap)
        firsts.append(n + n_head)
        ends.append(n + end_of_long)
        n += len(source)
    source = np.concatenate(sources)
    return Windows(
        TextWords(
            np.repeat(np.arange(len(kept)), [*map(len, sources)]),
            offsets[0][source],
            offsets[1][source],
            words.key[source],
            words.skipped[source],
            words.joins[source],
            np.concatenate(gaps),
        ),
        [found[at] for at in kept.tolist()],
        np.array(firsts),
        np.array(ends),
    )


def short_forms(text: str, shorts: Collection[str]) -> Iterator[tuple[int, int]]:
    """Yield the offsets of short forms in a text, the longest at each word. Time is linear in the
    text, however many there are: a short form has few characters."""
    lengths = sorted({*map(len, shorts)}, reverse=True)
    firsts = {word[0] for short in shorts if (word := _WORD.match(short))}
    last = 0
    for start in _starts_of_words(text, firsts):
        if start < last:
            continue
        for short in (text[start : start + length] for length in lengths):
            last = start + len(short)
            if short in shorts and not text[last : last + 1].isalnum():
                yield start, last
                break
        else:
            last = start


def _starts_of_words(text: str, words: Collection[str]) -> Iterator[int]:
    """Yield the offsets of these words in a text, in order."""
    if len(words) > FEW_WORDS:
        yield from (word.start() for word in _WORD.finditer(text) if word[0] in words)
        return
    # A search for each is quicker than a look at every word.
    starts = []
    for word in words:
        start = text.find(word)
        while start >= 0:
            end = start + len(word)
            if not (text[start - 1 : start].isalnum() or text[end : end + 1].isalnum()):
                starts.append(start)
            start = text.find(word, start + 1)
    yield from sorted(starts)
