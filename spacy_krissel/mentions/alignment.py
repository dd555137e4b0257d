"""Alignment of short forms with long forms, scored by strategy (Sohn et al., 2008)."""

import re
import unicodedata
from itertools import islice
from typing import NamedTuple

from ..util.folding import GREEK_NAMES

WORD = re.compile(r"[^\W_]+")
# Stands for accents and invisible characters within a word; Python counts it as a letter.
MARK = "ʼ"
# A word read backwards; "'s" is no word of its own.
BACKWARD_WORD = re.compile(rf"(?:s['’](?=[^\W_]))?[^\W_]*[^\W_{MARK}]")
# A long form has at most `min(n + 5, 2 n)` words for n letters (Schwartz and Hearst, 2003).
MORE_WORDS = 5
# Words that a short form often leaves out.
SMALL_WORDS = frozenset(
    "a an and at by da de del der des di du et for from in la of on or per the to van von with".split()  # noqa: E501
)
# Words that no noun phrase contains, and further words that none begins with.
OUTSIDE = frozenset(
    "although am are be because been being but can could did do does each had has have he her his "
    "however if is it its may might must not our she should so such than that their them then "
    "there therefore these they this those though thus was we were what when where whether which "
    "while who whose will would".split()
)
NO_START = OUTSIDE.union("a an and as at both by et for from of on or per the to with".split())
# Nouns that may be followed by a letter of their own: "vitamin E deficiency".
LETTERED = frozenset(
    "vitamin hepatitis type class group grade stage factor protein chromosome complex phase "
    "subtype haemoglobin types hemoglobin immunoglobulin influenza streptococcus".split()
)
# Words of Latin phrases after "in". Other long forms do not begin with "in".
WORDS_AFTER_IN = frozenset("vitro vivo situ silico utero ovo cellulo toto planta extremis".split())
# Small words that begin no long form, even if all initials fit: "and chronic hepatitis".
NEVER_FIRST = OUTSIDE.union("and both et of or".split())
# Cost of a letter by its position: after the previous letter, elsewhere in a word that gives its
# first letter, in a word that does not. First letters are free.
RUN, INNER, SCATTERED = 0.6, 1.0, 3.0
# Cost of a word that gives no letter, and of a long form that starts after a hyphen.
SMALL, SKIPPED, JOINED = 0.25, 2.0, 0.3
MAX_COST = 6.5
# Separators within a compound word.
JOINTS = "-‐‑–/"
# The fraction of a strategy's alignments that are not due to chance, for short forms of 2, 3, 4 and
# more letters, as printed by `python benchmarks/abbreviations.py CORPUS --learn
# abstracts.jsonl.gz`.
PRECISIONS = {
    "initials": (1.00, 1.00, 1.00, 1.00),
    "runs": (0.97, 1.00, 1.00, 1.00),
    "inner": (0.97, 1.00, 1.00, 1.00),
    "scattered": (0.00, 0.32, 0.94, 0.95),
    "skipped initials": (0.89, 0.99, 1.00, 1.00),
    "skipped runs": (0.00, 0.97, 1.00, 0.99),
    "skipped inner": (0.00, 0.93, 0.96, 0.95),
    "skipped scattered": (0.00, 0.44, 0.88, 0.44),
    "trailing initials": (0.89, 0.99, 1.00, 0.99),
    "trailing runs": (0.88, 0.97, 0.99, 0.99),
    "trailing inner": (0.08, 0.86, 0.92, 0.97),
    "trailing scattered": (0.00, 0.06, 0.00, 0.56),
    "swapped": (0.64, 0.85, 0.96, 0.99),
    "numbered initials": (0.91, 1.00, 0.99, 0.69),
    "numbered runs": (0.94, 0.93, 0.90, 0.95),
    "numbered inner": (0.63, 0.96, 0.97, 0.44),
    "shuffled": (0.87, 0.96, 0.91, 0.95),
}
GREEK_INITIALS = {ord(letter): name[0] for letter, name in GREEK_NAMES.items()}
LONG_NAMES_FIRST = sorted({*GREEK_NAMES.values()}, key=len, reverse=True)
GREEK_NAME = re.compile(rf"(?<![a-z])(?:{'|'.join(LONG_NAMES_FIRST)})(?![a-z])")
# Beginnings of the words that a digit may abbreviate.
NUMBERS = {
    "1": ("one", "first", "mono", "single", "uni"),
    "2": ("two", "second", "di", "bi", "double"),
    "3": ("three", "third", "tri"),
    "4": ("four", "tetra", "quad"),
    "5": ("five", "fifth", "penta"),
    "6": ("six", "hexa"),
}
ROMAN_NUMBERS = {
    "i": "1", "ii": "2", "iii": "3", "iv": "4", "v": "5", "vi": "6", "vii": "7", "viii": "8",
    "ix": "9",
    "x": "10", "xi": "11", "xii": "12", "xiii": "13",
}  # fmt: skip
# Characters that a word may give without containing them: digits, and X for "-ectomy".
ELSEWHERE = frozenset("0123456789x")
# British beginnings of words that begin with "e" in American English.
BRITISH_E = (
    "oesoph", "oestr", "oedem", "aetiol", "aesth", "œsoph", "œstr", "œdem", "ætiol", "æsth",
)  # fmt: skip
# "MSCs", "MSC's"
PLURAL = re.compile(r"(?<=[A-Z0-9])['’]?s$")
# Separates the two groups of "IFN-gamma", "Ang II" and "Aβ".
GROUP_END = re.compile(r"[\s-]|(?<=[A-Z])(?=[α-ω])")


