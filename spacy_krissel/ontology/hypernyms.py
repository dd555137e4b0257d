"""Induced hypernym names: words that the names of the members of a class share."""

from array import array
from collections import Counter
from collections.abc import Iterator

import numpy as np

from .folding import fold_name
from .store import OntologyStore

# Shorter words are rarely more than a particle, a number or a letter of a type.
MIN_CHARS = 5


def class_names(
    store: OntologyStore,
    *,
    min_entities: int = 3,
    coverage: float = 0.6,
    own_coverage: float = 0.5,
    largest: float = 0.07,
) -> dict[str, int]:
    """Words that name a class of entities although no entity has this name, with the row of that class.

    Text says "nephropathy" for Kidney Diseases, which is no name of theirs; but IgA nephropathy, diabetic
    nephropathy and seven more are below them in the hierarchy, and few are elsewhere. A word, folded, of five
    characters or more, that is not a whole name, names the smallest class (an entity, with all that are below it by
    tree numbers) that most of the entities with this word in a name belong to: of n such entities that have a place
    in the hierarchy, m are in the class, and the lower bound of Wilson's interval for m / n, of one standard error, is
    above `coverage`.

    min_entities: the minimum m.
    own_coverage: in place of `coverage` where the class has the word in a name of its own, as Angina Pectoris does
        for "angina"; then two entities are enough.
    largest: the largest class, as a fraction of the entities with a position in the hierarchy.

    The defaults are chosen by the training splits of NCBI Disease and BC5CDR's diseases. In memory are 8 bytes for each
    word of each name.
    """
    classes = _classes(store)
    sizes = Counter(above for each in classes for above in each)
    limit = largest * sum(map(bool, classes))
    found = {}
    for word, rows in _rows_by_word(store):
        rows = [row for row in rows if classes[row]]
        members = Counter(above for row in rows for above in classes[row])
        best: tuple[int, int, int] | None = None
        for above, m in members.items():
            own = above in rows
            enough = 2 if own else min_entities
            if m >= enough and sizes[above] <= limit:
                if _lower_bound(m, len(rows)) >= (own_coverage if own else coverage):
                    # Of classes of one size, the one with more of the entities, and then the first.
                    best = min(best or (sizes[above], -m, above), (sizes[above], -m, above))
        if best is not None and not store.find(word):
            found[word] = best[2]
    return found


def _classes(store: OntologyStore) -> list[set[int]]:
    """For every row, the rows of all entities at or above it in the hierarchy; none where it has no tree number."""
    places: dict[str, int] = {}
    numbers = [entity.tree_numbers for entity in store]
    for row, each in enumerate(numbers):
        for number in each:
            places.setdefault(number, row)
    return [{places[above] for number in each for above in _prefixes(number) if above in places} for each in numbers]


def _prefixes(number: str) -> Iterator[str]:
    parts = number.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _rows_by_word(store: OntologyStore) -> Iterator[tuple[str, list[int]]]:
    """Every word of the names, folded, with the rows of the entities that have it in a name, each once."""
    numbers: dict[str, int] = {}
    words, rows = array("I"), array("I")
    for row, name, _ in store.names():
        for word in fold_name(name).split():
            if len(word) >= MIN_CHARS and not word.isdigit():
                words.append(numbers.setdefault(word, len(numbers)))
                rows.append(row)
    pairs = np.unique(np.array(words, dtype=np.int64) * max(len(store), 1) + np.array(rows, dtype=np.int64))
    ends = np.searchsorted(pairs, np.arange(1, len(numbers) + 1) * max(len(store), 1))
    start = 0
    for word, end in zip(numbers, ends.tolist(), strict=True):
        yield word, (pairs[start:end] % max(len(store), 1)).tolist()
        start = end


def _lower_bound(m: int, n: int) -> float:
    """Of Wilson's interval for a share m / n, at one standard error."""
    share = m / n
    spread = ((share * (1 - share) + 1 / (4 * n)) / n) ** 0.5
    return (share + 1 / (2 * n) - spread) / (1 + 1 / n)
