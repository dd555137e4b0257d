"""Alignment of phrases with their texts, for corpora that state phrases without offsets: in one
fragment, or in several."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

# In the order in which they are tried: by the phrase's own words, then by their stems.
RULES = (
    "in a row",
    "in order",
    "any order",
    "stems in a row",
    "stems in order",
    "stems in any order",
)
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_BETWEEN = re.compile(r"[^\w\n]*")
_ENDINGS = ("ing", "ed", "s")
MIN_STEM = 3

Find = Callable[[Sequence[str], Sequence[str], int], list[int] | None]


class Alignment(NamedTuple):
    """A phrase found by one of the `RULES`. fragments: (start, end) in characters, in order, end
    exclusive."""

    rule: str
    fragments: tuple[tuple[int, int], ...]


def align(phrase: str, text: str, nth: int = 0) -> Alignment | None:
    """Find the words of `phrase` in `text`, in any case, with or without apostrophes and with any
    punctuation between them.

    The first of `RULES` that finds all of them applies: consecutive words; words in order with
    others between them; words in any order; and the same three by `stem`. Among several matches,
    the tightest (fewest words from its first to its last) is taken, and the first of equally tight
    ones. Words with nothing but punctuation and blanks between them are one fragment.

    nth: which of the matches to take, from 0, if the words are consecutive several times; the last
        if there are fewer.
    RETURNS: None if a word is missing, or the phrase has none.
    """
    offsets = [match.span() for match in _WORD.finditer(text)]
    words = [_spelling(text[start:end]) for start, end in offsets]
    wanted = [_spelling(word) for word in _WORD.findall(phrase)]
    if not wanted:
        return None
    finders: tuple[Find, ...] = (_in_a_row, _in_order, _any_order)
    spellings = ((words, wanted), ([stem(word) for word in words], [stem(word) for word in wanted]))
    rules = iter(RULES)
    for found_words, wanted_words in spellings:
        for find in finders:
            rule = next(rules)
            if found := find(found_words, wanted_words, nth):
                return Alignment(rule, _fragments([offsets[i] for i in found], text))
    return None


def missing_words(phrase: str, text: str) -> list[str]:
    """Return the words of `phrase` that `text` lacks, or has less often, even by their stems."""
    left = Counter(stem(_spelling(word)) for word in _WORD.findall(text))
    missing = []
    for word in _WORD.findall(phrase):
        key = stem(_spelling(word))
        left[key] -= 1
        if left[key] < 0:
            missing.append(word)
    return missing


def stem(word: str) -> str:
    """Return a word without one inflectional ending: -ing, -ed or -s, then a last e, a doubled last
    letter, and y as i.

    `headaches` and `headache` are `headach`, `stopped` is `stop`, `anxieties` and `anxiety` are
    `anxieti`. Stems need not be English words: they are only compared.
    """
    for ending in _ENDINGS:
        if (
            word.endswith(ending)
            and not word.endswith("ss")
            and len(word) - len(ending) >= MIN_STEM
        ):
            word = word[: -len(ending)]
            break
    if len(word) > MIN_STEM and word.endswith("e"):
        word = word[:-1]
    if len(word) > MIN_STEM and word[-1] == word[-2]:
        word = word[:-1]
    return f"{word[:-1]}i" if len(word) > MIN_STEM and word.endswith("y") else word


def _spelling(word: str) -> str:
    # People write "dont", and apostrophes of several kinds.
    return re.sub("['’]", "", word).casefold()


def _in_a_row(words: Sequence[str], wanted: Sequence[str], nth: int) -> list[int] | None:
    n = len(wanted)
    starts = [i for i in range(len(words) - n + 1) if list(words[i : i + n]) == list(wanted)]
    if not starts:
        return None
    start = starts[min(nth, len(starts) - 1)]
    return list(range(start, start + n))


def _in_order(words: Sequence[str], wanted: Sequence[str], nth: int) -> list[int] | None:
    best: list[int] | None = None
    for start, word in enumerate(words):
        if word != wanted[0]:
            continue
        # The earliest index of each next word ends the tightest window that begins here.
        found = [start]
        for each in wanted[1:]:
            index = next((i for i in range(found[-1] + 1, len(words)) if words[i] == each), None)
            if index is None:
                break
            found.append(index)
        if len(found) == len(wanted) and (
            best is None or found[-1] - found[0] < best[-1] - best[0]
        ):
            best = found
    return best


def _any_order(words: Sequence[str], wanted: Sequence[str], nth: int) -> list[int] | None:
    best: list[int] | None = None
    for start, word in enumerate(words):
        left = Counter(wanted)
        if word not in left:
            continue
        found = []
        for i in range(start, len(words)):
            if left[words[i]] > 0:
                left[words[i]] -= 1
                found.append(i)
                if len(found) == len(wanted):
                    break
        if len(found) == len(wanted) and (
            best is None or found[-1] - found[0] < best[-1] - best[0]
        ):
            best = found
    return best


def _fragments(offsets: Sequence[tuple[int, int]], text: str) -> tuple[tuple[int, int], ...]:
    fragments: list[tuple[int, int]] = []
    for start, end in offsets:
        if fragments and _BETWEEN.fullmatch(text, fragments[-1][1], start):
            fragments[-1] = fragments[-1][0], end
        else:
            fragments.append((start, end))
    return tuple(fragments)
