"""Comparison forms of short forms: plain characters, and keys of their letters and digits."""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from ..util.folding import GREEK_NAMES, INVISIBLE_CHARS, LATIN_FOR_GREEK
from .alignment import GREEK_NAME, OUTSIDE, SMALL_WORDS, WORD

# Spaces and full-width forms, each with one plain character.
_WIDE = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\uff01-\uff5e]")
_OTHER = re.compile(f"{INVISIBLE_CHARS.pattern}|{_WIDE.pattern}")
_DASHES = re.compile("[‐‑‒–—−]")
# Greek letters and their names → the Latin letters that stand for them, else the names.
_LATIN = {letter: LATIN_FOR_GREEK.get(name, name) for letter, name in GREEK_NAMES.items()}
_LATIN |= {letter.upper(): latin.upper() for letter, latin in _LATIN.items() if len(latin) == 1}
_LATIN |= LATIN_FOR_GREEK
_NAMES = {**GREEK_NAMES, **{latin: name for name, latin in LATIN_FOR_GREEK.items()}}
_GREEK = re.compile(f"{GREEK_NAME.pattern}|[{''.join(key for key in _LATIN if len(key) == 1)}]")
_WORDS_OF_TEXT = OUTSIDE | SMALL_WORDS
# Maximum number of words of a variant spelling, "A.L.S.", and of its letters.
MAX_RUN, MAX_KEY = 6, 16
# The first two letters or digits of a run of characters, at the beginning of a word.
_TWO = re.compile(r"(?<![^\W_])([^\W_])(?=[\W_]{0,12}([^\W_]))")
# The same, except for lower-case words without an attached letter, digit or sign.
_NEEDED = re.compile(rf"(?<![^\W_])(?![a-z]{{2,}}(?:[ ,]|$)){_TWO.pattern}")