class Alignment(NamedTuple):
    """The start of a long form in a text, and the strategy that maps its words to the short form.

    n_letters: number of letters of the short form, at least 2. small: whether small words were left
        out.
    """

    start: int
    strategy: str
    n_letters: int
    small: bool = False

    @property
    def precision(self) -> float:
        """Pseudo-precision, 0 to 1."""
        return PRECISIONS[self.strategy][min(self.n_letters, 5) - 2]


class _Letters(dict[int, str]):
    """Cache of code point → the letter that it is compared as."""

    def __missing__(self, code: int) -> str:
        base = unicodedata.normalize("NFKD", chr(code))[0]
        letter = GREEK_INITIALS.get(ord(base), base)
        if unicodedata.category(base) in ("Mn", "Cf"):
            letter = MARK
        self[code] = letter if letter.isalnum() else chr(code)
        return self[code]


_LETTERS = _Letters()


def fold_letters(text: str) -> str:
    """Return `text` in lower case and without accents, at the same offsets.

    A Greek letter becomes the first letter of its name; an invisible character becomes `MARK`.
    """
    lower = text.lower()
    if lower.isascii():
        return lower
    if len(lower) != len(text):
        # A few capitals, such as "İ", have a longer lower case.
        lower = "".join(low if len(low := char.lower()) == 1 else char for char in text)
    return lower.translate(_LETTERS)


def letters_of(short: str) -> str:
    """Return the letters and digits of a short form, folded, without a plural ending.

    The name of a Greek letter counts as one letter: "IFN-gamma" gives "ifng".
    """
    if not short.isupper():
        short = GREEK_NAME.sub(lambda match: match[0][0], PLURAL.sub("", short))
    return "".join(filter(str.isalnum, fold_letters(short).replace(MARK, "")))


