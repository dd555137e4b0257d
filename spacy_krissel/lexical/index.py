"""Surface forms of entities, searched by lexical similarity."""

import threading
from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..index.protocol import Mask, Rows, Scores, read_only
from ..util.compiled import in_parts
from ..util.disk import coded_damage
from .arrays import Arrays, lexical_arrays
from .groups import Groups, edges, indices_of, pad_groups, pair_keys, ranges
from .ngrams import Counted, Forms, Grams, Sparse, Spellings, hashed, to_unit_length

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

# Number of its rarest n-grams by which a text is looked up, as far as they stand in no more forms
# together; the rarest one in any case.
MAX_RAREST, MAX_POSTINGS = 8, 20_000
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
    # The n-grams of each form, and the forms of each n-gram, with weights.
    "form_starts": "form+1",
    "form_grams": "cell",
    "form_weights": "cell",
    "gram_starts": "gram+1",
    "gram_forms": "cell",
    "gram_weights": "cell",
    # The entities of each form; the entities that have the form as a name; the forms of each
    # entity, its names first, and the end of these.
    "form_entity_starts": "form+1",
    "form_entities": "pair",
    "name_entity_starts": "form+1",
    "name_entities": "name",
    "entity_form_starts": "entity+1",
    "entity_name_ends": "entity",
    "entity_forms": "pair",
    # 1 where all names with a form are one word in capitals.
    "acronyms": "form",
    # Forms that entities write in several ways: each way as a hash, with an entity.
    "written_forms": "written_form",
    "written_hashes": "writing",
    "written_entities": "writing",
    # Hashes of spellings, each with a form of that spelling; 1 where all its names are symbols
    # in capitals.
    "spelling_hashes": "spelling",
    "spelling_forms": "spelling",
    "spelling_symbols": "spelling",
}
FLOATS = ("idf", "form_weights", "gram_weights")
# Similarities of equal texts that are written differently; of texts with the same spelling; of
# different texts (maximum); and of a lower-case word with an acronym ("was" rarely means WAS).
CANONICAL, SAME_SPELLING, DIFFERENT, LOWER_CASE = 0.99995, 0.99992, 0.9998, 0.9
# Empty arrays, which mean "all" and "none" in the compiled loops.
NO_MASK, NO_ROWS = np.zeros(0, dtype=bool), np.zeros(0, dtype=np.int64)
_OF_THREAD = threading.local()
# Maximum size in bytes of an array that is read instead of mapped: each mapped array keeps a file
# open, and open files are limited. Empty files cannot be mapped.
MAX_READ_BYTES = 2**20


class Texts(NamedTuple):
    """Texts as queries to a `LexicalIndex`.

    vectors: TF-IDF vectors (n, n-grams), of unit length except for n-grams that occur in no form.
    forms: index of the surface form equal to each text, -1 for none (n,).
    written: hash of the text as written if entities write the form in several ways, else 0 (n,).
    lower: mask of texts in lower case (the first letter may be a capital) whose form is an acronym
        (n,).
    spellings: of the texts.
    canonical: the texts in canonical form (n,). hashes: of the canonical forms (n,). grams: their
        n-grams, as `Grams.counted` returns them.
    """

    vectors: Sparse
    forms: Rows
    written: Rows
    lower: Mask
    spellings: Spellings
    canonical: list[str]
    hashes: Rows
    grams: Counted


