"""Surface forms as character 3-grams and as hashes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..index.protocol import Mask, Rows
from ..ontology.folding import american, canonical_name, fold_name, folded_spelling, is_canonical
from ..util.hashing import stable_hashes
from ..util.plain_text import plain_text
from .groups import edges, ranges

SPACE = ord(" ")


class Grams(NamedTuple):
    """The 3-grams of some texts as numbers, and the text of each: (n,) both."""

    owners: Rows
    keys: Rows

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Grams":
        padded = [f" {text} " for text in texts]
        data = "".join(padded).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(data, dtype="<u4").astype(np.int64)
        owners = np.repeat(np.arange(len(padded)), [len(text) for text in padded])
        # Three characters of one word, or of one and its edge, have no space in the middle.
        middle = np.flatnonzero(codes[1:-1] != SPACE) + 1
        return cls(owners[middle], codes[middle - 1] << 42 | codes[middle] << 21 | codes[middle + 1])

    def counted(self) -> tuple[Rows, Rows, Rows]:
        """The different n-grams of each text, in the order of both: owners, keys, and how often each is there."""
        order = np.lexsort((self.keys, self.owners))
        owners, keys = self.owners[order], self.keys[order]
        is_new = np.ones(len(keys), dtype=bool)
        is_new[1:] = (owners[1:] != owners[:-1]) | (keys[1:] != keys[:-1])
        starts = np.flatnonzero(is_new)
        return owners[starts], keys[starts], np.diff(starts, append=len(keys))


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse matrix with the attributes of SciPy's `csr_matrix`, which takes as long to make as a text to read."""

    data: np.ndarray
    indices: Rows
    indptr: Rows
    shape: tuple[int, int]

    def __getitem__(self, rows: Rows) -> "Sparse":
        starts, lengths = self.indptr[rows], np.diff(self.indptr)[rows]
        cells = ranges(starts, lengths)
        return Sparse(self.data[cells], self.indices[cells], edges(lengths), (len(rows), self.shape[1]))


def canonical_form(text: str) -> str:
    """Return a surface form in canonical form (`canonical_name`) and American spelling."""
    return american(canonical_name(text))


class Forms(NamedTuple):
    """Texts in three forms, each (n,).

    canonical: as `canonical_form` has them. written: as written (`fold_name`), in American spelling.
    spellings: what their spellings have in common (`spelling`).
    """

    canonical: list[str]
    written: list[str]
    spellings: list[str]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Forms":
        canonical, written, spellings = [], [], []
        for text in texts:
            folded = fold_name(text)
            form = american(folded)
            written.append(form)
            if text.isascii():
                spellings.append(folded_spelling(form, text))
                canonical.append(form if is_canonical(folded, text) else canonical_form(text))
            else:
                spellings.append(_spelling(text))
                canonical.append(canonical_form(text))
        return cls(canonical, written, spellings)


class Spellings(NamedTuple):
    """The spellings of texts.

    hashes: of the `spelling` of each, 0 for none, (n,) int64. words: is the text in lower case, but for
    its first letter? (n,)
    """

    hashes: Rows
    words: Mask

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Spellings":
        spellings = [*map(_spelling, texts)]
        return cls(_hashed_spellings(spellings), _words(texts))

    @classmethod
    def of_forms(cls, forms: "Forms", hashes: Rows, texts: Sequence[str]) -> "Spellings":
        """Return the spellings of `texts` with these forms, whose canonical ones have these hashes."""
        found = hashes.copy()
        # A word has one hash for both.
        pairs = zip(forms.canonical, forms.spellings, strict=True)
        differ = [i for i, (form, spelling) in enumerate(pairs) if form != spelling]
        found[differ] = _hashed_spellings([forms.spellings[i] for i in differ])
        return cls(found, _words(texts))


def _hashed_spellings(spellings: Sequence[str]) -> Rows:
    return np.where(np.array([bool(each) for each in spellings], dtype=bool), hashed(spellings), 0)


def _words(texts: Sequence[str]) -> Mask:
    return np.array([text.islower() or text[1:].islower() for text in texts], dtype=bool)


def _spelling(text: str) -> str:
    return folded_spelling(american(fold_name(plain_text(text))), text)


def hashed(texts: Sequence[str]) -> Rows:
    """The same in every process: (len(texts),) int64."""
    return np.frombuffer(stable_hashes(texts), dtype=">i8").astype(np.int64)


def to_unit_length(counts: Any, idf: np.ndarray, unknown: np.ndarray | float = 0.0) -> None:
    """Turn the counts of n-grams (n, n-grams) of a sparse matrix into TF-IDF vectors of unit length, in place.

    unknown: sums of squares (n,) of n-grams that have no column, which count in the length."""
    data = counts.data
    data *= idf[counts.indices]
    lengths = np.diff(counts.indptr)
    filled = np.flatnonzero(lengths)
    squares = np.zeros(len(lengths)) + unknown
    squares[filled] += np.add.reduceat(data**2, counts.indptr[filled])
    norms = np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
    data /= np.repeat(norms, lengths)
