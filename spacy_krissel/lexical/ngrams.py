"""Surface forms as character 3-grams and as hashes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..index.protocol import Mask, Rows
from ..util.folding import (
    canonical_name,
    fold_name,
    folded_spelling,
    is_canonical,
    plain_text,
    to_american,
)
from ..util.hashing import stable_hashes
from .groups import edges, ranges

SPACE = ord(" ")
# Maximum length of texts whose forms are kept.
MAX_KEPT = 256
# Distinct n-grams of texts: the index of the text, the key and the count of each, (n,).
Counted = tuple[Rows, Rows, Rows]


class Grams(NamedTuple):
    """3-grams of texts as integer keys, and the index of the text of each: both (n,)."""

    owners: Rows
    keys: Rows

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Grams":
        padded = [f" {text} " for text in texts]
        data = "".join(padded).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(data, dtype="<u4").astype(np.int64)
        owners = np.repeat(np.arange(len(padded)), [len(text) for text in padded])
        # Three characters of one word, or of a word and its boundary, have no space in the middle.
        middle = np.flatnonzero(codes[1:-1] != SPACE) + 1
        return cls(
            owners[middle], codes[middle - 1] << 42 | codes[middle] << 21 | codes[middle + 1]
        )

    def counted(self) -> Counted:
        """Count the distinct n-grams of each text. RETURNS: owners, keys and counts, sorted by
        owner and key.
        """
        order = np.lexsort((self.keys, self.owners))
        owners, keys = self.owners[order], self.keys[order]
        is_new = np.ones(len(keys), dtype=bool)
        is_new[1:] = (owners[1:] != owners[:-1]) | (keys[1:] != keys[:-1])
        starts = np.flatnonzero(is_new)
        return owners[starts], keys[starts], np.diff(starts, append=len(keys))


@dataclass(frozen=True, slots=True)
class Sparse:
    """A sparse matrix with the attributes of SciPy's `csr_matrix`, whose constructor takes as long
    as reading a text.
    """

    data: np.ndarray
    indices: Rows
    indptr: Rows
    shape: tuple[int, int]

    def __getitem__(self, rows: Rows) -> "Sparse":
        starts, lengths = self.indptr[rows], np.diff(self.indptr)[rows]
        cells = ranges(starts, lengths)
        return Sparse(
            self.data[cells], self.indices[cells], edges(lengths), (len(rows), self.shape[1])
        )


def canonical_form(text: str) -> str:
    """Return a surface form in canonical form (`canonical_name`) and American spelling."""
    return to_american(canonical_name(text))


class Forms(NamedTuple):
    """Texts in three forms, each (n,).

    canonical: as returned by `canonical_form`. written: as written (`fold_name`), in American
        spelling.
    spellings: the key that equal spellings share (`spelling`).
    """

    canonical: list[str]
    written: list[str]
    spellings: list[str]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Forms":
        read = [(_kept_forms if len(text) <= MAX_KEPT else _forms)(text) for text in texts]
        return cls(*([*each] for each in zip(*read, strict=True))) if read else cls([], [], [])


def _forms(text: str) -> tuple[str, str, str]:
    """Return the `Forms` of a text."""
    folded = fold_name(text)
    form = to_american(folded)
    if text.isascii():
        canonical = form if is_canonical(folded, text) else canonical_form(text)
        return canonical, form, folded_spelling(form, text)
    return canonical_form(text), form, _spelling(text)


# Mentions are often read again: by another term, or in the next documents.
_kept_forms = lru_cache(maxsize=2**13)(_forms)


class Spellings(NamedTuple):
    """Spellings of texts.

    hashes: of the `spelling` of each text, 0 for none, (n,) int64.
    words: mask of texts in lower case, apart from the first letter (n,).
    """

    hashes: Rows
    words: Mask

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Spellings":
        spellings = [*map(_spelling, texts)]
        return cls(_hashed_spellings(spellings), _words(texts))

    @classmethod
    def of_forms(cls, forms: "Forms", hashes: Rows, texts: Sequence[str]) -> "Spellings":
        """Return the spellings of `texts` with these forms. hashes: of their canonical forms."""
        found = hashes.copy()
        # The canonical form and the spelling of a word have the same hash.
        pairs = zip(forms.canonical, forms.spellings, strict=True)
        differ = [i for i, (form, spelling) in enumerate(pairs) if form != spelling]
        found[differ] = _hashed_spellings([forms.spellings[i] for i in differ])
        return cls(found, _words(texts))


def _hashed_spellings(spellings: Sequence[str]) -> Rows:
    return np.where(np.array([bool(each) for each in spellings], dtype=bool), hashed(spellings), 0)


def _words(texts: Sequence[str]) -> Mask:
    return np.array([text.islower() or text[1:].islower() for text in texts], dtype=bool)


def _spelling(text: str) -> str:
    return folded_spelling(to_american(fold_name(plain_text(text))), text)


def hashed(texts: Sequence[str]) -> Rows:
    """Hash the texts, with the same result in every process: (len(texts),) int64."""
    return np.frombuffer(stable_hashes(texts), dtype=">i8").astype(np.int64)


def to_unit_length(counts: Any, idf: np.ndarray, unknown: np.ndarray | float = 0.0) -> None:
    """Convert the n-gram counts (n, n-grams) of a sparse matrix in place to TF-IDF vectors of unit
    length.

    unknown: sums of squares (n,) of n-grams without a column, which count towards the length.
    """
    data = counts.data
    data *= idf[counts.indices]
    lengths = np.diff(counts.indptr)
    filled = np.flatnonzero(lengths)
    squares = np.zeros(len(lengths)) + unknown
    squares[filled] += np.add.reduceat(data**2, counts.indptr[filled])
    norms = np.sqrt(np.where(squares > 0, squares, 1)).astype(np.float32)
    data /= np.repeat(norms, lengths)
