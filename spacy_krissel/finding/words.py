"""Words of texts as keys that all forms of a word share."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..mining.matcher import plain_letters
from ..mining.text_forms import Words, codes, plain_form, word_form
from ..util.folding import APOSTROPHES, NUMBERED, ROMAN, fold_name, to_american
from ..util.hashing import stable_hashes
from ..util.lock import Lock

# Words that a name may have or lack: "absence of speech", "speech absence".
SKIPPED = frozenset(["of", "the"])
CONJUNCTIONS = frozenset(["and", "or"])
# Shorter words have no plural.
MIN_PLURAL = 4
# Number of known words at which all are forgotten: 20 MB.
MAX_WORDS = 1 << 17
# What stands between two words: white space or hyphens; a character that a name crosses only as
# written; one that it crosses if a name has one after the same word, as "E. coli"; the end of a
# line or text.
FREE, STRICT, BARRIER, END = range(4)
STRICT_CHARS = re.compile(r"[,/&+*%#@~^_\\$]")
_BARRIERS = re.compile(r"[.;:?!()\[\]{}|\"=<>]")
# A full stop within a number or symbol is none: "11p15.5".
_STOP = re.compile(r"[;:?!()\[\]{}|\"=<>]|\.(?!\w)|(?<!\w)\.")
_SEPARATOR = re.compile(f"({STRICT_CHARS.pattern}|{_STOP.pattern})")
_WORD = re.compile(r"[^\W_]+")
_SINGULAR = re.compile(r"(?:ss|us|is)$")
# "headaches" and "boxes": the singular may end in "e" or not.
_SIBILANT = re.compile(r"(?<=[sxz])e$|(?<=[cs]h)e$")
_LATIN = {"us": "i", "um": "a"}
# I, V and X are numbers only after words such as "type".
_LETTERS = frozenset(["i", "v", "x"])
# Of each ASCII character, and of all others.
_KIND = np.array(
    [
        END
        if char == "\n"
        else BARRIER
        if _BARRIERS.match(char)
        else STRICT
        if STRICT_CHARS.match(char)
        else FREE
        for char in map(chr, range(128))
    ]
    + [FREE],
    dtype=np.int8,
)


def stem(word: str) -> str:
    """Return what the singular and the plural of a folded word share."""
    if len(word) < MIN_PLURAL or not word.isalpha():
        return word
    singular = _without_s(word)
    # "humerus" and "humeri", "diverticulum" and "diverticula"; not "mous", of "mouse".
    latin = _LATIN.get(singular[-2:]) if len(singular) > MIN_PLURAL else None
    return singular if latin is None else singular[:-2] + latin


def _without_s(word: str) -> str:
    if word.endswith("ies") and len(word) > MIN_PLURAL:
        return word[:-3] + "y"
    if word.endswith(("ses", "sis")):
        # "metastases" and "metastasis"; "diseases" and, by its last letter, "disease".
        return word[:-2]
    if word.endswith("ae") and len(word) > MIN_PLURAL:
        return word[:-1]
    if word.endswith("s") and not _SINGULAR.search(word):
        word = word[:-1]
    return _SIBILANT.sub("", word)


def words_of(text: str) -> list[str]:
    """Return the folded words of a text, without those that no name needs."""
    words = to_american(fold_name(plain_letters(text).text)).split()
    return [word for word in words if word not in SKIPPED]


def stems_of(text: str) -> list[str]:
    """Return the stems of `words_of` a text."""
    return [*map(stem, words_of(text))]


def stops_of(text: str) -> str:
    """Return the characters that are a `BARRIER` between the words of a text."""
    return "".join(_STOP.findall(_from_word_to_word(text)))


def separated_stems(text: str) -> list[str]:
    """Return the stems of the words of a text (`stems_of`), and the characters between words that a
    name crosses only as written."""
    parts = _SEPARATOR.split(_from_word_to_word(text))
    return [each for part in parts for each in stems_of(part)]


def _from_word_to_word(text: str) -> str:
    words = [*_WORD.finditer(text)]
    return text[words[0].start() : words[-1].end()] if words else ""


def hashed(words: Sequence[str]) -> np.ndarray:
    """Return the key of each stem (n,) uint64."""
    return np.frombuffer(stable_hashes(words), dtype=">u8").astype(np.uint64)


class TextWords(NamedTuple):
    """Words of several texts, one after the other (n,).

    text: index of the text. start, end: in its characters. key: equal for all forms of a word.
    skipped: may a name lack it. joins: is it "and" or "or". gap: what stands after it, `FREE`,
    `STRICT`, `BARRIER` or `END`.
    """

    text: np.ndarray
    start: np.ndarray
    end: np.ndarray
    key: np.ndarray
    skipped: np.ndarray
    joins: np.ndarray
    gap: np.ndarray


class _Numbers(dict[str, int]):
    """Number of each word, in the order in which they were first asked for."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


