"""Equivalents of words and of their beginnings, induced from the synonyms of entities: kidney,
renal, nephr-."""

import csv
import gzip
import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations
from math import ceil, log
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .groups import Groups, edges, ranges

# Links induced from open vocabularies, made by `experiments/lab word-links`.
SHARED = Path(__file__).parent / "word_links.tsv.gz"
# Entities and pairs of an entity's names that are read, which bound the time: a few seconds.
MAX_ENTITIES, MAX_PAIRS = 20_000, 30
# Longest names, in words, and most words by which two names without a common word differ.
MAX_NAME_WORDS, MAX_UNRELATED = 8, 5
# Iterations of IBM model 1, and the prior of a word that stands for nothing in the other name.
N_ITERATIONS, NULL = 6, 0.3
# Counts that are added, so that few pairs say little.
KEPT_PRIOR, REPLACED_PRIOR = 3.0, 1.0
# Weakest link, and most of them per word or beginning.
MIN_LINK, MAX_LINKS = 0.05, 12
# Links of words with a common beginning: its least length, in letters and as a fraction of either.
MIN_STEM, STEM_FRACTION, SAME_STEM = 5, 0.7, 0.6
# Beginnings, in letters; least words and entities that have one; how likely a word must be next to
# one, and how much likelier than elsewhere; the strength of the link to the likeliest.
BEGINNING, MIN_REST, MIN_COMPOUND = range(4, 10), 3, 7
MIN_WORDS, MIN_ENTITIES, MIN_PROBABILITY, MIN_LIFT, FULL_LIFT = 3, 4, 0.1, 5.0, 30.0
MAX_BEGINNING_LINKS, OF_BEGINNING = 6, 0.7
# Ends a beginning in a table.
BEGINS = "-"
Links = list[tuple[int, float]]


class WordLinks(NamedTuple):
    """Equivalents of words.

    links: of each word, by decreasing strength, without itself (n,).
    weights: of each word (n,): its inverse document frequency, averaged with those of the words
        that replace it, so that general words such as "disorder" weigh little.
    beginnings: links of beginnings.
    """

    links: list[Links]
    weights: np.ndarray
    beginnings: dict[str, Links]


class Alignment(NamedTuple):
    """Words that replace others in synonyms (k,): `target` replaces `source` with the
    `probability`, given that `source` is not kept. kept: probability that a word is kept (n,)."""

    source: np.ndarray
    target: np.ndarray
    probability: np.ndarray
    kept: np.ndarray


SharedLinks = Mapping[str, Sequence[tuple[str, float]]]


@cache
def shared_links() -> SharedLinks:
    """Return the links that ship, of words and of beginnings ("nephr-"), as `read_links`."""
    return read_links(SHARED)


def read_links(path: Path) -> SharedLinks:
    """Read the links of a table: word, its equivalent, strength."""
    found: dict[str, list[tuple[str, float]]] = {}
    with gzip.open(path, "rt", encoding="utf8", newline="") as file_:
        for word, other, strength in csv.reader(file_, delimiter="\t"):
            found.setdefault(word, []).append((other, float(strength)))
    return found


def link_words(
    words: Sequence[str],
    of_form: Groups,
    forms_of: Groups,
    shared: SharedLinks,
    max_entities: int = MAX_ENTITIES,
    parents: Groups | None = None,
) -> WordLinks:
    """Induce the links of `words`, ascending (n,), and add those that are `shared`.

    of_form: words of each surface form. forms_of: the forms of each entity that are its names.
    max_entities: number of entities that links are induced from. parents: of each entity; their
    words, too, stand next to beginnings.
    """
    n_entities = len(forms_of.edges) - 1
    form, owner = forms_of.take(np.arange(n_entities))
    word, index = of_form.take(form)
    own = _distinct(owner[index], word, n_entities)
    counts = np.bincount(own.values, minlength=len(words))
    idf = np.log((1 + n_entities) / (1 + counts))
    aligned = _align(_differences(_names(of_form, forms_of, max_entities)), len(words))
    links = _strongest(words, aligned)
    near = own
    if parents is not None:
        parent, child = parents.take(np.arange(n_entities))
        word, index = own.take(np.append(np.arange(n_entities), parent))
        near = _distinct(np.append(np.arange(n_entities), child)[index], word, n_entities)
    beginnings = _beginnings(words, own, near)
    number = {word: index for index, word in enumerate(words)}
    for word, others in shared.items():
        known = [(number[other], strength) for other, strength in others if other in number]
        if not known:
            continue
        if word.endswith(BEGINS):
            beginnings[word[: -len(BEGINS)]] = known
        elif word in number:
            both = {**dict(known), **dict(links[number[word]])}
            both |= {other: max(both[other], strength) for other, strength in known}
            links[number[word]] = _first(both, MAX_LINKS)
    weights = _weights(aligned, idf)
    for index in np.flatnonzero(counts == 0).tolist():
        # In no name: as much as the words that it stands for.
        if total := sum(strength for _, strength in links[index]):
            weights[index] = sum(weights[i] * strength for i, strength in links[index]) / total
    return WordLinks(links, weights, beginnings)


