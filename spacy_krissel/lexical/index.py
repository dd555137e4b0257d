"""Surface forms of entities, searched by lexical similarity."""

import threading
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..distributed.parts import in_parts
from ..index.protocol import Mask, Rows, Scores
from ..util.disk import damage
from .arrays import Arrays, lexical_arrays
from .groups import Groups, edges, in_lines, pair_keys, places_of, ranges, read_only
from .ngrams import Forms, Grams, Sparse, Spellings, hashed, to_unit_length

# Number of its rarest n-grams by which a text is looked up, as far as they stand in no more forms together; the rarest
# one in any case.
RAREST, POSTINGS = 8, 20_000
# Surface forms looked at per entity asked for, since several may be of one entity.
FORMS_PER_ENTITY = 4
# Texts, or pairs of a text and an entity, that are worth a thread.
MIN_PER_THREAD = 256
# The arrays, and what each has a value for; "+1" and one more.
LENGTHS = {
    "hashes": "form",
    "by_hash": "form",
    "grams": "gram",
    "frequencies": "gram",
    "idf": "gram",
    # The n-grams of each form, and the forms of each n-gram, with their weights.
    "form_starts": "form+1",
    "form_grams": "cell",
    "form_weights": "cell",
    "gram_starts": "gram+1",
    "gram_forms": "cell",
    "gram_weights": "cell",
    # The entities of each form; those that it is a name of; the forms of each entity.
    "form_entity_starts": "form+1",
    "form_entities": "pair",
    "name_entity_starts": "form+1",
    "name_entities": "name",
    "entity_form_starts": "entity+1",
    "entity_forms": "pair",
    # 1 where all of a form's writings are one word in capitals.
    "acronyms": "form",
    # Forms that entities write in several ways; each way, as a hash, with an entity.
    "written_forms": "written_form",
    "written_hashes": "writing",
    "written_entities": "writing",
    # Spellings, as hashes, each with a form of that spelling; 1 where its writings are symbols in capitals.
    "spelling_hashes": "spelling",
    "spelling_forms": "spelling",
    "spelling_symbols": "spelling",
}
FLOATS = ("idf", "form_weights", "gram_weights")
# Similarity of equal texts that are written in another way; that of texts with the same `spelling`; the
# highest of different ones; and that of a word in lower case with an acronym: "was" is hardly ever WAS.
CANONICAL, SPELT, DIFFERENT, LOWER_CASE = 0.99995, 0.99992, 0.9998, 0.9
# For the compiled loops, which tell "all" and "none" by it.
NO_MASK, NO_ROWS = np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64)
_OF_THREAD = threading.local()
# Bytes up to which an array is read and not mapped: each that is mapped keeps a file open, and processes may have few.
# Nor can what holds no value be mapped.
MOST_READ = 2**20


class Texts(NamedTuple):
    """Texts as queries to a `LexicalIndex`.

    vectors: TF-IDF vectors (n, n-grams), of unit length but for n-grams that no form has.
    forms: number of the surface form that each text is, -1 for none (n,).
    written: hash of the text as written where entities write the form in several ways, else 0 (n,).
    lower: is the text in lower case but for its first letter, and its form an acronym? (n,)
    spellings: of the texts.
    canonical: the texts in canonical form (n,), and hashes: of these (n,).
    """

    vectors: Sparse
    forms: Rows
    written: Rows
    lower: Mask
    spellings: Spellings
    canonical: list[str]
    hashes: Rows


