"""Words that a vocabulary's own synonyms show to be equal: kidney and renal."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from ..lexical.groups import ranges
from ..mentions.general_words import DISEASES, GENERAL
from ..mining.name_table import STOP_WORDS, first_of_same
from .words import hashed, stem

# A word replaces another if synonyms of `MIN_ENTITIES` show it, and if of the names that it makes
# and that exist, this fraction belong to the same entity.
MIN_ENTITIES, MIN_PRECISION = 5, 0.95
# Two words are not equal but one is narrower if synonyms show most names of it with the other,
# but few names of the other with it: a T cell is a T lymphocyte, most cells are no lymphocytes.
NARROWER_FRACTION, WIDER_FRACTION = 0.5, 0.1
# Maximum number of names that pairs of words are read from, which bounds the memory.
MAX_NAMES = 1 << 21
# Words that carry no meaning of their own: "Lesch-Nyhan with", for "Lesch-Nyhan syndrome".
_FUNCTION_WORDS = hashed(
    [
        stem(word)
        for word in sorted(
            {*STOP_WORDS, "associated", "due", "nos", "related", "syndrome", "type", "without"}
        )
    ]
)


GENERAL_KEYS = np.unique(hashed([stem(word) for word in GENERAL]))
# Endings of nouns and of their adjectives: psychosis and psychotic, hypertension and hypertensive.
# Chosen on the training splits of NCBI Disease and BC5CDR; others (-emia and -ia to -ic, -itis to
# -itic, -pathy to -pathic) gain nothing or lose there.
_ADJECTIVES = (("osis", "otic"), ("esis", "etic"), ("psy", "ptic"), ("sion", "sive"))
# Letters before the ending.
_MIN_ROOT = 4


def adjective_of(word: str) -> str:
    """Return the adjective of a folded noun, "" if none is known."""
    for noun, adjective in _ADJECTIVES:
        if word.endswith(noun) and len(word) >= len(noun) + _MIN_ROOT and word.isalpha():
            return word[: -len(noun)] + adjective
    return ""


class NameWords(NamedTuple):
    """Words of names (n,), and the names (m,).

    name, key: the name and the key of each word. sums: of the keys of each name. entities: the row
    of each name's entity. before_stops: keys of the words that a `BARRIER` follows within a name,
    ascending.
    """

    name: np.ndarray
    key: np.ndarray
    sums: np.ndarray
    entities: np.ndarray
    before_stops: np.ndarray


def substituted(words: NameWords) -> tuple[np.ndarray, np.ndarray]:
    """Return the names with one word replaced by an equal one, unless such names exist.

    RETURNS: the sums of their keys, and the names that they are made of, (k,) each.
    """
    order = np.argsort(words.key, kind="stable")
    keys = words.key[order]
    known = np.unique(words.sums)
    sums, names = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)]
    for word, by in equal_words(words):
        of = words.name[order[_between(keys, word)]]
        made = words.sums[of] - word + by
        # A name of one word would be replaced whole.
        new = (words.sums[of] != word) & ~is_in(made, known)
        sums.append(made[new])
        names.append(of[new])
    return np.concatenate(sums), np.concatenate(names)


def general_readings(words: NameWords) -> tuple[np.ndarray, np.ndarray]:
    """Return the names with "disease" or "disorder" replaced by another general word of harm,
    unless such names exist, or several entities would get the same one.

    RETURNS: as `substituted`.
    """
    known = np.unique(words.sums)
    sums, names = [np.zeros(0, dtype=np.uint64)], [np.zeros(0, dtype=np.int64)]
    for word in hashed([stem(each) for each in DISEASES]):
        of = words.name[words.key == word]
        # Not the word alone.
        of = of[words.sums[of] != word]
        made = (words.sums[of] - word)[:, None] + GENERAL_KEYS
        sums.append(made.ravel())
        names.append(np.repeat(of, len(GENERAL_KEYS)))
    made, of = np.concatenate(sums), np.concatenate(names)
    new = ~is_in(made, known)
    made, of = made[new], of[new]
    order = np.lexsort((words.entities[of], made))
    made, of = made[order], of[order]
    is_first = first_of_same(made)
    is_other = first_of_same(made, words.entities[of]) & ~is_first
    shared = np.unique(made[is_other])
    kept = is_first & ~is_in(made, shared)
    return made[kept], of[kept]


def equal_words(words: NameWords) -> list[tuple[np.uint64, np.uint64]]:
    """Return the pairs of a word and one that replaces it, as keys."""
    order = np.argsort(words.key, kind="stable")
    keys = words.key[order]
    by_sum = np.argsort(words.sums, kind="stable")
    sums, entities = words.sums[by_sum], words.entities[by_sum]
    found = []
    fractions: dict[tuple[np.uint64, np.uint64], float] = {}
    for word, by in zip(*_pairs_in_synonyms(words), strict=True):
        of = words.name[order[_between(keys, word)]]
        of = of[words.sums[of] != word]
        made = words.sums[of] - word + by
        first = np.searchsorted(sums, made)
        n = np.searchsorted(sums, made, side="right") - first
        same = entities[ranges(first, n)] == np.repeat(words.entities[of], n)
        n_right = len(np.unique(np.repeat(np.arange(len(of)), n)[same]))
        fractions[word, by] = n_right / max(1, len(of))
        if n_right >= MIN_PRECISION * max(1, int(np.count_nonzero(n))):
            found.append((word, by))
    return [
        (word, by)
        for word, by in found
        if min(fractions[word, by], fractions[by, word]) >= WIDER_FRACTION
        or max(fractions[word, by], fractions[by, word]) < NARROWER_FRACTION
    ]


def _pairs_in_synonyms(words: NameWords) -> tuple[np.ndarray, np.ndarray]:
    """Return the words that replace each other in names of `MIN_ENTITIES` entities."""
    some = words.name < MAX_NAMES
    name, word = words.name[some], words.key[some]
    rest, entity = words.sums[name] - word, words.entities[name]
    asked = (rest != 0) & ~np.isin(word, _FUNCTION_WORDS)
    rest, entity, word = rest[asked], entity[asked], word[asked]
    order = np.lexsort((word, rest, entity))
    rest, entity, word = rest[order], entity[order], word[order]
    is_new = first_of_same(entity, rest)
    is_other = is_new | first_of_same(word)
    rest, entity, word = rest[is_other], entity[is_other], word[is_other]
    edges = [*np.flatnonzero(first_of_same(entity, rest)).tolist(), len(rest)]
    lefts, rights, owners = [], [], []
    for start, end in pairwise(edges):
        for left in range(start, end - 1):
            lefts += [word[left]] * (end - left - 1)
            rights += word[left + 1 : end].tolist()
            owners += [entity[left]] * (end - left - 1)
    left, right = np.array([lefts, rights], dtype=np.uint64)
    owner = np.array(owners, dtype=np.int64)
    order = np.lexsort((owner, right, left))
    left, right, owner = left[order], right[order], owner[order]
    is_pair = first_of_same(left, right)
    counted = is_pair | first_of_same(owner)
    counts = np.bincount((np.cumsum(is_pair) - 1)[counted], minlength=int(is_pair.sum()))
    left, right = left[is_pair][counts >= MIN_ENTITIES], right[is_pair][counts >= MIN_ENTITIES]
    return np.append(left, right), np.append(right, left)


def _between(keys: np.ndarray, key: np.uint64) -> slice:
    return slice(*(int(np.searchsorted(keys, key, side)) for side in ("left", "right")))


def is_in(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return which of the values (n,) are among the `known`, ascending (m,): (n,)."""
    if not len(known):
        return np.zeros(len(values), dtype=bool)
    at = np.searchsorted(known, values)
    return known[np.minimum(at, len(known) - 1)] == values
