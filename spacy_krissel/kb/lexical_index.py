"""The surface forms of the entities of a knowledge base, searched by lexical similarity."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from ..index.protocol import Mask, Rows, Scores
from ..ontology.folding import american, fold_name
from .groups import Groups, pair_keys, ranges

# Number of its rarest n-grams by which a text is looked up.
RAREST = 8
# Surface forms looked at per entity asked for, since several may be of one entity.
FORMS_PER_ENTITY = 4
# Cells of the dense block of texts (float32: 4 MiB); larger ones are slower.
BLOCK_CELLS = 2**20
SPACE = ord(" ")


class LexicalIndex:
    """The distinct surface forms of a knowledge base's prototypes as TF-IDF vectors of character 3-grams.

    3-grams are taken inside the words of the folded form in American spelling, with a space on each side of a word. The
    similarity of a text with an entity is the cosine of the text and the nearest surface form of the entity, from 0 to
    1. N-grams that no form has are left out.

    scikit-learn's `TfidfVectorizer` gives the same cosines. It takes twice as long per text, and its import would take
    0.7 s of the first link (`benchmarks/lexical_index.py`).

    forms: surface forms. entities: the entity row of each, (len(forms),). Pairs may be repeated.
    named: which of these pairs are names of the entity and no guesses, (len(forms),); None: all.
    """

    def __init__(self, forms: Sequence[str], entities: Rows, named: Mask | None = None) -> None:
        folded, of_form = distinct([folded_form(form) for form in forms])
        # Their hashes and not the forms, of which there are millions; this process alone reads them.
        hashes = hashed(folded)
        order = np.argsort(hashes)
        self._hashes = hashes[order]
        # Ends with that of place -1.
        self._by_hash = np.append(order, -1)
        grams = _Grams.of(folded)
        self._grams, gram = np.unique(grams.keys, return_inverse=True)
        counts = csr_matrix(
            (np.ones(len(gram), np.float32), (grams.owners, gram)), shape=(len(folded), len(self._grams))
        )
        counts.sum_duplicates()
        frequencies = np.bincount(counts.indices, minlength=len(self._grams))
        self._frequencies = frequencies
        self._idf = (np.log((1 + len(folded)) / (1 + frequencies)) + 1).astype(np.float32)
        self._vectors = self._weighted(counts)  # (forms, n-grams)
        self._by_gram = self._vectors.T.tocsr()
        # Pairs of an entity and one of its forms, in both directions; without forms that have no n-gram.
        with_grams = np.diff(self._vectors.indptr)[of_form] > 0
        pairs, of_pair = np.unique(
            np.stack([entities[with_grams], of_form[with_grams]], axis=1), axis=0, return_inverse=True
        )
        self._of_entity = Groups.of(pairs[:, 0], pairs[:, 1])
        by_form = pairs[np.argsort(pairs[:, 1], kind="stable")]
        self._of_form = self._of_name = Groups.of(by_form[:, 1], by_form[:, 0])
        if named is not None:
            names = pairs[np.unique(of_pair.ravel()[named[with_grams]])]
            names = names[np.argsort(names[:, 1], kind="stable")]
            self._of_name = Groups.of(names[:, 1], names[:, 0])

    def forms(self, texts: Sequence[str]) -> Rows:
        """The number of the surface form that each text folds to, -1 where there is none: (len(texts),)."""
        return self._by_hash[places_of(self._hashes, hashed([folded_form(text) for text in texts]))]

    def named(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """The entities with each text as a name, folded, and for each the place of that text in `texts`, ascending."""
        return self._of_name.take(self.forms(texts))

    def vectors(self, texts: Sequence[str]) -> csr_matrix:
        """TF-IDF vectors of unit length: (len(texts), n-grams)."""
        grams = _Grams.of([folded_form(text) for text in texts])
        place = places_of(self._grams, grams.keys)
        owners, place = grams.owners[place >= 0], place[place >= 0]
        counts = csr_matrix((np.ones(len(place), np.float32), (owners, place)), shape=(len(texts), len(self._grams)))
        counts.sum_duplicates()
        return self._weighted(counts)

    def search(self, vectors: csr_matrix, k: int, allowed: Mask | None = None, without: Rows | None = None) -> Rows:
        """`k` entities that are lexically similar to each of the `vectors` (q, n-grams): rows (q, k), -1 padded.

        Approximate, and in no order: by the rarest n-grams of a text alone. allowed: a mask of entities. without (q,):
        a form that does not count for each of the `vectors`, -1 for none.
        """
        similarity = self._rarest(vectors) @ self._by_gram
        if without is not None:
            similarity.data[similarity.indices == np.repeat(without, np.diff(similarity.indptr))] = 0
        if allowed is not None:
            entities, owner = self._of_form.take(similarity.indices)
            keep = np.zeros(len(similarity.indices), dtype=bool)
            keep[owner[allowed[entities]]] = True
            similarity.data[~keep] = 0
        query, place = _highest(similarity, k * FORMS_PER_ENTITY)
        forms, scores = similarity.indices[place], similarity.data[place]
        order = np.lexsort((forms, -scores, query))
        order = order[scores[order] > 0]
        entities, owner = self._of_form.take(forms[order])
        query = query[order][owner]
        if allowed is not None:
            entities, query = entities[allowed[entities]], query[allowed[entities]]
        # The first `k` different entities per query.
        _, first = np.unique(pair_keys(query, entities), return_index=True)
        first.sort()
        entities, query = entities[first], query[first]
        rank = np.arange(len(query)) - np.searchsorted(query, query)
        found = np.full((vectors.shape[0], k), -1, dtype=np.int64)
        found[query[rank < k], rank[rank < k]] = entities[rank < k]
        return found

    def similarity(self, vectors: csr_matrix, queries: Rows, entities: Rows, without: Rows | None = None) -> Scores:
        """The similarity of `vectors[queries[i]]` with `entities[i]`: (n,), for pairs in the order of `queries`.

        without (len(vectors),): a form that does not count for each of the `vectors`, -1 for none.
        """
        hidden = np.full(vectors.shape[0], -1) if without is None else without
        result = np.zeros(len(queries), dtype=np.float32)
        step = max(1, BLOCK_CELLS // max(1, vectors.shape[1]))
        for start in range(0, vectors.shape[0], step):
            low, high = np.searchsorted(queries, [start, start + step])
            block = vectors[start : start + step].toarray()
            result[low:high] = self._best(
                block, queries[low:high] - start, entities[low:high], hidden[queries[low:high]]
            )
        return result

    def _best(self, block: np.ndarray, queries: Rows, entities: Rows, hidden: Rows) -> Scores:
        forms, pair = self._of_entity.take(entities)
        best = np.zeros(len(queries), dtype=np.float32)
        if not len(forms):
            return best
        starts, lengths = self._vectors.indptr[forms], np.diff(self._vectors.indptr)[forms]
        cells = ranges(starts, lengths)
        inside = np.repeat(queries[pair] * block.shape[1], lengths) + self._vectors.indices[cells]
        products = block.ravel()[inside] * self._vectors.data[cells]
        cosines = np.add.reduceat(products, np.cumsum(lengths) - lengths)
        cosines[forms == hidden[pair]] = 0
        found, first = np.unique(pair, return_index=True)
        best[found] = np.maximum.reduceat(cosines, first)
        return best

    def _weighted(self, counts: csr_matrix) -> csr_matrix:
        counts.data *= self._idf[counts.indices]
        squares = np.asarray(counts.multiply(counts).sum(axis=1)).ravel()
        norms = np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
        counts.data /= np.repeat(norms, np.diff(counts.indptr))
        return counts

    def _rarest(self, vectors: csr_matrix) -> csr_matrix:
        lengths = np.diff(vectors.indptr)
        owner = np.repeat(np.arange(len(lengths)), lengths)
        order = np.lexsort((vectors.indices, self._frequencies[vectors.indices], owner))
        rank = np.arange(len(order)) - np.repeat(vectors.indptr[:-1], lengths)
        kept = order[rank < RAREST]
        return csr_matrix((vectors.data[kept], (owner[kept], vectors.indices[kept])), shape=vectors.shape)


def _highest(matrix: csr_matrix, n: int) -> tuple[Rows, Rows]:
    """Where the `n` highest values of each row stand, in no order: their rows, and their places in `matrix.data`."""
    counts = np.minimum(np.diff(matrix.indptr), n)
    places = ranges(matrix.indptr[:-1], counts)
    negative = -matrix.data
    ends = np.cumsum(counts)
    for row in np.flatnonzero(counts < np.diff(matrix.indptr)).tolist():
        start, end = matrix.indptr[row], matrix.indptr[row + 1]
        places[ends[row] - n : ends[row]] = start + np.argpartition(negative[start:end], n)[:n]
    return np.repeat(np.arange(len(counts)), counts), places


class _Grams(NamedTuple):
    """The 3-grams of some texts as numbers, and the text of each: (n,) both."""

    owners: Rows
    keys: Rows

    @classmethod
    def of(cls, texts: Sequence[str]) -> "_Grams":
        padded = [f" {text} " for text in texts]
        data = "".join(padded).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(data, dtype="<u4").astype(np.int64)
        owners = np.repeat(np.arange(len(padded)), [len(text) for text in padded])
        # Three characters of one word, or of one and its edge, have no space in the middle.
        middle = np.flatnonzero(codes[1:-1] != SPACE) + 1
        return cls(owners[middle], codes[middle - 1] << 42 | codes[middle] << 21 | codes[middle + 1])


def places_of(ascending: Rows, values: Rows) -> Rows:
    """The place of each of the `values` in the ascending array, -1 where it is not there."""
    places = np.searchsorted(ascending, values)
    places[places == len(ascending)] = -1
    return np.where(ascending[places] == values, places, -1) if len(ascending) else places


def hashed(texts: Sequence[str]) -> Rows:
    return np.array([hash(text) for text in texts], dtype=np.int64)


def folded_form(text: str) -> str:
    """A surface form in American spelling, folded as the names of ontologies are."""
    return american(fold_name(text))


def distinct(values: Sequence[Any]) -> tuple[list[Any], Rows]:
    """The distinct values in the order they come in, and the place of each value among them."""
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    return list(places), np.array([places[value] for value in values], dtype=np.int64)
