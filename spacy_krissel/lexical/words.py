"""Similarity of texts and names by their words, their induced equivalents, and parts of words."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from ..index.protocol import Rows, Scores
from ..util.compiled import in_parts
from ..util.stems import stem
from .groups import Groups, edges
from .word_links import (
    BEGINNING,
    MIN_COMPOUND,
    MIN_REST,
    SAME_STEM,
    Links,
    SharedLinks,
    link_words,
    same_stem,
)

# Words of names that say nothing.
SKIPPED = frozenset(["a", "an", "and", "by", "due", "for", "in", "nos", "of", "or"]) | {
    *("the", "to", "with")
}
# Words of names beyond which none are kept.
MAX_WORDS = 1 << 20
# Number of read words at which all are forgotten.
MAX_KNOWN = 1 << 18
# Pairs of a text and an entity that are worth a thread.
MIN_PER_THREAD = 256
# Where this fraction of names have a digit (genes, chemicals, cell lines), another number or order
# of words is another name.
MANY_DIGITS = 0.2
Arrays = dict[str, np.ndarray]
# The arrays, and what each has a value for, as in `LexicalIndex`.
LENGTHS = {
    "word_chars": "word_char",
    "word_starts": "word+1",
    "word_weights": "word",
    "word_unknown": "word_unknown",
    "word_form_starts": "worded_form+1",
    "word_forms": "word_of_form",
    "word_link_starts": "word+1",
    "word_links": "word_link",
    "word_strengths": "word_link",
    "beginning_chars": "beginning_char",
    "beginning_starts": "beginning+1",
    "beginning_link_starts": "beginning+1",
    "beginning_links": "beginning_link",
    "beginning_strengths": "beginning_link",
}
FLOATS = ("word_weights", "word_unknown", "word_strengths", "beginning_strengths")


def words_of(canonical: str) -> list[str]:
    """Return the distinct stems of the words of a text in canonical form."""
    return [*dict.fromkeys(stem(word) for word in canonical.split() if word not in SKIPPED)]


class WordForms:
    """Words of surface forms, collected in blocks. None are kept if many forms have digits, or if
    there are more than `MAX_WORDS` words."""

    def __init__(self) -> None:
        self._of_word: dict[str, int] = dict.fromkeys(SKIPPED, -1)
        self._numbers: dict[str, int] = {}
        self._words = [np.zeros(0, dtype=np.int32)]
        self._sizes = [np.zeros(0, dtype=np.int64)]
        self._n = self._n_digits = 0
        self._is_off = False

    def add(self, canonical: Sequence[str]) -> None:
        """Add forms, in canonical form."""
        self._n += len(canonical)
        self._n_digits += sum(any(map(str.isdigit, text)) for text in canonical)
        if self._n_digits >= MANY_DIGITS * self._n or len(self._numbers) > MAX_WORDS:
            self._is_off = True
            self._of_word, self._words = {}, []
        if self._is_off:
            return
        own = [sorted({self._number(word) for word in text.split()} - {-1}) for text in canonical]
        self._sizes.append(np.array([*map(len, own)], dtype=np.int64))
        self._words.append(np.array([*chain.from_iterable(own)], dtype=np.int32))

    def _number(self, word: str) -> int:
        number = self._of_word.get(word)
        if number is None:
            number = self._numbers.setdefault(stem(word), len(self._numbers))
            self._of_word[word] = number
        return number

    def of(self, rows: Rows, shared: SharedLinks) -> tuple[list[str], Groups]:
        """Return the distinct words, ascending, with those that `shared` links link to one; and the
        words of the forms that were added in these `rows`."""
        if self._is_off:
            return [], Groups(np.zeros(0, dtype=np.int64), np.zeros(1, dtype=np.int64))
        # With the words that no name has, but for which a word of a name stands.
        others = (
            word
            for word, links in shared.items()
            if word.isalpha() and any(other in self._numbers for other, _ in links)
        )
        words = sorted({*self._numbers, *others})
        number = {word: index for index, word in enumerate(words)}
        rank = np.array([number[word] for word in self._numbers], dtype=np.int64)
        added = Groups(rank[np.concatenate(self._words)], edges(np.concatenate(self._sizes)))
        values, owner = added.take(rows)
        return words, Groups(values, edges(np.bincount(owner, minlength=len(rows))))


def word_arrays(
    words: Sequence[str], of_form: Groups, forms_of: Groups, shared: SharedLinks
) -> Arrays:
    """Build the arrays of `Words`, by the names of their files.

    words: ascending. of_form: words of each surface form. forms_of: the forms of each entity that
    are its names.
    """
    linked = link_words(words, of_form, forms_of, shared)
    n_entities = len(forms_of.edges) - 1
    beginnings = sorted(linked.beginnings)
    arrays: Arrays = {
        "word_weights": linked.weights.astype(np.float32),
        # Of a word that is in no name.
        "word_unknown": np.full(1, np.log(1 + n_entities), dtype=np.float32),
        "word_form_starts": of_form.edges,
        "word_forms": of_form.values.astype(np.int32),
    }
    for name, texts, links in (
        ("word", words, linked.links),
        ("beginning", beginnings, [linked.beginnings[each] for each in beginnings]),
    ):
        chars = [text.encode() for text in texts]
        arrays[f"{name}_chars"] = np.frombuffer(b"".join(chars), dtype=np.int8)
        arrays[f"{name}_starts"] = edges(np.array([*map(len, chars)], dtype=np.int64))
        arrays[f"{name}_link_starts"] = edges(np.array([*map(len, links)], dtype=np.int64))
        flat = [link for each in links for link in each]
        arrays[f"{name}_links"] = np.array([other for other, _ in flat], dtype=np.int32)
        arrays[f"{name}_strengths"] = np.array([value for _, value in flat], dtype=np.float32)
    return arrays


class Unit(NamedTuple):
    """A word of a text, or a part of it: its weight, and the words of names that it stands for,
    with strengths from 0 to 1."""

    weight: float
    words: list[int]
    strengths: list[float]


class Words:
    """Words of surface forms, and their equivalents.

    The similarity of a text and a name is the product of two fractions, both weighted
    (`WordLinks.weights`): of the text's words that words of the name stand for, and of the name's
    words that words of the text stand for. A word that is in no name stands for those with the same
    stem, or else is read as a beginning and a rest: nephro-toxicity.

    arrays: as returned by `word_arrays`.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._arrays = arrays
        self._known: dict[str, list[Unit]] = {}

    def __bool__(self) -> bool:
        return len(self._arrays["word_weights"]) > 0

    @cached_property
    def words(self) -> list[str]:
        """The distinct words, ascending."""
        return self._texts("word")

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @cached_property
    def _beginnings(self) -> dict[str, int]:
        return {each: number for number, each in enumerate(self._texts("beginning"))}

    def _texts(self, name: str) -> list[str]:
        data = self._arrays[f"{name}_chars"].tobytes()
        starts = self._arrays[f"{name}_starts"].tolist()
        return [data[start:end].decode() for start, end in pairwise(starts)]

    def _links(self, name: str, number: int) -> Links:
        starts = self._arrays[f"{name}_link_starts"]
        part = slice(int(starts[number]), int(starts[number + 1]))
        links, strengths = (self._arrays[f"{name}_{each}"][part] for each in ("links", "strengths"))
        return [*zip(links.tolist(), strengths.tolist(), strict=True)]

    def like(self, word: str) -> list[tuple[str, list[tuple[str, float]]]]:
        """Return a word, in canonical form, or the parts that it is read as, each with the words
        of names that it stands for and their strengths, strongest first."""
        stemmed = stem(word)
        found = []
        for part, unit in self._read(stemmed):
            links = zip(unit.words, unit.strengths, strict=True)
            named = [(self.words[number], value) for number, value in links]
            found.append((part, sorted(named, key=lambda link: -link[1])))
        return found

    def units(self, canonical: str) -> list[Unit]:
        """Return the words of a text in canonical form, as `Words` reads them."""
        if len(self._known) > MAX_KNOWN:
            self._known = {}
        found: list[Unit] = []
        for word in dict.fromkeys(canonical.split()):
            own = self._known.get(word)
            if own is None:
                own = [] if word in SKIPPED else [unit for _, unit in self._read(stem(word))]
                self._known[word] = own
            found += own
        return found

    def _read(self, word: str) -> list[tuple[str, Unit]]:
        """Return the parts of a stem: itself, or a beginning and the rest."""
        number = self._numbers.get(word)
        weights = self._arrays["word_weights"]
        if number is not None:
            return [(word, _unit(weights[number], [(number, 1.0), *self._links("word", number)]))]
        unknown = float(self._arrays["word_unknown"][0])
        same = [(other, SAME_STEM) for other in same_stem(self.words, word)]
        beginning = self._beginning(word)
        if same or not beginning:
            return [(word, _unit(unknown, same))]
        links = self._links("beginning", self._beginnings[beginning])
        total = sum(strength for _, strength in links)
        weight = sum(strength * float(weights[other]) for other, strength in links) / total
        # The vowel between may be a part of either: cardi-o-myopathy.
        for start in range(len(beginning) - 1, len(word) - MIN_REST + 1):
            if word[start:] in self._numbers:
                return [(f"{beginning}-", _unit(weight, links)), *self._read(word[start:])]
        return [(f"{beginning}-", _unit(unknown, links))]

    def _beginning(self, word: str) -> str:
        if len(word) < MIN_COMPOUND or not word.isalpha():
            return ""
        known = (word[:length] for length in reversed(BEGINNING))
        return next((each for each in known if each in self._beginnings), "")

    def similarity(
        self,
        canonical: Sequence[str],
        queries: Rows,
        entities: Rows,
        of_entity: tuple[Rows, Rows, Rows],
        without: Rows | None = None,
    ) -> Scores:
        """Compute the similarity of text `queries[i]` with `entities[i]`, the highest of the
        entity's forms: (n,), from 0 to 1, for pairs in the order of `queries`.

        canonical: the texts in canonical form. of_entity: the forms of each entity: starts, ends,
        form indices. without: as in `LexicalIndex.similarity`.
        """
        from . import word_kernel

        found = np.zeros(len(queries), dtype=np.float32)
        if not self:
            return found
        read = [self.units(text) for text in canonical]
        flat = [unit for own in read for unit in own]
        sizes = np.array([len(own) for own in read], dtype=np.int64)
        lengths = np.array([len(unit.words) for unit in flat], dtype=np.int64)
        texts = (
            edges(sizes),
            np.array([unit.weight for unit in flat], dtype=np.float32),
            edges(lengths),
            np.array([word for unit in flat for word in unit.words], dtype=np.int64),
            np.array([each for unit in flat for each in unit.strengths], dtype=np.float32),
        )
        names = ("word_form_starts", "word_forms", "word_weights")
        forms = tuple(self._arrays[name] for name in names)
        hidden = np.zeros(0, dtype=np.int64) if without is None else without

        def compare(start: int, end: int) -> None:
            pairs = queries[start:end], entities[start:end]
            word_kernel.similarities(texts, forms, of_entity, *pairs, hidden, found[start:end])

        in_parts(compare, len(queries), MIN_PER_THREAD)
        return found


def _unit(weight: float, links: Links) -> Unit:
    return Unit(float(weight), [word for word, _ in links], [value for _, value in links])