def _distinct(owner: np.ndarray, word: np.ndarray, n: int) -> Groups:
    """Return the distinct words of each of n owners."""
    width = int(word.max(initial=0)) + 1
    owners, words = np.divmod(np.unique(owner * width + word), width)
    return Groups(words, edges(np.bincount(owners, minlength=n)))


def _names(of_form: Groups, forms_of: Groups, max_entities: int) -> Iterator[list[frozenset[int]]]:
    """Yield the distinct names of entities with several, as sets of words."""
    several = np.flatnonzero(np.diff(forms_of.edges) > 1)
    for entity in several[:: max(1, -(-len(several) // max_entities))].tolist():
        names = {frozenset(of_form.at(form).tolist()): None for form in forms_of.at(entity)}
        kept = [name for name in names if 0 < len(name) <= MAX_NAME_WORDS]
        if len(kept) > 1:
            yield kept


class _Differences(NamedTuple):
    """Words of names that are not in a synonym: each word, the words of the synonym that are not in
    the name, and the weight of the pair; weights by which words are kept."""

    found: list[tuple[int, list[int], float]]
    kept: Counter[int]


def _differences(entities: Iterator[list[frozenset[int]]]) -> _Differences:
    draw = random.Random(0)
    found: list[tuple[int, list[int], float]] = []
    kept: Counter[int] = Counter()
    for names in entities:
        pairs = [*combinations(names, 2)]
        if len(pairs) > MAX_PAIRS:
            pairs = draw.sample(pairs, MAX_PAIRS)
        for one, other in pairs:
            common, left, right = one & other, sorted(one - other), sorted(other - one)
            if not common and len(left) + len(right) > MAX_UNRELATED:
                continue
            weight = len(pairs) ** -0.5 * (1.0 if common else 0.5)
            for word in common:
                kept[word] += 2 * weight
            found += [(word, right, weight) for word in left]
            found += [(word, left, weight) for word in right]
    return _Differences(found, kept)


def _align(differences: _Differences, n: int) -> Alignment:
    """Align each word with one of the words that may replace it, or with none (IBM model 1, Brown
    et al. 1993)."""
    found, kept_by = differences
    kept = np.zeros(n)
    kept[[*kept_by]] = [*kept_by.values()]
    asked = np.array([word for word, _, _ in found], dtype=np.int64)
    weight = np.array([weight for _, _, weight in found])
    lengths = np.array([len(others) for _, others, _ in found], dtype=np.int64)
    by = np.array([each for _, others, _ in found for each in others], dtype=np.int64)
    at = np.repeat(np.arange(len(found)), lengths)
    keys, pair = np.unique(by * max(1, n) + asked[at], return_inverse=True)
    target, source = np.divmod(keys, max(1, n))
    none = np.bincount(asked, weight, n) + 1e-9
    none /= none.sum() or 1
    given = 1 / np.maximum(np.bincount(target, minlength=n), 1)[target]
    counts = np.zeros(len(keys))
    for _ in range(N_ITERATIONS):
        likely = given[pair]
        nothing = NULL * none[asked]
        total = np.bincount(at, likely, len(found)) + nothing
        counts = np.bincount(pair, likely / total[at] * weight[at], len(keys))
        given = counts / (np.bincount(target, counts, n)[target] + 0.5)
        none = np.bincount(asked, nothing / total * weight, n) + 1e-9
        none /= none.sum() or 1
    replaced = np.bincount(asked, weight, n)
    probability = counts / (replaced[source] + REPLACED_PRIOR)
    seen = kept + replaced
    return Alignment(source, target, probability, (kept + KEPT_PRIOR) / (seen + KEPT_PRIOR))


def _strongest(words: Sequence[str], aligned: Alignment) -> list[Links]:
    """Return the strongest links of each word: the geometric mean of the probabilities that one
    replaces the other, or `SAME_STEM`."""
    source, target, probability, _ = aligned
    n = max(1, len(words))
    # Sorted by target and source, as `_align` numbers them.
    back = np.searchsorted(target * n + source, source * n + target)
    back[back == len(source)] = 0
    is_back = (source[back] == target) & (target[back] == source) if len(source) else back > 0
    strength = np.sqrt(probability * np.where(is_back, probability[back], 0))
    strong = np.flatnonzero(strength >= MIN_LINK)
    found: list[dict[int, float]] = [{} for _ in words]
    for one, other, value in zip(
        source[strong].tolist(), target[strong].tolist(), strength[strong].tolist(), strict=True
    ):
        found[one][other] = value
    for index, word in enumerate(words):
        for other in same_stem(words, word):
            if other != index:
                found[index][other] = max(found[index].get(other, 0.0), SAME_STEM)
    return [_first(each, MAX_LINKS) for each in found]


def same_stem(words: Sequence[str], word: str) -> list[int]:
    """Return the indices of the `words`, ascending, that begin as `word` does: cholestatic and
    cholestasis."""
    if len(word) < MIN_STEM or not word.isalpha():
        return []
    start = word[: max(MIN_STEM, ceil(STEM_FRACTION * len(word)))]
    found = []
    for index in range(bisect_left(words, start), len(words)):
        other = words[index]
        if not other.startswith(start):
            break
        if word.startswith(other[: ceil(STEM_FRACTION * len(other))]):
            found.append(index)
    return found


def _first(links: dict[int, float], n: int) -> Links:
    return sorted(links.items(), key=lambda link: (-link[1], link[0]))[:n]


def _weights(aligned: Alignment, idf: np.ndarray) -> np.ndarray:
    source, target, probability, kept = aligned
    n = len(idf)
    others = np.bincount(source, probability * idf[target], n)
    known = np.bincount(source, probability, n)
    # What replaces a word only rarely is worth half of it.
    rest = np.maximum(0, 1 - known) * idf / 2
    weights: np.ndarray = kept * idf + (1 - kept) * (others + rest)
    return weights


def _beginnings(words: Sequence[str], own: Groups, near: Groups) -> dict[str, Links]:
    """Return the words that entities with a word of a beginning have: nephr-, kidney.

    own: the words of each entity. near: with those of its parents.
    """
    counts, all_counts = (np.bincount(each.values, minlength=len(words)) for each in (own, near))
    having: defaultdict[str, list[int]] = defaultdict(list)
    for index, word in enumerate(words):
        if len(word) >= MIN_COMPOUND and word.isalpha():
            for length in BEGINNING:
                if length <= len(word) - MIN_REST:
                    having[word[:length]].append(index)
    order = np.argsort(own.values, kind="stable")
    owner = np.repeat(np.arange(len(own.edges) - 1), np.diff(own.edges))[order]
    starts = edges(counts)
    n_entities, found = len(own.edges) - 1, {}
    for beginning, indices in having.items():
        if len(indices) < MIN_WORDS:
            continue
        at = np.array(indices)
        entities = np.unique(owner[ranges(starts[at], counts[at])])
        if len(entities) < MIN_ENTITIES:
            continue
        others, n_near = np.unique(near.take(entities)[0], return_counts=True)
        probability = n_near / len(entities)
        lift = probability * n_entities / all_counts[others]
        kept = (n_near >= 3) & (probability >= MIN_PROBABILITY) & (lift > MIN_LIFT)
        value = probability * np.minimum(1, np.log(np.maximum(lift, 1)) / log(FULL_LIFT))
        links = {
            index: strength
            for index, strength in zip(others[kept].tolist(), value[kept].tolist(), strict=True)
            if not words[index].startswith(beginning[: BEGINNING[0]]) and len(words[index]) > 2
        }
        if links:
            best = _first(links, MAX_BEGINNING_LINKS)
            found[beginning] = [(one, OF_BEGINNING * each / best[0][1]) for one, each in best]
    return found
