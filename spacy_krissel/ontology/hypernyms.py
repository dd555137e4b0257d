"""Induced hypernym names: words shared by the names of the members of a class."""

from array import array
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import accumulate

import numpy as np

from ..util.folding import fold_name
from .hierarchy import Hierarchy
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
    """Find words that name a class of entities although no entity has this name, with the row of
    that class.

    Text says "nephropathy" for Kidney Diseases, which lack this name; but IgA nephropathy, diabetic
    nephropathy and seven more are below them in the hierarchy, and few elsewhere. Candidates are
    folded words of five characters or more that are not a whole name. A word names the smallest
    class (an entity with its descendants by tree numbers, or by parents if an entity has no tree
    number) with most of the entities that have the word in a name. If m of n such entities with a
    position in the hierarchy are in the class, the lower bound of Wilson's interval for m / n, at
    one standard error, must be above `coverage`.

    min_entities: the minimum m.
    own_coverage: replaces `coverage` if the class itself has the word in a name, as Angina Pectoris
        does for "angina"; then two entities are enough.
    largest: the maximum size of a class, as a fraction of the entities with a position in the
        hierarchy.

    The defaults are tuned on the training splits of NCBI Disease and BC5CDR's diseases. Takes 8
    bytes of memory per word of each name, and 4 per pair of an entity and an ancestor.
    """
    classes = _classes(store)
    if not any(classes):
        # Genes have no hierarchy, and more than a million names.
        return {}
    sizes = Counter(above for each in classes for above in each)
    limit = largest * sum(map(bool, classes))
    found = {}
    for word, rows in _rows_by_word(store):
        rows = [row for row in rows if classes[row]]
        candidates = []
        for above, m in Counter(above for row in rows for above in classes[row]).items():
            enough, least = (2, own_coverage) if above in rows else (min_entities, coverage)
            if m >= enough and sizes[above] <= limit and _lower_bound(m, len(rows)) >= least:
                # Prefer the smallest class, then the one with more of the entities, then the first.
                candidates.append((sizes[above], -m, above))
        if candidates and not store.find(word):
            found[word] = min(candidates)[2]
    return found


def _classes(store: OntologyStore) -> list[Collection[int]]:
    """Return, per row, the rows of all entities at or above it in the hierarchy; none if it has no
    position.
    """
    row_by_number: dict[str, int] = {}
    for row, numbers in enumerate(store.each("tree_numbers")):
        for number in numbers:
            row_by_number.setdefault(number, row)
    hierarchy = Hierarchy(store, by_numbers=False)
    return [
        {
            row_by_number[each]
            for n in numbers
            for each in accumulate(n.split("."), "{}.{}".format)
            if each in row_by_number
        }
        if numbers
        else array("I", hierarchy.ancestors(row))
        for row, numbers in enumerate(store.each("tree_numbers"))
    ]


def _rows_by_word(store: OntologyStore) -> Iterator[tuple[str, list[int]]]:
    """Yield every folded word of the names, with the distinct rows of the entities that have it in
    a name.
    """
    numbers: dict[str, int] = {}
    words, rows = array("I"), array("I")
    for row, name, _ in store.names():
        for word in fold_name(name).split():
            if len(word) >= MIN_CHARS and not word.isdigit():
                words.append(numbers.setdefault(word, len(numbers)))
                rows.append(row)
    n_rows = max(len(store), 1)
    pairs = np.unique(np.array(words, dtype=np.int64) * n_rows + np.array(rows, dtype=np.int64))
    starts = np.searchsorted(pairs, np.arange(1, len(numbers)) * n_rows)
    for word, group in zip(numbers, np.split(pairs % n_rows, starts), strict=False):
        yield word, group.tolist()


def _lower_bound(m: int, n: int) -> float:
    """Compute the lower bound of Wilson's interval for a fraction m / n, at one standard error."""
    fraction = m / n
    spread = ((fraction * (1 - fraction) + 1 / (4 * n)) / n) ** 0.5
    return (fraction + 1 / (2 * n) - spread) / (1 + 1 / n)