class _Known(NamedTuple):
    """Distinct words by number (n,): key, key as a number (0 for none), and `TextWords`' columns;
    numbered: is a letter after it a number."""

    key: np.ndarray
    numeral: np.ndarray
    numbered: np.ndarray
    skipped: np.ndarray
    joins: np.ndarray

    @classmethod
    def of(cls, words: Sequence[str]) -> "_Known":
        folded = [to_american(fold_name(word)) for word in words]
        numbers = [ROMAN.get(word, "") for word in folded]
        is_letter = np.array([word in _LETTERS for word in folded], dtype=bool)
        stems = [
            number if number and word not in _LETTERS else stem(word)
            for word, number in zip(folded, numbers, strict=True)
        ]
        numeral = np.where(is_letter, hashed(numbers), np.uint64(0))
        each = ([word in known for word in folded] for known in (NUMBERED, SKIPPED, CONJUNCTIONS))
        return cls(hashed(stems), numeral, *(np.array(mask, dtype=bool) for mask in each))


class WordReader:
    """Reads texts as words. What a word gives is remembered; threads may share a reader."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers, self._known = _Numbers(), _Known.of([])

    def read(self, texts: Sequence[str]) -> TextWords:
        """Return the words of texts in plain letters (`plain_letters`)."""
        joined = "\n\n".join(texts)
        words = Words(word_form(plain_form(joined)))
        start, end = words.starts, words.ends
        written = [joined[s:e] for s, e in zip(start.tolist(), end.tolist(), strict=True)]
        with self._lock:
            if len(self._numbers) > MAX_WORDS:
                self._numbers, self._known = _Numbers(), _Known.of([])
            number = np.fromiter(map(self._numbers.__getitem__, written), np.int64, len(written))
            n_known = len(self._known.key)
            if len(self._numbers) > n_known:
                new = _Known.of([*self._numbers][n_known:])
                self._known = _Known(*map(np.append, self._known, new))
            known = self._known
        key, skipped, gap = known.key[number], known.skipped[number], _gaps(joined, start, end)
        if len(number):
            numeral = known.numeral[number[1:]]
            is_numeral = known.numbered[number[:-1]] & (numeral > 0) & (gap[:-1] < BARRIER)
            key[1:] = np.where(is_numeral, numeral, key[1:])
        for at in np.flatnonzero((end - start == 1) & (start > 0)).tolist():
            # "'s"
            skipped[at] |= written[at] in "sS" and joined[start[at] - 1] in APOSTROPHES
        firsts = np.cumsum([0, *(len(text) + 2 for text in texts)])
        text = np.searchsorted(firsts, start, side="right") - 1
        offsets = start - firsts[text], end - firsts[text]
        return TextWords(text, *offsets, key, skipped, known.joins[number], gap)


def _gaps(text: str, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Return what stands after each word (n,)."""
    kinds = _KIND[np.minimum(codes(text), len(_KIND) - 1)]
    gap = np.full(len(start), FREE, dtype=np.int8)
    if not len(start):
        return gap
    after = np.append(start[1:], len(text))
    for kind in (STRICT, BARRIER, END):
        n_before = np.append(0, np.cumsum(kinds == kind))
        gap[n_before[after] > n_before[end]] = kind
    # A full stop in a number or symbol: "11p15.5".
    for at in np.flatnonzero((gap == BARRIER) & (after - end == 1)).tolist():
        if text[end[at]] == ".":
            gap[at] = STRICT
    gap[-1] = END
    return gap
