"""A lexical index with an overlay of names that can be added and removed one by one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..index.protocol import Mask, Rows, Scores
from ..util.folding import is_capital_symbol
from .groups import Groups, edges, indices_of, pair_keys, read_only
from .index import CANONICAL, DIFFERENT, LOWER_CASE, LexicalIndex, Texts, cosines
from .ngrams import Forms, Sparse, Spellings, hashed


class _Name(NamedTuple):
    """A surface form as written.

    hash, form: hash and number of its canonical form. keys, weights: its n-grams.
    written, spelling: hashes, 0 for none.
    """

    hash: int
    form: int
    keys: Rows
    weights: np.ndarray
    written: int
    spelling: int
    is_symbol: bool
    is_acronym: bool


@dataclass(eq=False, slots=True)
class _Form:
    """A canonical form with added names.

    entities: counts of the hashes of written forms, by entity. n_words: number of names that are
        not acronyms.
    """

    keys: Rows
    weights: np.ndarray
    entities: dict[int, dict[int, int]] = field(default_factory=dict)
    n_words: int = 0


class OverlaidLexicalIndex(LexicalIndex):
    """The names of a `LexicalIndex`, plus names that can be added and removed.

    Adding or removing a name takes constant time, because n-gram weights are those of the base.
    `search` covers the names of the base only. Added names are found by `entities_with_forms` and
    `entities_with_spellings`, and count in `similarity`.

    base: is not changed. n_entities: number of entity rows. Not thread-safe.
    """

    def __init__(self, base: LexicalIndex, n_entities: int) -> None:
        super().__init__(base._arrays)
        # Capitals are informative only if some forms are acronyms.
        self._has_acronyms = bool(self._arrays["acronyms"].any())
        self._n_base = self._next = len(self._hashes)
        self._names: dict[str, _Name] = {}
        self._entities_of: Counter[str] = Counter()
        self._counts: Counter[tuple[str, int]] = Counter()
        self._forms: dict[int, _Form] = {}
        # Numbers of forms that the base lacks, by hash.
        self._numbers: dict[int, int] = {}
        # Forms of each entity, with the number of their names.
        self._forms_of: dict[int, dict[int, int]] = {}
        self._has = np.zeros(n_entities, dtype=bool)
        # By spelling and entity: the number of all names, and of names that are not symbols.
        self._by_spelling: dict[int, dict[int, list[int]]] = {}

    def add(self, names: Sequence[tuple[str, int]]) -> None:
        """Add pairs of a surface form and an entity row; a pair may be added several times."""
        self._read_names({text for text, _ in names if text not in self._names})
        for pair in names:
            self._counts[pair] += 1
            if self._counts[pair] == 1:
                self._count(*pair)

    def remove(self, names: Iterable[tuple[str, int]]) -> None:
        """Remove each pair once."""
        for pair in names:
            self._counts[pair] -= 1
            if not self._counts[pair]:
                del self._counts[pair]
                self._discount(*pair)

    def read(self, texts: Sequence[str], *, with_vectors: bool = True) -> Texts:
        read = super().read(texts, with_vectors=with_vectors)
        forms, lower = read.forms.copy(), read.lower.copy()
        for i, (form, hash_) in enumerate(zip(forms.tolist(), read.hashes.tolist(), strict=True)):
            number = form if form >= 0 else self._numbers.get(hash_, -1)
            if added := self._forms.get(number):
                forms[i] = number
                is_acronym = not added.n_words and (lower[i] if form >= 0 else self._has_acronyms)
                lower[i] = is_acronym and read.spellings.words[i]
        return read._replace(forms=forms, lower=lower)

    def entities_named(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        entities, owners = super().entities_named(texts)
        return self._with_added(entities, owners, self.forms(texts))

    def entities_with_forms(self, forms: Rows, k: int, allowed: Mask | None = None) -> Rows:
        """Return the result of the base, with entities of added names first: (len(forms), k)."""
        found = super().entities_with_forms(forms, k, allowed)
        for i, form in enumerate(forms.tolist()):
            if added := self._forms.get(form):
                ours = [
                    entity
                    for entity in sorted(added.entities)
                    if allowed is None or allowed[entity]
                ]
                both = [
                    *ours,
                    *(entity for entity in found[i].tolist() if entity >= 0 and entity not in ours),
                ]
                found[i] = [*both[:k], *[-1] * (k - len(both))]
        return found

    def entities_with_spellings(self, spellings: Spellings) -> Groups:
        base = super().entities_with_spellings(spellings)
        entities, owners = base.take(np.arange(len(spellings.hashes)))
        added = [
            (owner, entity)
            for owner, (spelling, is_word) in enumerate(
                zip(spellings.hashes.tolist(), spellings.words.tolist(), strict=True)
            )
            for entity, (_, n_words) in self._by_spelling.get(spelling, {}).items()
            if n_words or not is_word
        ]
        return Groups.of(*_distinct(entities, owners, added)[::-1]) if added else base

    def similarity(
        self, texts: Texts, queries: Rows, entities: Rows, without: Rows | None = None
    ) -> Scores:
        """Compute similarities that include added names. without: forms of the base to ignore."""
        result = super().similarity(texts, queries, entities, without)
        pairs = np.flatnonzero(self._has[entities])
        if not len(pairs):
            return result
        own = np.minimum(
            self._added_cosines(texts, queries[pairs], entities[pairs]), np.float32(DIFFERENT)
        )
        equal = self._added_equality(texts, queries[pairs], entities[pairs])
        result[pairs] = np.maximum(result[pairs], np.where(equal > 0, equal, own))
        return result

    def equality(self, texts: Texts, queries: Rows, entities: Rows) -> Scores:
        return np.maximum(
            super().equality(texts, queries, entities),
            self._added_equality(texts, queries, entities),
        )

    def _added_equality(self, texts: Texts, queries: Rows, entities: Rows) -> Scores:
        result = np.zeros(len(queries), dtype=np.float32)
        for i in np.flatnonzero(self._has[entities]).tolist():
            query, entity = int(queries[i]), int(entities[i])
            added = self._forms.get(int(texts.forms[query]))
            if added is not None and (written := added.entities.get(entity)):
                result[i] = 1 if texts.written[query] in (0, *written) else CANONICAL
                result[i] = LOWER_CASE if texts.lower[query] else result[i]
        return result

    def _added_cosines(self, texts: Texts, queries: Rows, entities: Rows) -> Scores:
        """Compute the cosine of each text with the nearest added form of the entity."""
        used, query = np.unique(queries, return_inverse=True)
        owners, keys, weights = self.weighted_grams([texts.canonical[i] for i in used])
        grams, columns = np.unique(keys, return_inverse=True)
        starts = edges(np.bincount(owners, minlength=len(used)))
        vectors = Sparse(weights, columns, starts, (len(used), len(grams)))
        different, entity = np.unique(entities, return_inverse=True)
        of_entity = [[*self._forms_of[each]] for each in different.tolist()]
        numbers = {
            number: i
            for i, number in enumerate(dict.fromkeys(n for each in of_entity for n in each))
        }
        forms = [self._forms[number] for number in numbers]
        owner = np.repeat(np.arange(len(forms)), [len(form.keys) for form in forms])
        positions = indices_of(grams, np.concatenate([form.keys for form in forms]))
        known = positions >= 0
        arrays: tuple[np.ndarray, ...] = (
            edges(np.bincount(owner[known], minlength=len(forms))).astype(np.int32),
            positions[known].astype(np.int32),
            np.concatenate([form.weights for form in forms])[known],
        )
        lists: tuple[np.ndarray, ...] = (
            edges(np.array([len(each) for each in of_entity], dtype=np.int64)),
            np.array([numbers[n] for each in of_entity for n in each], dtype=np.int32),
        )
        return cosines(
            vectors, tuple(map(read_only, arrays)), tuple(map(read_only, lists)), query, entity
        )

    def _with_added(self, entities: Rows, owners: Rows, forms: Rows) -> tuple[Rows, Rows]:
        added = [
            (owner, entity)
            for owner, form in enumerate(forms.tolist())
            if form in self._forms
            for entity in self._forms[form].entities
        ]
        return _distinct(entities, owners, added) if added else (entities, owners)

    def _read_names(self, texts: Iterable[str]) -> None:
        texts = [*texts]
        if not texts:
            return
        forms = Forms.of(texts)
        hashes, written = hashed(forms.canonical), hashed(forms.written)
        spellings = Spellings.of_forms(forms, hashes, texts).hashes
        numbers = indices_of(self._hashes, hashes)
        if self._n_base:
            numbers = np.where(numbers >= 0, self._by_hash[numbers], -1)
        owners, keys, weights = self.weighted_grams(forms.canonical)
        edges = np.searchsorted(owners, np.arange(len(texts) + 1))
        for i, text in enumerate(texts):
            number = int(numbers[i])
            if number < 0:
                number = self._numbers.get(int(hashes[i]), -1)
            if number < 0:
                number = self._numbers[int(hashes[i])] = self._next
                self._next += 1
            part = slice(edges[i], edges[i + 1])
            known = self._forms.get(number)
            self._names[text] = _Name(
                int(hashes[i]),
                number,
                keys[part].copy() if known is None else known.keys,
                weights[part].copy() if known is None else known.weights,
                int(written[i]),
                int(spellings[i]),
                is_capital_symbol(text),
                text.isupper() and text.isalpha(),
            )

    def _count(self, text: str, entity: int) -> None:
        name = self._names[text]
        self._entities_of[text] += 1
        # Forms without n-grams are skipped, as in the base.
        if not len(name.keys):
            return
        form = self._forms.get(name.form)
        if form is None:
            form = self._forms[name.form] = _Form(name.keys, name.weights)
        _increment(form.entities, entity, name.written)
        form.n_words += not name.is_acronym
        _increment(self._forms_of, entity, name.form)
        self._has[entity] = True
        if name.spelling:
            counts = self._by_spelling.setdefault(name.spelling, {}).setdefault(entity, [0, 0])
            counts[0] += 1
            counts[1] += not name.is_symbol

    def _discount(self, text: str, entity: int) -> None:
        name = self._names[text]
        if len(name.keys):
            form = self._forms[name.form]
            _decrement(form.entities, entity, name.written)
            form.n_words -= not name.is_acronym
            if not form.entities:
                del self._forms[name.form]
            _decrement(self._forms_of, entity, name.form)
            self._has[entity] = entity in self._forms_of
            if name.spelling:
                counts = self._by_spelling[name.spelling][entity]
                counts[0] -= 1
                counts[1] -= not name.is_symbol
                if not counts[0]:
                    del self._by_spelling[name.spelling][entity]
                    if not self._by_spelling[name.spelling]:
                        del self._by_spelling[name.spelling]
        self._entities_of[text] -= 1
        if not self._entities_of[text]:
            del self._entities_of[text], self._names[text]
            if name.form not in self._forms:
                self._numbers.pop(name.hash, None)


def _increment(counters: dict[int, dict[int, int]], key: int, value: int) -> None:
    """Increment a counter."""
    counts = counters.setdefault(key, {})
    counts[value] = counts.get(value, 0) + 1


def _decrement(counters: dict[int, dict[int, int]], key: int, value: int) -> None:
    """Decrement a counter, and delete counters that reach zero."""
    counters[key][value] -= 1
    if not counters[key][value]:
        del counters[key][value]
        if not counters[key]:
            del counters[key]


def _distinct(entities: Rows, owners: Rows, added: Sequence[tuple[int, int]]) -> tuple[Rows, Rows]:
    """Merge the `added` pairs (owner, entity) into the entities and their owners; each pair once,
    in order.
    """
    more = np.array(added, dtype=np.int64)
    owners, entities = np.append(owners, more[:, 0]), np.append(entities, more[:, 1])
    _, first = np.unique(pair_keys(owners, entities), return_index=True)
    return entities[first], owners[first]