def best_alignment(short: str, text: str, *, whole: bool = False) -> Alignment | None:
    """Return the alignment of a short form with the last words of `text`, or None.

    Letters in order (`align`) come first. Then follow two swapped groups ("IFN-gamma" of
    "gamma-interferon"), initials in any order ("DM" of "myotonic dystrophy"), and letters without
    their final number ("FEV1" of "forced expiratory volume"). Time is linear in the text's length.

    whole: the long form must start at the text's first word.
    """
    letters = letters_of(short)
    if len(letters) < 2:
        return None
    found = align(letters, text, whole=whole)
    if found is not None:
        return found
    groups = [letters_of(group) for group in GROUP_END.split(short)]
    if len(groups) == 2 and all(groups):
        found = align(groups[1] + groups[0], text, whole=whole)
        if found is not None:
            # "Aβ" stands for "β-amyloid" as well as for "amyloid-β".
            return found._replace(strategy="swapped") if short[-1].isascii() else found
    found = _shuffled(letters, text, whole)
    if found is not None:
        return found
    named = letters.rstrip("0123456789")
    if 1 < len(named) < len(letters):
        found = align(named, text, whole=whole)
        if found is not None and found.strategy in ("initials", "runs", "inner"):
            return found._replace(strategy="numbered " + found.strategy)
    return None


def align(letters: str, text: str, *, whole: bool = False) -> Alignment | None:  # noqa: C901
    """Return the cheapest alignment of `letters`, in order, with the last words of `text`.

    If several are equal, the shortest wins. The first letter must begin the first word. Time is
    linear in the text's length.

    whole: the long form must start at the text's first word.
    """
    n = len(letters)
    folded = fold_letters(text)
    if any(letter not in folded and letter not in ELSEWHERE for letter in letters):
        return None
    backwards = folded[::-1]
    has_digit = not letters.isalpha()
    # Most short forms are the initials of the last words: no alignment is cheaper.
    left = n
    for match in BACKWARD_WORD.finditer(backwards):
        word = match[0]
        if has_digit and word[-1] in "ivx":
            word = _as_number(word[::-1], text, len(folded) - match.end(), letters)[::-1]
        # A number is matched digit by digit.
        size = len(word) if word.isdigit() else 1
        if letters[max(0, left - size) : left] != word[: -size - 1 : -1]:
            break
        left -= size
        if left <= 0:
            start = len(folded) - match.end()
            joined = start > 0 and folded[start - 1] in JOINTS
            if joined:
                break
            word = word[::-1]
            if not _can_start(text, start, word):
                # "as soon as possible (ASAP)", but not "of mice (OM)"
                if n == 2 or word not in NO_START or word in NEVER_FIRST:
                    break
            if whole and WORD.search(folded, 0, start):
                return None
            return Alignment(start, "initials", n)
    first_word = WORD.search(folded) if whole else None
    words_left = min(n + MORE_WORDS, 2 * n)
    best_cost, best = MAX_COST, None
    # Number of letters left → cost; runs, inner, scattered letters; small, skipped, trailing words.
    states: dict[int, tuple[float, int, int, int, int, int, int]] = {n: (0.0, 0, 0, 0, 0, 0, 0)}
    for match in BACKWARD_WORD.finditer(backwards):
        start, end = len(folded) - match.end(), len(folded) - match.start()
        word = folded[start:end]
        if word in OUTSIDE and not text[start:end].isupper():
            break
        # Locants of chemicals, "2,2'", are small words too.
        small = word in SMALL_WORDS or len(word) == 1 or word.isdigit()
        if has_digit and word[0] in "ivx":
            word = _as_number(word, text, start, letters)
        joined = start > 0 and folded[start - 1] in JOINTS
        can_start: bool | None = None
        if first_word is not None and start != first_word.start():
            can_start = False
        following: dict[int, tuple[float, int, int, int, int, int, int]] = {}
        for left, state in states.items():
            cost, runs, inner, scattered, n_small, skipped, trailing = state
            more = cost + (SMALL if small else SKIPPED)
            if more < best_cost and (left not in following or more < following[left][0]):
                if left == n:
                    words = (n_small, skipped, trailing + 1)
                else:
                    words = (n_small + small, skipped + (not small), trailing)
                following[left] = (more, runs, inner, scattered, *words)
            letter = letters[left - 1]
            if letter not in word and (letter not in ELSEWHERE or word.isdigit()):
                continue
            for rest in range(left - 1, -1, -1):
                given = _given(letters[rest:left], word)
                if given is None:
                    # The word cannot give more letters either.
                    break
                more = cost + given[0]
                if not rest:
                    if can_start is None:
                        can_start = _can_start(text, start, word)
                    if given[3] or not can_start:
                        continue
                    more += JOINED if joined else 0.0
                if more < best_cost and (rest not in following or more < following[rest][0]):
                    ways = (runs + given[1], inner + given[2], scattered + given[3])
                    if rest:
                        following[rest] = (more, *ways, n_small, skipped, trailing)
                    else:
                        strategy = _strategy(*ways, skipped, trailing)
                        best_cost, best = more, Alignment(start, strategy, n, n_small > 0)
        words_left -= not joined
        states = following
        if not states or not words_left:
            break
    return best