class LexicalIndex:
    """Index of the distinct surface forms of entities as TF-IDF vectors of character 3-grams.

    3-grams are taken inside the words of the canonical form (`canonical_form`), with a space on
    each side of a word. The similarity of a text with an entity is the cosine of the text and the
    nearest surface form of the entity, from 0 to 1. An n-gram that occurs in no form adds to the
    norm of a text as much as an average one.

    The similarity is 1 if the text is a name of the entity. It is `CANONICAL` if only other
    entities write the name as the text does, and `LOWER_CASE` if the text is a lower-case word (the
    first letter may be a capital) and the form is an acronym. It is at most `DIFFERENT` if the text
    is no name of the entity.

    scikit-learn's `TfidfVectorizer` gives the same cosines, but takes more than twice as long per
    text, and its import adds 0.7 s to the first link (`benchmarks/lexical_index.py`).

    arrays: as returned by `lexical_arrays`, in memory or mapped.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._read_only = {name: read_only(array) for name, array in arrays.items()}
        self._hashes, self._by_hash, self._grams = (
            arrays["hashes"],
            arrays["by_hash"],
            arrays["grams"],
        )
        self._frequencies, self._idf = arrays["frequencies"], arrays["idf"]
        self._of_form = Groups(arrays["form_entities"], arrays["form_entity_starts"])
        self._of_name = Groups(arrays["name_entities"], arrays["name_entity_starts"])

    @classmethod
    def of(
        cls, forms: Sequence[str], entities: Rows, is_name: Mask | None = None
    ) -> "LexicalIndex":
        """Build an index of surface forms.

        forms: the surface forms. entities: the entity row of each, (len(forms),). Pairs may be
            repeated.
        is_name: mask of the pairs that are names of the entity, not guesses, (len(forms),); None:
            all.
        """
        return cls(lexical_arrays(forms.__getitem__, entities, is_name))

    def to_disk(self, directory: Path) -> None:
        directory.mkdir()
        for name, array in self._arrays.items():
            np.save(directory / f"{name}.npy", array, allow_pickle=False)

    @classmethod
    def from_disk(cls, directory: Path, n_entities: int) -> "LexicalIndex":
        """Read the files of `to_disk`; large ones are mapped.

        Raises ValueError if the files do not fit together, or hold forms of more than `n_entities`.
        """
        arrays: Arrays = {}
        lengths: dict[str, int] = {}
        for name, one_of in LENGTHS.items():
            path = directory / f"{name}.npy"
            with coded_damage(path, partial(_damaged, path)):
                is_large = path.stat().st_size > MAX_READ_BYTES
                arrays[name] = np.load(
                    path, mmap_mode="r" if is_large else None, allow_pickle=False
                )
            one_of, _, more = one_of.partition("+")
            n = arrays[name].size - len(more)
            kind = "f" if name in FLOATS else "i"
            if (
                arrays[name].ndim != 1
                or arrays[name].dtype.kind != kind
                or lengths.setdefault(one_of, n) != n
            ):
                problem = (
                    f"it has {arrays[name].shape} of {arrays[name].dtype}, which does not fit the "
                    "other files"
                )
                raise _damaged(path, problem)
        if lengths["entity"] > n_entities:
            problem = f"it has forms of {lengths['entity']} entities, of {n_entities}"
            raise _damaged(directory / "entity_form_starts.npy", problem)
        return cls(arrays)

    def read(self, texts: Sequence[str], *, with_vectors: bool = True) -> "Texts":
        """Read texts as queries. Without vectors, they can only be looked up as names."""
        texts_forms = Forms.of(texts)
        canonical, written = texts_forms.canonical, texts_forms.written
        grams = Grams.of(canonical if with_vectors else []).counted()
        vectors = self._vectors(grams, len(canonical) if with_vectors else 0)
        hashes = hashed(canonical)
        spellings = Spellings.of_forms(texts_forms, hashes, texts)
        forms = self._with_hashes(hashes)
        several = indices_of(self._arrays["written_forms"], forms) >= 0
        as_written = np.zeros_like(hashes)
        as_written[several] = hashed([written[i] for i in np.flatnonzero(several)])
        acronyms = np.zeros(len(forms), dtype=bool)
        if len(self._hashes):
            acronyms = (self._arrays["acronyms"][forms] > 0) & (forms >= 0)
        lower = spellings.words & acronyms
        return Texts(vectors, forms, as_written, lower, spellings, canonical, hashes, grams)

    def _vectors(self, grams: Counted, n: int) -> Sparse:
        """Return the TF-IDF vectors of n texts with these n-grams."""
        owners, keys, counts = grams
        positions = indices_of(self._grams, keys)
        known = positions >= 0
        own = edges(np.bincount(owners[known], minlength=n))
        shape = n, len(self._grams)
        vectors = Sparse(counts[known].astype(np.float32), positions[known], own, shape)
        unknown = (counts[~known] * self._mean_idf) ** 2
        to_unit_length(vectors, self._idf, np.bincount(owners[~known], unknown, n))
        return vectors

    def forms(self, texts: Sequence[str]) -> Rows:
        """Return the index of the surface form equal to each text in canonical form, -1 for none:
        (len(texts),).
        """
        return self.read(texts, with_vectors=False).forms

    def of_canonical(self, canonical: Sequence[str]) -> Rows:
        """Return what `forms` returns for texts that are in canonical form."""
        return self._with_hashes(hashed(canonical))

    def _with_hashes(self, hashes: np.ndarray) -> Rows:
        """Return the index of the surface form with each hash, -1 for none (n,)."""
        forms = indices_of(self._hashes, hashes)
        return np.where(forms >= 0, self._by_hash[forms], -1) if len(self._hashes) else forms

    def entities_named(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """Return the entities that have each text as a name, in canonical form. For each entity,
        also return the index of that text in `texts`, ascending.
        """
        return self.named(self.forms(texts))

    def named(self, forms: Rows) -> tuple[Rows, Rows]:
        """Return the entities that have each of the `forms` as a name. For each entity, also return
        the index of that form in `forms`, ascending."""
        return self._of_name.take(forms)

    def entities_with_spellings(self, spellings: Spellings) -> Groups:
        """Return the entities with a name of each spelling, grouped by the index of the spelling.

        A symbol in capitals does not match a word in lower case.
        """
        known, asked = self._arrays["spelling_hashes"], spellings.hashes
        starts, ends = (np.searchsorted(known, asked, side) for side in ("left", "right"))
        lengths = np.where(asked == 0, 0, ends - starts)
        positions, owners = ranges(starts, lengths), np.repeat(np.arange(len(asked)), lengths)
        kept = ~(spellings.words[owners] & (self._arrays["spelling_symbols"][positions] > 0))
        entities, form = self._of_name.take(self._arrays["spelling_forms"][positions[kept]])
        owner = owners[kept][form]
        _, first = np.unique(pair_keys(owner, entities), return_index=True)
        return Groups.of(owner[first], entities[first])

    def vectors(self, texts: Sequence[str]) -> "csr_matrix":
        """Return TF-IDF vectors of at most unit length: (len(texts), n-grams)."""
        return _csr(self.read(texts).vectors)

    def entities_with_forms(self, forms: Rows, k: int, allowed: Mask | None = None) -> Rows:
        """Return up to `k` allowed entities that have each of the `forms` (q,), -1 for none.

        RETURNS: entity rows (q, k), padded with -1; none for a form that is only a guess, no
            entity's name.
        """
        names = np.unique(self._of_name.take(forms)[1])
        entities, owner = self._of_form.take(forms[names])
        owner = names[owner]
        if allowed is not None:
            entities, owner = entities[allowed[entities]], owner[allowed[entities]]
        return pad_groups(entities, owner, len(forms), k)

    def search(
        self,
        vectors: "Sparse | csr_matrix",
        k: int,
        allowed: Mask | None = None,
        without: Rows | None = None,
    ) -> Rows:
        """Search `k` entities that are lexically similar to each of the `vectors` (q, n-grams).

        The search is approximate and unordered, since it uses only the rarest n-grams of each text.

        allowed: a mask of entities. without (q,): a form to ignore per vector, -1 for none.
        RETURNS: entity rows (q, k), padded with -1.
        """
        from . import kernel

        starts, grams, weights = _sparse(self._rarest(vectors))
        found = np.full((vectors.shape[0], k), -1, dtype=np.int64)
        postings = self._read_only_arrays("gram_starts", "gram_forms", "gram_weights")
        of_form = self._read_only_arrays("form_entity_starts", "form_entities")
        mask, hidden = (
            NO_MASK if allowed is None else allowed,
            NO_ROWS if without is None else without,
        )

        def search(start: int, end: int) -> None:
            queries, own = (starts[start : end + 1], grams, weights), slice(start, end)
            zeros = _zeros(len(self._by_hash))
            kernel.search(
                queries,
                postings,
                of_form,
                mask,
                hidden[own],
                k * FORMS_PER_ENTITY,
                zeros,
                found[own],
            )

        if k:
            in_parts(search, len(found), MIN_PER_THREAD)
        return found

    def alike(self, vectors: Sparse, n: int) -> tuple[Rows, Rows]:
        """Return the entities of the `n` forms that are most similar to each of the `vectors` (q,
        n-grams), by the rarest n-grams of each text. For each entity, also return the index of its
        vector, ascending; pairs are distinct, and entities ascend.
        """
        found = self._alike(self._rarest(vectors), n)
        # The rarest n-grams of a text may be in few forms.
        few = np.flatnonzero(found[:, -1] < 0)
        found[few] = self._alike(vectors[few], n)
        entities, of_form = self._of_form.take(found.ravel())
        bits = len(self._arrays["entity_form_starts"]).bit_length()
        # NumPy's `unique` takes ten times as long, and its division three times as long as a shift.
        keys = np.sort((of_form // n << bits) | entities)
        keys = keys[np.diff(keys, prepend=-1) > 0]
        return keys & ((1 << bits) - 1), keys >> bits

    def _alike(self, vectors: Sparse, n: int) -> Rows:
        """Return the `n` forms that are most similar to each of the vectors: (q, n), padded with
        -1."""
        from . import kernel

        starts, grams, weights = _sparse(vectors)
        found = np.full((vectors.shape[0], n), -1, dtype=np.int64)
        postings = self._read_only_arrays("gram_starts", "gram_forms", "gram_weights")

        def search(start: int, end: int) -> None:
            queries = starts[start : end + 1], grams, weights
            kernel.alike(queries, postings, _zeros(len(self._by_hash)), found[start:end])

        in_parts(search, len(found), MIN_PER_THREAD)
        return found

    def _read_only_arrays(self, *names: str) -> tuple[np.ndarray, ...]:
        return tuple(self._read_only[name] for name in names)

    @cached_property
    def has_guesses(self) -> bool:
        """Do entities have forms that are only guesses?"""
        return len(self._of_name.values) < len(self._of_form.values)

    def similarity(
        self,
        texts: "Texts",
        queries: Rows,
        entities: Rows,
        without: Rows | None = None,
        *,
        names_only: bool = False,
    ) -> Scores:
        """Compute the similarity of text `queries[i]` with `entities[i]`: (n,), for pairs in the
        order of `queries`.

        without (texts,): a form to ignore per text, -1 for none. names_only: ignore forms that are
            only guesses.
        """
        result = self._cosines(texts.vectors, queries, entities, without, names_only)
        near = np.flatnonzero(result > DIFFERENT)
        equal = self._equality(texts, queries[near], entities[near], without)
        result[near] = np.where(equal > 0, equal, np.float32(DIFFERENT))
        return result

    def equality(self, texts: "Texts", queries: Rows, entities: Rows) -> Scores:
        """Return the similarity of text `queries[i]` with `entities[i]` if the text is a name of
        the entity, else 0: (n,). Texts may be without vectors.
        """
        return self._equality(texts, queries, entities)

    def _equality(
        self, texts: "Texts", queries: Rows, entities: Rows, without: Rows | None = None
    ) -> Scores:
        forms = texts.forms[queries]
        if without is not None:
            forms[forms == without[queries]] = -1
        with_form, owner = self._of_name.take(forms)
        equal = owner[with_form == entities[owner]]
        result = np.zeros(len(queries), dtype=np.float32)
        result[equal] = np.where(texts.lower[queries[equal]], np.float32(LOWER_CASE), 1)
        # If names differ in accents only, prefer the one written like the text.
        several = equal[(texts.written[queries[equal]] != 0) & ~texts.lower[queries[equal]]]
        if len(several):
            asked = zip(
                texts.written[queries[several]].tolist(), entities[several].tolist(), strict=True
            )
            known = self._written_pairs
            is_written = np.array([pair in known for pair in asked])
            result[several[~is_written]] = CANONICAL
        return result

    @cached_property
    def _mean_idf(self) -> float:
        """Return the weight of an n-gram that occurs in no form."""
        return float(self._idf.mean()) if len(self._idf) else 1.0

    @cached_property
    def _written_pairs(self) -> set[tuple[int, int]]:
        return set(
            zip(
                *(self._arrays[f"written_{each}"].tolist() for each in ("hashes", "entities")),
                strict=True,
            )
        )

    def _cosines(
        self,
        vectors: Sparse,
        queries: Rows,
        entities: Rows,
        without: Rows | None,
        names_only: bool = False,
    ) -> Scores:
        forms = self._read_only_arrays("form_starts", "form_grams", "form_weights")
        starts, name_ends, own = self._read_only_arrays(
            "entity_form_starts", "entity_name_ends", "entity_forms"
        )
        of_entity = starts[:-1], name_ends if names_only else starts[1:], own
        return cosines(vectors, forms, of_entity, queries, entities, without)

    def weighted_grams(self, canonical: Sequence[str]) -> tuple[Rows, Rows, np.ndarray]:
        """Return the distinct n-grams of texts in canonical form, with the TF-IDF weights of
        `read`. N-grams that occur in no form are included.

        RETURNS: the index of the text, the key (`Grams`) and the weight of each n-gram, sorted by
            text and key.
        """
        owners, keys, counts = Grams.of(canonical).counted()
        idf = np.full(len(keys), self._mean_idf)
        positions = indices_of(self._grams, keys)
        idf[positions >= 0] = self._idf[positions[positions >= 0]]
        weights = counts * idf
        norms = np.sqrt(np.bincount(owners, weights**2, len(canonical)))
        return owners, keys, (weights / norms[owners]).astype(np.float32)

    def _rarest(self, vectors: "Sparse | csr_matrix") -> Sparse:
        starts, lengths = vectors.indptr[:-1], np.diff(vectors.indptr)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        frequencies = self._frequencies[vectors.indices]
        order = np.lexsort((vectors.indices, frequencies, owner))
        rank = np.arange(len(order)) - np.repeat(starts, lengths)
        found = edges(frequencies[order])
        so_far = found[1:] - np.repeat(found[starts], lengths)
        kept = np.sort(order[(rank == 0) | ((rank < MAX_RAREST) & (so_far <= MAX_POSTINGS))])
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
    """Compute the cosine of `vectors[queries[i]]` with the nearest form of `entities[i]`: (n,), 0
    for an entity without forms. Pairs are in the order of `queries`.

    vectors: of texts (q, n-grams). forms: vectors of the forms: starts, columns, weights.
    of_entity: the forms of each entity: starts, ends, form indices.
    without (q,): a form to ignore per text, -1 for none.
    """
    from . import kernel

    result = np.zeros(len(queries), dtype=np.float32)
    texts, hidden = _sparse(vectors), NO_ROWS if without is None else without

    def compare(start: int, end: int) -> None:
        pairs = queries[start:end], entities[start:end]
        kernel.similarities(
            vectors.shape[1], texts, forms, of_entity, *pairs, hidden, result[start:end]
        )

    in_parts(compare, len(queries), MIN_PER_THREAD)
    return result


def _sparse(matrix: Sparse) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return matrix.indptr, matrix.indices, matrix.data


def _csr(matrix: Sparse) -> "csr_matrix":
    from scipy.sparse import csr_matrix

    return csr_matrix((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)


def _zeros(n: int) -> np.ndarray:
    """Return at least n zeros of this thread: allocating zeros for millions of forms takes longer
    than looking up a few texts.
    """
    zeros: np.ndarray = getattr(_OF_THREAD, "zeros", np.zeros(0, dtype=np.float32))
    if len(zeros) < n:
        zeros = _OF_THREAD.zeros = np.zeros(n, dtype=np.float32)
    return zeros


def _damaged(path: Path, problem: object) -> ValueError:
    return ValueError(f"{path.name}: {problem}")