class PlainView(NamedTuple):
    """A text without invisible characters, full-width forms and non-standard spaces.

    cuts: the offsets in `text` before which characters were removed, ascending. shifts: the number
        of characters removed before each of them.
    """

    text: str
    cuts: list[int]
    shifts: list[int]

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the offsets of `text[start:end]`, not empty, in the original text."""
        return self._offset(start), self._offset(end - 1) + 1

    def _offset(self, index: int) -> int:
        n_cuts = bisect_right(self.cuts, index)
        return index + (self.shifts[n_cuts - 1] if n_cuts else 0)


def plain_view(text: str) -> PlainView:
    """Return the plain view of a text. Most texts are unchanged."""
    if text.isascii() or not _OTHER.search(text):
        return PlainView(text, [], [])
    parts: list[str] = []
    cuts, shifts = [], []
    last = shift = 0
    for match in INVISIBLE_CHARS.finditer(text):
        parts.append(text[last : match.start()])
        cuts.append(match.start() - shift)
        last = match.end()
        shift += last - match.start()
        shifts.append(shift)
    plain = "".join([*parts, text[last:]])
    for char in set(_WIDE.findall(plain)):
        plain = plain.replace(char, unicodedata.normalize("NFKC", char) if char > "\uff00" else " ")
    return PlainView(plain, cuts, shifts)


def fold_short(text: str) -> str:
    """Return `text` in its lookup form: NFKC, plain dashes, no invisible characters."""
    if text.isascii():
        return text
    return _DASHES.sub("-", unicodedata.normalize("NFKC", INVISIBLE_CHARS.sub("", text)))


@lru_cache(maxsize=4096)
def key_of(short: str) -> str:
    """Return the letters and digits of a folded short form, shared by its variant spellings.

    A Greek letter or its name becomes the Latin letter that stands for it: "NF-κB" and "NF-kappaB"
    give "NFkB". Case matters. A separator between two digits matters. "" is returned if signs
    matter, as in "CD4+", and if the key could be a plain word.
    """
    return next((key for end, key in keyed_runs(short, 0) if end == len(short)), "")


def keyed_runs(text: str, start: int) -> Iterator[tuple[int, str]]:
    """Yield the end and the key (`key_of`) of each run of words that begins at `start`."""
    words: list[str] = []
    last = None
    dotted = True
    for match in WORD.finditer(text, start):
        word = match[0]
        if last is None:
            if match.start() > start:
                return
        else:
            gap = text[last : match.start()]
            if not _joins(gap, words[-1], word):
                return
            if words[-1][-1].isdigit() and word[0].isdigit():
                words.append(".")
            dotted = dotted and gap == "."
        words.append(word)
        last = end = match.end()
        if words[0].islower() and words[0].isalpha() and text[last : last + 1] in ("", " ", ","):
            if len(words) == 1 and words[0] not in LATIN_FOR_GREEK:
                return
        # Include the brackets of "FEV(1)" and the last full stop of "A.L.S.".
        n_open = text.count("(", start, end)
        if n_open and text[end : end + 1] == ")" and n_open == 1:
            end += 1
        elif n_open > text.count(")", start, end):
            continue
        key = _key(words)
        if len(key) > MAX_KEY or len(words) > MAX_RUN:
            return
        if key:
            yield end, key
            if len(words) > 1 and dotted and text[end : end + 1] == ".":
                yield end + 1, key


def _joins(gap: str, left: str, right: str) -> bool:
    """Return whether the text between two words may be part of a short form."""
    if gap in ("-", ".", "_", "(", ")-", ")"):
        return True
    return gap == " " and (left[-1].isdigit() or right[0].isdigit() or _is_greek(left, right))


def _is_greek(*words: str) -> bool:
    return any(word in _NAMES or word in _LATIN for word in words)


def _key(words: list[str]) -> str:
    joined = "".join(map(_latin, words))
    if _is_plain(joined):
        # "Aβ" and "A-beta" differ from "Ab".
        named = "".join(_GREEK.sub(_named, word) for word in words)
        if len(named) <= 2 or named == joined:
            return "" if _is_plain(joined, shortest=2) else joined
        return named
    return joined


def _latin(text: str) -> str:
    return _GREEK.sub(lambda match: _LATIN.get(match[0], match[0]), text)


def _is_plain(key: str, shortest: int = 3) -> bool:
    """Return whether a key is too short, a number, or an ordinary word."""
    if len(key) < shortest or key.islower() or (key.istitle() and key.isalpha()) or key.isdecimal():
        return key.isalpha() or key.isdecimal() or len(key) < shortest
    return key.lower() in _WORDS_OF_TEXT and not key.isupper()


def _named(match: "re.Match[str]") -> str:
    return GREEK_NAMES.get(match[0], match[0])


def first_letters(mentions: Iterable[str]) -> set[tuple[str, str]]:
    """Return the first two letters or digits of each possible short form in the mentions.

    The second is "" for a mention of a single letter. Searching all mentions for each short form
    would take quadratic time in a text's length.
    """
    found: set[tuple[str, str]] = set()
    for mention in {*mentions}:
        text = mention if mention.isascii() else fold_short(mention)
        pairs = _NEEDED.findall(text)
        if pairs:
            found.update(pairs)
            if _GREEK.search(text):
                found.update(_NEEDED.findall(_latin(text)))
        elif len(text) == 1:
            found.add((text, ""))
    # The same letters, where they stand for names of Greek letters.
    for first, second in [*found]:
        if second in _NAMES:
            found.add((first, _NAMES[second][0]))
        if first in _NAMES:
            found.add((_NAMES[first][0], _NAMES[first][1]))
    return found


def any_word_starts_with(needed: set[tuple[str, str]], text: str) -> bool:
    """Return whether a word of `text` begins with any of `needed` (`first_letters`).

    Always True for text that is not ASCII.
    """
    return not text.isascii() or not needed.isdisjoint(_TWO.findall(text))