def word_before(text: str, start: int) -> str:
    """Return the word before `start`, or "" if a separator is in between."""
    return "".join(WORD.findall(text, max(0, start - 16), start)[-1:])


def _as_number(word: str, text: str, start: int, letters: str) -> str:
    """Return the folded `word` at `start` as a number if `letters` contain that number.

    Otherwise return the word. I, V and X are letters, except after "type" and similar nouns.
    """
    number = ROMAN_NUMBERS.get(word)
    if not number or number not in letters or not text[start].isupper():
        return word
    return number if len(word) > 1 or word_before(text, start).lower() in LETTERED else word


def _can_start(text: str, start: int, word: str) -> bool:
    """Return whether the folded `word` at `start` may begin a long form.

    "α" and parts of compounds ("by-product") may. The letter of "vitamin E" may not. "in" may only
    begin phrases like "in vitro".
    """
    if len(word) > 1 and word != "in" and word not in NO_START:
        return True
    end = start + len(word)
    if len(word) == 1 and text[start].isalpha() and text[end : end + 1] != "-":
        if word_before(text, start).lower() in LETTERED:
            return False
    if word == "in" and text[end : end + 1] != "-":
        after = WORD.search(text, end)
        return after is not None and after[0].lower() in WORDS_AFTER_IN
    return word not in NO_START or not text[start].isascii() or text[end : end + 1] == "-"


def _given(letters: str, word: str) -> tuple[float, int, int, int] | None:
    """Return the cost of `letters` in `word`, in order, or None if one is missing.

    The other values are the numbers of letters in runs, inner and scattered.
    """
    offset, cost, runs, inner, scattered = 0, 0.0, 0, 0, 0
    first = letters[0]
    if word[0] != first and not (first in NUMBERS and word.startswith(NUMBERS[first])):
        offset = _find(first, word, 1)
        if offset < 0:
            return None
        # "oestrogen"
        if first != "e" or offset > 1 or not word.startswith(BRITISH_E):
            cost, scattered = SCATTERED, 1
    for letter in letters[1:]:
        found = _find(letter, word, offset + 1)
        if found < 0:
            return None
        if found == offset + 1:
            # Further digits of a number are free.
            if not letter.isdigit():
                cost, runs = cost + RUN, runs + 1
        else:
            cost, inner = cost + INNER, inner + 1
        offset = found
    return cost, runs, inner, scattered


def _find(letter: str, word: str, start: int) -> int:
    found = word.find(letter, start)
    # "OVX", ovariectomized
    return word.find("ectom", start) if found < 0 and letter == "x" else found


def _strategy(runs: int, inner: int, scattered: int, skipped: int, trailing: int) -> str:
    left_out = "trailing " if trailing else "skipped " if skipped else ""
    way = "scattered" if scattered else "inner" if inner else "runs" if runs else "initials"
    return left_out + way


def _shuffled(letters: str, text: str, whole: bool) -> Alignment | None:
    """Return the alignment with the initials of the last words, one per letter, in any order."""
    folded = fold_letters(text)
    words = list(islice(BACKWARD_WORD.finditer(folded[::-1]), len(letters)))
    initials = sorted(word[0][-1] for word in words)
    if initials != sorted(letters):
        return None
    start = len(folded) - words[-1].end()
    if not _can_start(text, start, words[-1][0][::-1]) or (whole and WORD.search(folded, 0, start)):
        return None
    return Alignment(start, "shuffled", len(letters))
