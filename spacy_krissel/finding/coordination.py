"""Names in coordinations: "cleft lip and palate", "breast and ovarian cancer", "types 1 and 2"."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from .words import BARRIER, FREE, STRICT, TextWords

# Words of a part of a coordination that stands apart from the rest of its name; parts on one side.
MAX_APART, MAX_PARTS = 3, 4
Fragments = tuple[tuple[int, int], tuple[int, int]]


class Part(NamedTuple):
    """A name of which one part stands apart.

    apart, rest: (start, end) of the part, and of the words that it shares with a whole name, in
        characters. named: what both are a name of.
    """

    apart: tuple[int, int]
    rest: tuple[int, int]
    named: Any


def coordinated(
    hits: Sequence[Any],
    words: TextWords,
    offsets: tuple[np.ndarray, np.ndarray],
    name_of: Callable[[list[int]], Any],
) -> Iterator[Part]:
    """Yield the names that share words with a whole one next to them in a coordination.

    hits: the whole names of a text, with their `first` and `last` word. words: of its batch.
    offsets: start and end of each word in its text. name_of: what words (their indices) are a name
    of.
    """
    if not hits:
        return
    starting, ending = {hit.first for hit in hits}, {hit.last for hit in hits}
    starts, ends = offsets
    seen: set[tuple[int, int]] = set()
    for hit in hits:
        own = range(hit.first, hit.last + 1)
        for step, edge, taken in ((-1, hit.first, ending), (1, hit.last, starting)):
            for _ in range(MAX_PARTS):
                edge = _beyond(words, edge, step)
                if edge < 0 or edge in taken:
                    break
                found = _name_with(words, own, edge, step, taken, name_of)
                if found is None:
                    break
                apart, rest, named = found
                # Names are compared without "of" and "the", which are no part of one at its ends.
                content = [at for at in apart if not words.skipped[at]]
                if not content:
                    break
                part = Part(
                    (int(starts[content[0]]), int(ends[content[-1]])),
                    (int(starts[rest[0]]), int(ends[rest[-1]])),
                    named,
                )
                if part.apart not in seen:
                    seen.add(part.apart)
                    yield part
                edge = apart[0] if step < 0 else apart[-1]


def _beyond(words: TextWords, edge: int, step: int) -> int:
    """Return the word beyond the conjunction, the comma or the slash next to a word; -1 for
    none."""
    at, joined = edge + step, False
    for _ in range(2):
        if not 0 <= at < len(words.gap) or words.text[at] != words.text[edge]:
            return -1
        gap = words.gap[at if step < 0 else at - 1]
        if gap >= BARRIER:
            return -1
        joined |= gap == STRICT or bool(words.joins[at])
        if not words.joins[at]:
            return at if joined else -1
        at += step
    return -1


def _name_with(
    words: TextWords,
    own: range,
    edge: int,
    step: int,
    taken: Collection[int],
    name_of: Callable[[list[int]], Any],
) -> tuple[list[int], list[int], Any] | None:
    """Return the longest part beyond `edge` that is a name with words of `own`, those words, and
    what both are a name of.

    taken: words at the edges of other names, where a part ends.
    """
    apart: list[list[int]] = [[edge]]
    while len(apart) < MAX_APART:
        at = edge + step * len(apart)
        if not 0 <= at < len(words.gap) or at in taken:
            break
        if words.gap[min(at, at - step)] != FREE or words.joins[at]:
            break
        apart.append(sorted([*apart[-1], at]))
    for part in reversed(apart):
        for n in range(1, len(own)):
            rest = [*own[n:]] if step < 0 else [*own[: len(own) - n]]
            named = name_of([*part, *rest] if step < 0 else [*rest, *part])
            if named is not None:
                return part, rest, named
    return None
