"""Equivalents of words that ship, induced from the synonyms of open vocabularies."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from spacy_krissel.lexical.groups import Groups, edges
from spacy_krissel.lexical.ngrams import canonical_form
from spacy_krissel.lexical.word_links import BEGINS, MAX_NAME_WORDS, MIN_STEM, link_words
from spacy_krissel.lexical.words import words_of
from spacy_krissel.ontology.hierarchy import Hierarchy
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.atomic import atomic_file, check_file
from spacy_krissel.util.outputs import writes
from spacy_krissel.util.settings import PositiveInt, checked

# Weaker links are left out.
MIN_STRENGTH = 0.1


@writes("output")
@checked
def word_links(
    ontologies: Sequence[Path], output: Path, *, max_entities: PositiveInt = 200_000
) -> tuple[int, int]:
    """Induce the equivalents of words and of beginnings of words from synonyms, and write them.

    ontologies: Ontology stores; names with digits are left out
    output: The file to write (.tsv.gz)
    max_entities: Number of entities with synonyms that are read

    RETURNS: the numbers of links of words, and of beginnings. Raises KrisselError K026 (output),
    and those of `OntologyStore`.
    """
    check_file(output)
    numbers: dict[str, int] = {}
    names, parents = _names([OntologyStore(path) for path in ontologies], numbers)
    words = sorted(numbers)
    rank = {numbers[word]: index for index, word in enumerate(words)}
    forms = [sorted(rank[word] for word in form) for own in names for form in own]
    of_form = _groups(forms)
    starts = edges(np.array([*map(len, names)], dtype=np.int64))
    forms_of = Groups(np.arange(len(forms)), starts)
    linked = link_words(words, of_form, forms_of, {}, max_entities, parents)
    lines = [
        (word, words[other], strength)
        for word, links in zip(words, linked.links, strict=True)
        for other, strength in links
        if strength >= MIN_STRENGTH and word.isalpha() and words[other].isalpha()
        # Read from the words themselves where they are used.
        if not word.startswith(words[other][:MIN_STEM])
    ]
    n_words = len(lines)
    lines += [
        (beginning + BEGINS, words[other], strength)
        for beginning, links in sorted(linked.beginnings.items())
        for other, strength in links
        if strength >= MIN_STRENGTH and words[other].isalpha()
    ]
    text = "".join(f"{word}\t{other}\t{strength:.2f}\n" for word, other, strength in lines)
    with atomic_file(output) as temporary, temporary.open("wb") as raw:
        # Without a time stamp, so that the same links make the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as file_:
            file_.write(text.encode("utf8"))
    return n_words, len(lines) - n_words


def show_word_links(numbers: tuple[int, int], output: Path) -> str:
    return "{:,} links of words and {:,} of beginnings in {}".format(*numbers, output)


def _names(
    stores: Sequence[OntologyStore], numbers: dict[str, int]
) -> tuple[list[list[frozenset[int]]], Groups]:
    """Return the names of each entity as sets of words, whose numbers are added, and the rows of
    each entity's parents."""
    names: list[list[frozenset[int]]] = []
    parents: list[list[int]] = []
    for store in stores:
        first = len(names)
        names += [[] for _ in range(len(store))]
        for row, name, _ in store.names():
            words = words_of(canonical_form(name))
            if words and len(words) <= MAX_NAME_WORDS and not any(map(str.isdigit, name)):
                own = (numbers.setdefault(word, len(numbers)) for word in words)
                names[first + row].append(frozenset(own))
        hierarchy = Hierarchy(store)
        parents += [[first + up for up in hierarchy.parents(row)] for row in range(len(store))]
    return names, _groups(parents)


def _groups(lists: Sequence[Sequence[int]]) -> Groups:
    values = np.array([each for own in lists for each in own], dtype=np.int64)
    return Groups(values, edges(np.array([*map(len, lists)], dtype=np.int64)))
