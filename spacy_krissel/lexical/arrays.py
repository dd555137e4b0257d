"""Arrays of a lexical index, built in blocks: 8 million names need little more memory than their
index.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from ..index.growing import GrowingArray, zeros
from ..index.protocol import Mask, Rows
from ..util.folding import is_capital_symbol
from .groups import pair_keys, ranges
from .ngrams import Forms, Grams, Spellings, hashed, to_unit_length

# Surface forms per block: about two million n-grams.
BLOCK_FORMS = 2**16
# Maximum number of n-grams of all forms that 32-bit integers can count.
MAX_INT32 = 2**31 - 1
Arrays = dict[str, np.ndarray]


def lexical_arrays(
    forms: Callable[[slice], Sequence[str]],
    entities: Rows,
    is_name: Mask | None = None,
    directory: Path | None = None,
) -> Arrays:
    """Build the arrays that `LexicalIndex` searches, by the names of their files.

    forms: returns a slice of the surface forms. entities: the entity row of each form (n,).
    is_name: mask of the pairs that are names of the entity, not guesses (n,); None: all.
    directory: folder for unnamed, mapped files that hold the arrays; None: keep them in memory.
    """
    hashes, written, spelt, symbols, acronyms, sizes, gram_indices, grams = _read(
        forms, len(entities), directory
    )
    # Forms are numbered in order of first occurrence; forms that fold to the same text are one.
    distinct, first, of_hash = np.unique(hashes, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int32)
    number[np.argsort(first)] = np.arange(len(first))
    of_form = number[of_hash]
    is_first = np.zeros(len(hashes), dtype=bool)
    is_first[first] = True
    arrays: Arrays = {"hashes": distinct, "by_hash": number, "grams": grams}
    names = np.ones(len(hashes), dtype=bool) if is_name is None else is_name
    arrays |= _written_forms(of_form, written, entities, names, len(number))
    arrays |= _spellings(spelt, of_form, symbols)
    # No entity has the lower-case form of an acronym.
    arrays["acronyms"] = np.ones(len(number), dtype=np.int8)
    np.minimum.at(arrays["acronyms"], of_form, acronyms)
    del hashes, written, spelt, symbols, acronyms, of_hash, first
    arrays |= _vectors(sizes, is_first, gram_indices, len(grams), directory)
    # Skip forms without n-grams.
    with_grams = np.diff(arrays["form_starts"])[of_form] > 0
    keys = pair_keys(of_form.astype(np.int64), entities)
    n_entities = int(entities.max(initial=-1)) + 1
    pairs = {"form": np.unique(keys[with_grams]), "name": np.unique(keys[with_grams & names])}
    for kind, own in pairs.items():
        form, entity = np.divmod(own, max(n_entities, 1))
        arrays[f"{kind}_entity_starts"], arrays[f"{kind}_entities"] = (
            _starts(form, len(number)),
            entity.astype(np.int32),
        )
    form, entity = np.divmod(pairs["form"], max(n_entities, 1))
    named = np.isin(pairs["form"], pairs["name"], assume_unique=True)
    starts = arrays["entity_form_starts"] = _starts(entity, n_entities)
    arrays["entity_forms"] = form[np.lexsort((~named, entity))].astype(np.int32)
    arrays["entity_name_ends"] = starts[:-1] + np.bincount(entity[named], minlength=n_entities)
    return arrays


def _written_forms(
    of_form: np.ndarray, written: Rows, entities: Rows, is_name: Mask, n_forms: int
) -> Arrays:
    """Collect the forms that several entities write in several ways.

    RETURNS: the forms, and pairs of the hash of a written form and an entity with that name,
        ascending.
    """
    order = np.lexsort((written, of_form))
    form, own = of_form[order], written[order]
    differs = (form[1:] == form[:-1]) & (own[1:] != own[:-1])
    several = np.zeros(n_forms, dtype=bool)
    several[form[1:][differs]] = True
    chosen = np.flatnonzero(several[of_form] & is_name)
    pairs = np.unique(
        np.stack([written[chosen], entities[chosen].astype(np.int64)], axis=1), axis=0
    )
    return {
        "written_forms": np.flatnonzero(several),
        "written_hashes": pairs[:, 0].copy(),
        "written_entities": pairs[:, 1].copy(),
    }


def _spellings(spelt: Rows, of_form: np.ndarray, symbols: np.ndarray) -> Arrays:
    """Sort the hashes of spellings, each with a form that has a name of that spelling. The symbols
    are 1 where all such names are symbols in capitals.
    """
    order = np.lexsort((symbols, of_form, spelt))
    order = order[spelt[order] != 0]
    spelling, form = spelt[order], of_form[order]
    is_first = np.append(True, (spelling[1:] != spelling[:-1]) | (form[1:] != form[:-1]))[
        : len(order)
    ]
    return {
        "spelling_hashes": spelling[is_first],
        "spelling_forms": form[is_first],
        "spelling_symbols": symbols[order][is_first],
    }


def _read(
    forms: Callable[[slice], Sequence[str]], n: int, directory: Path | None
) -> tuple[Rows, Rows, Rows, np.ndarray, np.ndarray, Rows, GrowingArray, np.ndarray]:
    """Return arrays (n,) of forms, and their n-grams.

    Per form: hashes of the canonical form, of the written one and of its spelling (0 for none);
    whether it is a symbol in capitals, and an acronym, which is one word; the number of n-grams.
    Then the indices of n-grams among all n-grams, form by form, and all n-grams, ascending."""
    hashes, written, spelt, sizes = (np.empty(n, dtype=np.int64) for _ in range(4))
    acronyms, symbols = np.zeros((2, n), dtype=np.int8)
    # Count phrases, and phrases in capitals: if most are in capitals, capitals carry no
    # information.
    n_phrases = n_capitals = 0
    # By the number of an n-gram, which is given to it when it is first seen.
    numbers = _growing(np.int32, directory)
    seen, number_of = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int32)
    for part in _blocks(n):
        own = forms(part)
        written_forms = Forms.of(own)
        folded, as_written = written_forms.canonical, written_forms.written
        acronyms[part] = [form.isupper() and form.isalpha() for form in own]
        symbols[part] = [*map(is_capital_symbol, own)]
        phrases = [form for form in own if " " in form]
        n_phrases, n_capitals = (
            n_phrases + len(phrases),
            n_capitals + sum(map(str.isupper, phrases)),
        )
        hashes[part] = hashed(folded)
        respelt = [i for i, form in enumerate(as_written) if form is not folded[i]]
        written[part] = hashes[part]
        written[part][respelt] = hashed([as_written[i] for i in respelt])
        spelt[part] = Spellings.of_forms(written_forms, hashes[part], own).hashes
        found = Grams.of(folded)
        sizes[part] = np.bincount(found.owners, minlength=len(folded))
        new = np.setdiff1d(found.keys, seen)
        number_of = np.append(number_of, len(seen) + np.arange(len(new), dtype=np.int32))
        seen = np.append(seen, new)
        order = np.argsort(seen)
        seen, number_of = seen[order], number_of[order]
        numbers.append(number_of[np.searchsorted(seen, found.keys)])
    rank_of = np.empty_like(number_of)
    rank_of[number_of] = np.arange(len(seen))
    for start in range(0, len(numbers), 2**22):
        some = slice(start, min(start + 2**22, len(numbers)))
        numbers[some] = rank_of[numbers[some]]
    if 2 * n_capitals > n_phrases:
        acronyms[:] = symbols[:] = 0
    return hashes, written, spelt, symbols, acronyms, sizes, numbers, seen


def _vectors(
    sizes: Rows, is_first: Mask, gram_indices: GrowingArray, n_grams: int, directory: Path | None
) -> Arrays:
    """The TF-IDF vectors of the forms that are the first of their kind, and their columns.

    sizes, gram_indices: as returned by `_read`.
    """
    from scipy.sparse import csr_matrix

    index_type = np.int32 if len(gram_indices) <= MAX_INT32 else np.int64
    indices, weights = _growing(index_type, directory), _growing(np.float32, directory)
    starts = [np.zeros(1, dtype=index_type)]
    frequencies = np.zeros(n_grams, dtype=np.int64)
    read = 0
    for part in _blocks(len(sizes)):
        kept, own = is_first[part], sizes[part]
        n = int(own.sum())
        here = gram_indices[read : read + n][np.repeat(kept, own)]
        owners = np.repeat(np.arange(kept.sum()), own[kept])
        counts = csr_matrix(
            (np.ones(len(here), np.float32), (owners, here)), shape=(int(kept.sum()), n_grams)
        )
        counts.sum_duplicates()
        starts.append(counts.indptr[1:].astype(index_type) + index_type(len(indices)))
        frequencies += np.bincount(counts.indices, minlength=n_grams)
        indices.append(counts.indices.astype(index_type))
        weights.append(counts.data)
        read += n
    form_starts = np.concatenate(starts)
    n_forms = len(form_starts) - 1
    idf = (np.log((1 + n_forms) / (1 + frequencies)) + 1).astype(np.float32)
    gram_starts = np.append(0, np.cumsum(frequencies)).astype(index_type)
    gram_forms, gram_weights = (
        zeros((len(indices),), each, directory) for each in (index_type, np.float32)
    )
    free = gram_starts[:-1].astype(np.int64)
    for part in _blocks(n_forms):
        edges = form_starts[part.start : part.stop + 1]
        cells = slice(int(edges[0]), int(edges[-1]))
        shape = part.stop - part.start, n_grams
        block = csr_matrix((weights[cells], indices[cells], edges - edges[0]), shape=shape)
        to_unit_length(block, idf)
        weights[cells] = block.data
        columns = block.tocsc()
        lengths = np.diff(columns.indptr)
        at = ranges(free, lengths)
        gram_forms[at], gram_weights[at] = columns.indices + part.start, columns.data
        free += lengths
    return {
        "frequencies": frequencies,
        "idf": idf,
        "form_starts": form_starts,
        "form_grams": indices.array,
        "form_weights": weights.array,
        "gram_starts": gram_starts,
        "gram_forms": gram_forms,
        "gram_weights": gram_weights,
    }


def _growing(dtype: type, directory: Path | None) -> GrowingArray:
    return GrowingArray(np.zeros(0, dtype), directory)


def _starts(keys: Rows, n: int) -> np.ndarray:
    """Return the start offset of the values of each key from 0 to n - 1, and the end of the last:
    (n + 1,).

    keys: ascending.
    """
    return np.append(0, np.cumsum(np.bincount(keys, minlength=n)))


def _blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, BLOCK_FORMS):
        yield slice(start, min(start + BLOCK_FORMS, n))