class LexicalIndex:
    """The distinct surface forms of entities as TF-IDF vectors of character 3-grams.

    3-grams are taken inside the words of the canonical form (`canonical_form`), with a space on each
    side of a word. The similarity of a text with an entity is the cosine of the text and the nearest
    surface form of the entity, from 0 to 1. N-grams that no form has count in the norm of a text, as
    much as others do on average.

    The similarity is 1 if the text is a name of the entity, `CANONICAL` if it is one that other
    entities write as the text does and this one does not, `LOWER_CASE` if it is a word in lower case
    (its first letter may be a capital) and the form an acronym, and `DIFFERENT` at most if it is no name,
    but a guess or another text.

    scikit-learn's `TfidfVectorizer` gives the same cosines. It takes more than twice as long per text, and its import
    would take 0.7 s of the first link (`benchmarks/lexical_index.py`).

    arrays: as `lexical_arrays` makes them, in memory or mapped.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._read_only = {name: read_only(array) for name, array in arrays.items()}
        self._hashes, self._by_hash, self._grams = arrays["hashes"], arrays["by_hash"], arrays["grams"]
        self._frequencies, self._idf = arrays["frequencies"], arrays["idf"]
        self._of_form = Groups(arrays["form_entities"], arrays["form_entity_starts"])
        self._of_name = Groups(arrays["name_entities"], arrays["name_entity_starts"])
        self._of_entity = Groups(arrays["entity_forms"], arrays["entity_form_starts"])

    @classmethod
    def of(cls, forms: Sequence[str], entities: Rows, named: Mask | None = None) -> "LexicalIndex":
        """forms: surface forms. entities: the entity row of each, (len(forms),). Pairs may be repeated.
        named: which of these pairs are names of the entity and no guesses, (len(forms),); None: all."""
        return cls(lexical_arrays(forms.__getitem__, entities, named))

    def to_disk(self, directory: Path) -> None:
        directory.mkdir()
        for name, array in self._arrays.items():
            np.save(directory / f"{name}.npy", array, allow_pickle=False)

    @classmethod
    def from_disk(cls, directory: Path, n_entities: int) -> "LexicalIndex":
        """Read the files of `to_disk`, the large ones mapped. Raises ValueError where they do not fit together, or
        have forms of more than `n_entities`."""
        arrays: Arrays = {}
        lengths: dict[str, int] = {}
        for name, one_of in LENGTHS.items():
            path = directory / f"{name}.npy"
            with damage(path, partial(_damaged, path)):
                is_large = path.stat().st_size > MOST_READ
                arrays[name] = np.load(path, mmap_mode="r" if is_large else None, allow_pickle=False)
            one_of, _, more = one_of.partition("+")
            n = arrays[name].size - len(more)
            kind = "f" if name in FLOATS else "i"
            if arrays[name].ndim != 1 or arrays[name].dtype.kind != kind or lengths.setdefault(one_of, n) != n:
                problem = f"it has {arrays[name].shape} of {arrays[name].dtype}, which does not fit the other files"
                raise _damaged(path, problem)
        if lengths["entity"] > n_entities:
            problem = f"it has forms of {lengths['entity']} entities, of {n_entities}"
            raise _damaged(directory / "entity_form_starts.npy", problem)
        return cls(arrays)

    def read(self, texts: Sequence[str]) -> "Texts":
        """The texts as queries."""
        texts_forms = Forms.of(texts)
        canonical, written = texts_forms.canonical, texts_forms.written
        owners, keys, counts = Grams.of(canonical).counted()
        places = places_of(self._grams, keys)
        known = places >= 0
        own = edges(np.bincount(owners[known], minlength=len(texts)))
        shape = len(texts), len(self._grams)
        vectors = Sparse(counts[known].astype(np.float32), places[known], own, shape)
        unknown = (counts[~known] * self._mean_idf) ** 2
        to_unit_length(vectors, self._idf, np.bincount(owners[~known], unknown, len(texts)))
        hashes = hashed(canonical)
        spellings = Spellings.of_forms(texts_forms, hashes, texts)
        forms = places_of(self._hashes, hashes)
        if len(self._hashes):
            forms = np.where(forms >= 0, self._by_hash[forms], -1)
        several = places_of(self._arrays["written_forms"], forms) >= 0
        as_written = np.zeros_like(hashes)
        as_written[several] = hashed([written[i] for i in np.flatnonzero(several)])
        acronyms = np.zeros(len(forms), dtype=bool)
        if len(self._hashes):
            acronyms = (self._arrays["acronyms"][forms] > 0) & (forms >= 0)
        return Texts(vectors, forms, as_written, spellings.words & acronyms, spellings, canonical, hashes)

    def forms(self, texts: Sequence[str]) -> Rows:
        """The number of the surface form that each text is in canonical form, -1 for none: (len(texts),)."""
        return self.read(texts).forms

    def named(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """The entities with each text as a name, in canonical form, and for each the place of that text in `texts`,
        ascending."""
        return self._of_name.take(self.forms(texts))

    def spelt(self, spellings: Spellings) -> Groups:
        """Return the entities that have a name with each of the spellings, by the index of the spelling. A
        symbol in capitals is no word in lower case."""
        known, asked = self._arrays["spelling_hashes"], spellings.hashes
        starts, ends = (np.searchsorted(known, asked, side) for side in ("left", "right"))
        lengths = np.where(asked == 0, 0, ends - starts)
        places, owners = ranges(starts, lengths), np.repeat(np.arange(len(asked)), lengths)
        kept = ~(spellings.words[owners] & (self._arrays["spelling_symbols"][places] > 0))
        entities, form = self._of_name.take(self._arrays["spelling_forms"][places[kept]])
        owner = owners[kept][form]
        _, first = np.unique(pair_keys(owner, entities), return_index=True)
        return Groups.of(owner[first], entities[first])

    def vectors(self, texts: Sequence[str]) -> csr_matrix:
        """TF-IDF vectors of unit length at most: (len(texts), n-grams)."""
        return _csr(self.read(texts).vectors)

    def having(self, forms: Rows, k: int, allowed: Mask | None = None) -> Rows:
        """Up to `k` of the allowed entities with each of the `forms` (q,), -1 for none: rows (q, k), -1 padded; none of
        a form that is no entity's name, but a guess."""
        names = np.unique(self._of_name.take(forms)[1])
        entities, owner = self._of_form.take(forms[names])
        owner = names[owner]
        if allowed is not None:
            entities, owner = entities[allowed[entities]], owner[allowed[entities]]
        return in_lines(entities, owner, len(forms), k)

    def search(
        self, vectors: Sparse | csr_matrix, k: int, allowed: Mask | None = None, without: Rows | None = None
    ) -> Rows:
        """`k` entities that are lexically similar to each of the `vectors` (q, n-grams): rows (q, k), -1 padded.

        Approximate, and in no order: by the rarest n-grams of a text alone. allowed: a mask of entities. without (q,):
        a form that does not count for each of the `vectors`, -1 for none.
        """
        from . import kernel

        starts, grams, weights = _sparse(self._rarest(vectors))
        found = np.full((vectors.shape[0], k), -1, dtype=np.int64)
        postings = self._these("gram_starts", "gram_forms", "gram_weights")
        of_form = self._these("form_entity_starts", "form_entities")
        mask, hidden = NO_MASK if allowed is None else allowed, NO_ROWS if without is None else without

        def search(start: int, end: int) -> None:
            queries, own = (starts[start : end + 1], grams, weights), slice(start, end)
            zeros = _zeros(len(self._by_hash))
            kernel.search(queries, postings, of_form, mask, hidden[own], k * FORMS_PER_ENTITY, zeros, found[own])

        if k:
            in_parts(search, len(found), MIN_PER_THREAD)
        return found

    def _these(self, *names: str) -> tuple[np.ndarray, ...]:
        return tuple(self._read_only[name] for name in names)

    def similarity(self, texts: "Texts", queries: Rows, entities: Rows, without: Rows | None = None) -> Scores:
        """The similarity of text `queries[i]` with `entities[i]`: (n,), for pairs in the order of `queries`.

        without (texts,): a form that does not count for each of the texts, -1 for none.
        """
        result = self._cosines(texts.vectors, queries, entities, without)
        near = np.flatnonzero(result > DIFFERENT)
        forms = texts.forms[queries[near]]
        if without is not None:
            forms[forms == without[queries[near]]] = -1
        having, owner = self._of_name.take(forms)
        equal = np.zeros(len(near), dtype=bool)
        equal[owner[having == entities[near[owner]]]] = True
        lower = texts.lower[queries[near]]
        result[near] = np.where(equal, np.where(lower, LOWER_CASE, 1), DIFFERENT)
        # Of names that differ in accents alone, the one that is written as the text is.
        written = texts.written[queries[near]]
        several = near[equal & (written != 0) & ~lower]
        if len(several):
            asked = zip(texts.written[queries[several]].tolist(), entities[several].tolist(), strict=True)
            known = self._written_pairs
            is_written = np.array([pair in known for pair in asked])
            result[several[~is_written]] = CANONICAL
        return result

    @cached_property
    def _mean_idf(self) -> float:
        """Weight of an n-gram that no form has."""
        return float(self._idf.mean()) if len(self._idf) else 1.0

    @cached_property
    def _written_pairs(self) -> set[tuple[int, int]]:
        return set(zip(*(self._arrays[f"written_{each}"].tolist() for each in ("hashes", "entities")), strict=True))

    def _cosines(self, vectors: Sparse, queries: Rows, entities: Rows, without: Rows | None) -> Scores:
        forms = self._these("form_starts", "form_grams", "form_weights")
        return cosines(vectors, forms, self._these("entity_form_starts", "entity_forms"), queries, entities, without)

    def weighted_grams(self, canonical: Sequence[str]) -> tuple[Rows, Rows, np.ndarray]:
        """The different n-grams of texts in canonical form, and their TF-IDF weights, as `read` has them, but those
        that no form has as well: the text of each, its number (`Grams`) and its weight, in the order of both."""
        owners, keys, counts = Grams.of(canonical).counted()
        idf = np.full(len(keys), self._mean_idf)
        places = places_of(self._grams, keys)
        idf[places >= 0] = self._idf[places[places >= 0]]
        weights = counts * idf
        norms = np.sqrt(np.bincount(owners, weights**2, len(canonical)))
        return owners, keys, (weights / norms[owners]).astype(np.float32)

    def _rarest(self, vectors: Sparse | csr_matrix) -> Sparse:
        starts, lengths = vectors.indptr[:-1], np.diff(vectors.indptr)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        frequencies = self._frequencies[vectors.indices]
        order = np.lexsort((vectors.indices, frequencies, owner))
        rank = np.arange(len(order)) - np.repeat(starts, lengths)
        found = edges(frequencies[order])
        so_far = found[1:] - np.repeat(found[starts], lengths)
        kept = np.sort(order[(rank == 0) | ((rank < RAREST) & (so_far <= POSTINGS))])
        own = edges(np.bincount(owner[kept], minlength=len(lengths)))
        return Sparse(vectors.data[kept], vectors.indices[kept], own, vectors.shape)


