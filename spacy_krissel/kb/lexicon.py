"""What the entities of a knowledge base are called, searched by spelling."""

from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from scipy.sparse import csr_matrix

from ..index.protocol import Mask, Rows, Scores
from ..ontology.names import fold_name

# A text is looked up by so many of its rarest n-grams: what shares none of them is not near.
RAREST = 8
# Surface forms looked at for each entity that is asked for, since several may be of one entity.
FORMS_PER_ENTITY = 4
# Cells of the dense block of texts that is alive at a time (float32: 32 MiB).
BLOCK_CELLS = 2**23
SPACE = ord(" ")


class Lexicon:
    """The distinct surface forms of a knowledge base's prototypes as TF-IDF vectors of character 3-grams.

    3-grams are taken inside the words of the folded form, with a space on each side of a word. The similarity of a text
    with an entity is the cosine of the text and the nearest surface form of the entity, from 0 to 1. N-grams that no
    form holds count for nothing.

    forms: surface forms. entities: the entity row of each, (len(forms),). The same pair may stand there again.
    """

    def __init__(self, forms: Sequence[str], entities: Rows) -> None:
        folded, of_form = _distinct([fold_name(form) for form in forms])
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
        # Pairs of an entity and one of its forms, both ways round; forms without an n-gram are like nothing.
        spelt = np.diff(self._vectors.indptr)[of_form] > 0
        pairs = np.unique(np.stack([entities[spelt], of_form[spelt]], axis=1), axis=0)
        self._of_entity = _Groups.of(pairs[:, 0], pairs[:, 1])
        order = np.argsort(pairs[:, 1], kind="stable")
        self._of_form = _Groups.of(pairs[order, 1], pairs[order, 0])

    def vectors(self, texts: Sequence[str]) -> csr_matrix:
        """TF-IDF vectors of unit length: (len(texts), n-grams)."""
        grams = _Grams.of([fold_name(text) for text in texts])
        place = np.searchsorted(self._grams, grams.keys)
        known = np.zeros(len(place), dtype=bool)
        inside = place < len(self._grams)
        known[inside] = self._grams[place[inside]] == grams.keys[inside]
        ones = np.ones(int(known.sum()), dtype=np.float32)
        counts = csr_matrix((ones, (grams.owners[known], place[known])), shape=(len(texts), len(self._grams)))
        counts.sum_duplicates()
        return self._weighted(counts)

    def search(self, vectors: csr_matrix, k: int, allowed: Optional[Mask] = None) -> Rows:
        """`k` entities whose spelling is near to each of the `vectors` (q, n-grams): entity rows (q, k), -1 padded.

        Approximate, and in no order: by the rarest n-grams of a text alone. `allowed` is a mask of entities.
        """
        similarity = (self._rarest(vectors) @ self._by_gram).tocsr()
        found = np.full((len(similarity.indptr) - 1, k), -1, dtype=np.int64)
        if allowed is not None:
            bearers, owner = self._of_form.take(similarity.indices)
            keep = np.zeros(len(similarity.indices), dtype=bool)
            keep[owner[allowed[bearers]]] = True
            similarity.data[~keep] = 0
        for query, (start, end) in enumerate(zip(similarity.indptr, similarity.indptr[1:])):
            scores, forms = similarity.data[start:end], similarity.indices[start:end]
            n = k * FORMS_PER_ENTITY
            if len(scores) > n:
                best = np.argpartition(-scores, n)[:n]
                scores, forms = scores[best], forms[best]
            forms = forms[np.lexsort((forms, -scores))][: np.count_nonzero(scores)]
            entities, _ = self._of_form.take(forms)
            if allowed is not None:
                entities = entities[allowed[entities]]
            first = list(dict.fromkeys(entities.tolist()))[:k]
            found[query, : len(first)] = first
        return found

    def similarity(self, vectors: csr_matrix, queries: Rows, entities: Rows) -> Scores:
        """The similarity of `vectors[queries[i]]` with `entities[i]`: (n,), for pairs in the order of `queries`."""
        result = np.zeros(len(queries), dtype=np.float32)
        step = max(1, BLOCK_CELLS // max(1, vectors.shape[1]))
        for start in range(0, vectors.shape[0], step):
            low, high = np.searchsorted(queries, [start, start + step])
            block = vectors[start : start + step].toarray()
            result[low:high] = self._best(block, queries[low:high] - start, entities[low:high])
        return result

    def _best(self, block: np.ndarray, queries: Rows, entities: Rows) -> Scores:
        forms, pair = self._of_entity.take(entities)
        best = np.zeros(len(queries), dtype=np.float32)
        if not len(forms):
            return best
        starts, lengths = self._vectors.indptr[forms], np.diff(self._vectors.indptr)[forms]
        cells = _ranges(starts, lengths)
        products = block[np.repeat(queries[pair], lengths), self._vectors.indices[cells]] * self._vectors.data[cells]
        cosines = np.add.reduceat(products, np.cumsum(lengths) - lengths)
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


class _Groups(NamedTuple):
    """Values by key: those of key `i` are `values[starts[i] : starts[i] + lengths[i]]`, none for an unknown key."""

    values: Rows
    starts: Rows
    lengths: Rows

    @classmethod
    def of(cls, keys: Rows, values: Rows) -> "_Groups":
        """`keys` in ascending order."""
        lengths = np.bincount(keys, minlength=1)
        return cls(values, np.cumsum(lengths) - lengths, lengths)

    def take(self, keys: Rows) -> Tuple[Rows, Rows]:
        """All values of the `keys`, and for each the place in `keys` that it belongs to."""
        known = np.flatnonzero(keys < len(self.lengths))
        keys = keys[known]
        lengths = self.lengths[keys]
        return self.values[_ranges(self.starts[keys], lengths)], np.repeat(known, lengths)


def _ranges(starts: Rows, lengths: Rows) -> Rows:
    """`start, start + 1, …` for so many numbers each, one after another."""
    total = int(lengths.sum())
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(total)


def _distinct(texts: Sequence[str]) -> Tuple[List[str], Rows]:
    """The distinct texts in the order they come in, and the place of each text among them."""
    places: Dict[str, int] = {}
    of_text = np.array([places.setdefault(text, len(places)) for text in texts], dtype=np.int64)
    return list(places), of_text
