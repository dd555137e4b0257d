"""Case of names in texts: where it tells a name from a word, and where the text shows that it does
not."""

import gzip
import re
from bisect import bisect_right
from functools import cache, lru_cache
from pathlib import Path

from ..mining.matcher import LONG_ACRONYM, SHORT_ACRONYM, SHORT_NAME, is_acronym, plain_letters
from ..util.folding import ROMAN
from .words import stem

# Words that biomedical texts write in lower case, made by `experiments/lab words`.
LOWER = Path(__file__).parent / "lower.txt.gz"
# Letters of the words in that file. Shorter ones tell nothing, longer names are no acronyms.
MIN_LOWER, MAX_LOWER = 2, LONG_ACRONYM
# A text in capitals has this many such or longer words, and they are this fraction of its words.
MIN_PLAIN, MIN_PLAIN_FRACTION = 3, 0.5
LONG_WORD = re.compile(r"[^\W\d_]{3}")
_WORD = re.compile(r"[^\W_]+")
_LETTERS = re.compile(r"[^\W\d_]+")
_END = re.compile(r"\n|[.!?;](?=\s)|\Z")
# No word begins or ends so, but symbols do: Frda, Arnt.
_UNSPOKEN = re.compile(r"[b-df-hj-np-tv-xz]{3}")
# A part of a compound is none by itself, and a surname is no name of an entity.
_BEFORE, _AFTER = re.compile(r"\w-\Z"), re.compile(r"-\w|,? et al\b")


def has_case(name: str, surface: str, *, is_free: bool = False) -> bool:
    """Return whether a text has the case of a name. An acronym, or a name without a word of three
    letters (A-2), has its own only. A short word must not be all in capitals.

    is_free: the text shows that its case may differ (`Capitals.is_free`), except for the shortest.
    """
    if is_acronym(name) or not LONG_WORD.search(name):
        own, written = _letters(name), _letters(surface)
        if written in (own, own + "s"):
            return True
        differs = is_free and len(own) > SHORT_ACRONYM and own.lower() == written.lower()
        return differs and (own.isupper() or written.isupper())
    written = plain_letters(surface).text
    if len(written) > SHORT_NAME or not any(map(str.isupper, written[1:])):
        return True
    return is_free and written.isupper()


def _letters(text: str) -> str:
    """Return the letters of an acronym, without numerals, and Greek ones in lower case."""
    plain = plain_letters("".join(char if char.isascii() else char.lower() for char in text)).text
    first, *others = _WORD.findall(plain) or [""]
    kept = [first, *(word for word in others if word.lower() not in ROMAN)]
    return "".join(filter(str.isalpha, "".join(kept)))


class Capitals:
    """Capitals of a text, and what they tell of its words.

    The text is read once, when it is first asked about a mention in capitals.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._runs: list[tuple[int, int]] | None = None

    def is_free(self, start: int, end: int) -> bool:
        """Return whether the case of a mention may differ from that of a name: no ordinary word is
        written so (HeLa, Jurkat), or all words around it are in capitals."""
        surface = self._text[start:end]
        if surface.islower():
            return False
        if surface.isupper():
            if self._runs is None:
                self._runs = capital_runs(self._text)
            at = bisect_right(self._runs, (start, len(self._text))) - 1
            return at >= 0 and end <= self._runs[at][1]
        return (
            _is_no_word(surface)
            and not _BEFORE.search(self._text[max(start - 2, 0) : start])
            and not _AFTER.match(self._text, end)
        )


@lru_cache(maxsize=1 << 14)
def _is_no_word(surface: str) -> bool:
    """Return whether every word that is not all in capitals has the capitals of a name."""
    words = ("".join(filter(str.isalpha, word)) for word in _WORD.findall(surface))
    return all(
        len(word) > SHORT_ACRONYM and (_has_inner_capitals(word) or _is_proper(word))
        for word in words
        if word and not word.isupper()
    )


def _has_inner_capitals(word: str) -> bool:
    """Return whether a word has several capitals, one of them not its first letter: HeLa, hTERT,
    but not HDLs, which is a plural, and not the gene cheD."""
    return sum(map(str.isupper, word)) > 1 and not word.removesuffix("s").isupper()


def _is_proper(word: str) -> bool:
    """Return whether only the first letter is a capital, and the word can be spoken, but texts have
    it never in lower case."""
    lower = word.lower()
    if word != lower.capitalize() or any(map(_UNSPOKEN.match, (lower, lower[-3:]))):
        return False
    return not is_lower_case_word(lower)


def is_lower_case_word(word: str) -> bool:
    """Return whether texts write a word, or another form of this word, in lower case."""
    return not lower_case_words().isdisjoint((word, stem(word)))


@cache
def lower_case_words() -> frozenset[str]:
    """Return the words that ship: of `MIN_LOWER` to `MAX_LOWER` letters, in lower case."""
    with gzip.open(LOWER, "rt", encoding="utf8") as file_:
        return frozenset(file_.read().split())


def capital_runs(text: str) -> list[tuple[int, int]]:
    """Return the offsets of the sentences and lines in capitals, joined if they follow each other.

    A word of one or two letters may be a unit in lower case. Acronyms in a row are no sentence:
    most words are those that texts also write in lower case, or too long for an acronym.
    """
    runs: list[tuple[int, int]] = []
    words: list[str] = []
    first = start = 0
    for end in (match.end() for match in _END.finditer(text)):
        own = [word for word in _LETTERS.findall(text, start, end) if len(word) >= MIN_LOWER]
        if all(word.isupper() or len(word) == MIN_LOWER for word in own):
            words += own
        else:
            if _is_prose(words):
                runs.append((first, start))
            words, first = [], end
        start = end
    if _is_prose(words):
        runs.append((first, start))
    return runs


def _is_prose(words: list[str]) -> bool:
    plain = sum(len(word) > MAX_LOWER or word.lower() in lower_case_words() for word in words)
    return plain >= max(MIN_PLAIN, MIN_PLAIN_FRACTION * len(words))