def cosines(
    vectors: Sparse,
    forms: tuple[np.ndarray, ...],
    of_entity: tuple[np.ndarray, ...],
    queries: Rows,
    entities: Rows,
    without: Rows | None = None,
) -> Scores:
    """The cosine of `vectors[queries[i]]` with the nearest form of `entities[i]`: (n,), for pairs in the order of
    `queries`; 0 without any.

    vectors: of texts (q, n-grams). forms: the same of forms, as starts, columns and weights. of_entity: the forms of
    each entity, as starts and numbers. without (q,): a form that does not count for each text, -1 for none.
    """
    from . import kernel

    result = np.zeros(len(queries), dtype=np.float32)
    texts, hidden = _sparse(vectors), NO_ROWS if without is None else without

    def compare(start: int, end: int) -> None:
        pairs = queries[start:end], entities[start:end]
        kernel.similarities(vectors.shape[1], texts, forms, of_entity, *pairs, hidden, result[start:end])

    in_parts(compare, len(queries), MIN_PER_THREAD)
    return result


def _sparse(matrix: Sparse) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return matrix.indptr, matrix.indices, matrix.data


def _csr(matrix: Sparse) -> csr_matrix:
    return csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _zeros(n: int) -> np.ndarray:
    """This thread's zeros, n at least: to make those of millions of forms takes longer than to look up a few texts."""
    zeros: np.ndarray = getattr(_OF_THREAD, "zeros", np.zeros(0, dtype=np.float32))
    if len(zeros) < n:
        zeros = _OF_THREAD.zeros = np.zeros(n, dtype=np.float32)
    return zeros


def _damaged(path: Path, problem: object) -> ValueError:
    return ValueError(f"{path.name}: {problem}")
