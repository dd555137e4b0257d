"""Name matcher: finds all names of an ontology in one pass over a text (KRISSBERT §3.1)."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from ..util.folding import ACCENTS, plain_letter, spelling_variants
from ..util.settings import checked
from .name_table import NameHits, NameTable, NormalizedName, SearchName, take
from .text_forms import Forms, forms, plain_form

_NOT_ASCII = re.compile("[^\x00-\x7f]+")


class PlainLetters(NamedTuple):
    """A text in plain letters, and the original offsets of each of its characters.

    starts, ends: (len(text),); None for an original that is already plain.
    """

    text: str
    starts: np.ndarray | None
    ends: np.ndarray | None


def plain_letters(text: str) -> PlainLetters:
    """Return a text with plain letters in their case, and their offsets in the original.

    Letters are those of `plain_text`, character by character. Other characters are kept, except for
    accents and invisible characters. An accent belongs to the letter before it.
    """
    if text.isascii():
        return PlainLetters(text, None, None)
    others = [
        (offset, char)
        for run in _NOT_ASCII.finditer(text)
        for offset, char in enumerate(run[0], run.start())
    ]
    letters = [_LETTERS[ord(char)] for _, char in others]
    lengths = np.ones(len(text), dtype=np.int64)
    lengths[[offset for offset, _ in others]] = [len(letter) for letter in letters]
    ends = np.arange(1, len(text) + 1)
    for offset, char in reversed(others):
        if offset and ACCENTS.match(char):
            ends[offset - 1] = ends[offset]
    starts = np.repeat(np.arange(len(text)), lengths)
    return PlainLetters(
        _NOT_ASCII.sub(lambda run: run[0].translate(_LETTERS), text), starts, ends[starts]
    )


class _Letters(dict[int, str]):
    """Plain letters by code point."""

    def __missing__(self, code: int) -> str:
        self[code] = plain_letter(chr(code))
        return self[code]


_LETTERS = _Letters()


Case = Literal["preserve", "fold", "smart"]
# A name of at most this many characters is likely another word in another case: aids and AIDS, Gas
# and GAS.
SHORT_NAME = 5
# An acronym of at most SHORT_ACRONYM characters is too ambiguous to be matched alone (NS: Netherton
# syndrome, saline, not significant). Names in capitals longer than LONG_ACRONYM are not acronyms
# (PIEBALDISM).
SHORT_ACRONYM = 3
LONG_ACRONYM = 8
# Characters per block: its arrays should fit in the processor's cache.
BLOCK_CHARS = 1 << 17
# Maximum number of chains of overlapping names that are followed one by one.
MAX_CHAINS = 16
# Row of a short acronym in a text without another name of its entity.
UNSUPPORTED = -2


class Matches(NamedTuple):
    """Matches in several texts, in order: columns of one length.

    text: index of the text. start, end: in characters. row: of the entity in the ontology, or
        `AMBIGUOUS` or `UNSUPPORTED`. entry: index of the name in the matcher's table.
    """

    text: np.ndarray
    start: np.ndarray
    end: np.ndarray
    row: np.ndarray
    entry: np.ndarray


@checked
class NameMatcher:
    """Matcher of names on word boundaries: leftmost longest, never overlapping.

    A match is never next to a letter, a digit or a combining mark. White space, dashes and
    apostrophes match their typographic variants. Accents and invisible characters are ignored, and
    Greek letters match their names (`plain_letters`). Possessives and numbers match their variant
    spellings (`spelling_variants`). A name shared by several entities is matched, so that no
    shorter name is found inside it, and then dropped.

    case:
    - "preserve" matches case exactly, as in the paper.
    - "fold" ignores case.
    - "smart" ignores the case of ordinary words but not of acronyms (`is_acronym`). An ordinary
    name of up to `SHORT_NAME` characters is not matched in capitals. An acronym of up to
    `SHORT_ACRONYM` is matched only in a text with a longer name of its entity.

    Raises KrisselError K006 for another `case`.
    """

    def __init__(self, names: Iterable[SearchName], case: Case) -> None:
        self.case = case
        self.table = NameTable(
            (form for name in names for form in self._normalized(name)),
            fold=case != "preserve",
            short=SHORT_NAME if case == "smart" else 0,
        )

    def find_in(self, texts: Iterable[str]) -> Iterator[Matches]:
        """Yield the names in `texts`, one block of texts at a time.

        Ambiguous and unsupported names have a negative row.
        """
        block: list[str] = []
        n_chars = n_texts = 0
        for text in texts:
            block.append(text)
            n_chars += len(text)
            if n_chars >= BLOCK_CHARS:
                yield self._find_in_block(block, n_texts)
                n_texts += len(block)
                block, n_chars = [], 0
        if block:
            yield self._find_in_block(block, n_texts)

    def _normalized(self, name: SearchName) -> Iterator[NormalizedName]:
        exact = self.case == "preserve" or (
            self.case == "smart" and is_acronym(" ".join(name.text.split()))
        )
        for text in (name.text, *spelling_variants(name.text)):
            plain = " ".join(plain_form(plain_letters(text).text).split())
            yield NormalizedName(name.text, plain, name.row, exact)

    def _find_in_block(self, texts: list[str], n_before: int) -> Matches:
        plain = [plain_letters(text) for text in texts]
        # No name contains two spaces in a row, so no match crosses two texts.
        parts = zip(
            *(forms(each.text, fold=self.case != "preserve") for each in plain), strict=True
        )
        found = self.table.find(Forms(*map("  ".join, parts)))
        found = take(found, _non_overlapping(found.start, found.end))
        firsts = np.cumsum([0, *(len(each.text) + 2 for each in plain)])
        edges = np.searchsorted(found.start, firsts)
        text = np.repeat(np.arange(len(texts)), np.diff(edges))
        row = found.row
        if self.case == "smart":
            row[_unsupported(found, text)] = UNSUPPORTED
        start, end = found.start - firsts[text], found.end - firsts[text]
        for each, first, last in zip(plain, edges[:-1], edges[1:], strict=True):
            if each.starts is not None and each.ends is not None and last > first:
                here = slice(first, last)
                start[here], end[here] = each.starts[start[here]], each.ends[end[here] - 1]
        return Matches(text + n_before, start, end, row, found.entry)


def is_acronym(name: str) -> bool:
    """Return whether case is part of the name.

    True for words with an inner capital (AIDS, mRNA, T-ALL) and for a few capitals (GSD II).
    """
    if len(name) > LONG_ACRONYM:
        return False
    if " " in name:
        return name == name.upper()
    # A capital after a letter or digit: excludes Tay-Sachs.
    return any(left.isalnum() and right.isupper() for left, right in pairwise(name))


def _non_overlapping(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return the indices of the leftmost matches that do not overlap.

    start, end: of the matches, at most one per start, sorted, (n,).
    """
    # A match that starts after the end of all earlier ones is chosen.
    chosen = np.append(True, start[1:] >= np.maximum.accumulate(end)[:-1])[: len(start)]
    last = np.flatnonzero(chosen[:-1] & ~chosen[1:])
    while len(last) > MAX_CHAINS:
        last = np.searchsorted(start, end[last])
        last = last[last < len(start)]
        last = last[~chosen[last]]
        chosen[last] = True
    if len(last):
        starts = start.tolist()
        for index in last.tolist():
            while (index := bisect_left(starts, int(end[index]), index)) < len(
                starts
            ) and not chosen[index]:
                chosen[index] = True
    return np.flatnonzero(chosen)


def _unsupported(found: NameHits, text: np.ndarray) -> np.ndarray:
    """Return the indices of short acronyms whose entity has no longer name in the text.

    text: index of each match's text (n,).
    """
    short = found.end - found.start <= SHORT_ACRONYM
    acronyms = np.flatnonzero(short & (found.row >= 0) & found.exact)
    longer = np.flatnonzero(~short)
    # Most entities have no acronym in the texts: a small table of marks excludes them.
    marked = np.zeros(1 << 16, dtype=bool)
    marked[found.row[acronyms] & 0xFFFF] = True
    longer = longer[marked[found.row[longer] & 0xFFFF]]
    entity = text << 32 | found.row
    return acronyms[~np.isin(entity[acronyms], entity[longer])]
