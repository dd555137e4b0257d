"""Baselines of span extraction and of linking without spans: by rule, by spelling, and by vectors
(OSLAT, §6.3, §7.3).

They are given the entities' names and never trained on the corpus; the vectors may be.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
from spacy.tokens import Doc

from spacy_krissel.mentions.discontinuous import join_fragments
from spacy_krissel.ontology.store import OntologyStore

from ..errors import Errors, KrisselError
from ..name_words import NameTable, NameTables, TextWord, doc_words, stop_words
from .records import Pieces

# Cells of the score block of names that is alive at a time (float32: 64 MiB).
BLOCK_CELLS = 2**24


class RuleMatch:
    """The longest matches of an entity's names in a text, stop words of either left out.

    A window of the text's words slides over it; a match is a window whose words are a whole name's,
    in order, case and punctuation apart. Of matches that overlap the longest counts, the first of
    two as long; the words of all that are left are the span, so that "swelling in the knee" is two
    pieces for a name "swelling of knee".

    The paper gives no rule for linking. Here an entity scores 1 + the number of words of its
    longest match; without a match, the largest share of a name's different words that stand
    anywhere in the text, 0 to 1.

    any_order: a window matches that has the name's words in whatever order.
    stop: stop words, spaCy's of `lang` by default. A name of nothing else never matches.
    """

    def __init__(
        self,
        store: OntologyStore,
        *,
        any_order: bool = False,
        stop: Collection[str] | None = None,
        lang: str = "en",
    ) -> None:
        self._stop = stop_words(lang) if stop is None else frozenset(stop)
        self._tables = NameTables(store, self._stop)
        self._one = NameTables(store, self._stop)
        self._any_order = any_order

    def spans(self, doc: Doc, entity_ids: Sequence[str]) -> dict[str, Pieces]:
        words = self._content(doc)
        texts = [word.text for word in words]
        table = self._one.table(entity_ids)
        found = {}
        for entity in entity_ids:
            keys = {self._key(table.words[row]) for row in table.of[entity]} - {()}
            matches = [
                (start, start + size)
                for size in sorted({len(key) for key in keys}, reverse=True)
                for start in range(len(texts) - size + 1)
                if self._key(texts[start : start + size]) in keys
            ]
            matched = [words[i] for start, end in _apart(matches) for i in range(start, end)]
            found[entity] = join_fragments((word.start, word.end) for word in matched)
        return found

    def scores(self, docs: Sequence[Doc], entity_ids: Sequence[str]) -> np.ndarray:
        """(docs, entities). Words are looked up, not names: time goes with the words that texts and
        names share."""
        from scipy.sparse import csr_matrix

        table = self._tables.table(entity_ids)
        column = {
            word: i
            for i, word in enumerate(dict.fromkeys(word for name in table.words for word in name))
        }
        texts = [[word.text for word in self._content(doc)] for doc in docs]

        def occurrences(lists: Sequence[Sequence[str]]) -> Any:
            """(lists, words), 1 where a list has a word."""
            cells = [
                (i, column[word])
                for i, words in enumerate(lists)
                for word in set(words)
                if word in column
            ]
            rows, columns = np.array(cells, dtype=np.int64).reshape(-1, 2).T
            return csr_matrix(
                (np.ones(len(cells), dtype=np.float32), (rows, columns)), (len(lists), len(column))
            )

        in_names, in_texts = occurrences(table.words).T, occurrences(texts)
        n_words = np.array([max(len(set(name)), 1) for name in table.words], dtype=np.float32)
        size = max(1, BLOCK_CELLS // max(1, len(table.words)))
        shares = [
            table.best((in_texts[start : start + size] @ in_names).toarray() / n_words)
            for start in range(0, len(docs), size)
        ]
        scores = (
            np.concatenate(shares) if shares else np.zeros((0, len(entity_ids)), dtype=np.float32)
        )
        bearers = self._bearers(table, entity_ids)
        longest = max((len(key) for key in bearers), default=0)
        for row, words in zip(scores, texts, strict=True):
            for start in range(len(words)):
                for end in range(start + 1, min(start + longest, len(words)) + 1):
                    for i in bearers.get(self._key(words[start:end]), ()):
                        row[i] = max(row[i], 1 + end - start)
        return scores

    def _bearers(
        self, table: NameTable, entity_ids: Sequence[str]
    ) -> dict[tuple[str, ...], list[int]]:
        bearers: dict[tuple[str, ...], list[int]] = {}
        for i, entity in enumerate(entity_ids):
            for key in {self._key(table.words[row]) for row in table.of[entity]} - {()}:
                bearers.setdefault(key, []).append(i)
        return bearers

    def _content(self, doc: Doc) -> list[TextWord]:
        return [word for word in doc_words(doc) if word.text not in self._stop]

    def _key(self, words: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted(words) if self._any_order else words)


class FuzzyMatch:
    """Spans of text that are spelled like one of an entity's names.

    Windows of words that begin and end with other than stop words are compared with each name by
    normalised Levenshtein similarity: 1 - edits / length of the longer, ignoring case and
    punctuation. Windows from `threshold` on are the spans; of overlapping ones the best counts, the
    first and then the longest of equals. Each is contiguous. For linking, an entity scores its best
    similarity, at any threshold.

    All distinct windows are compared with all names in one call of rapidfuzz, ten to thirty million
    pairs a second.

    best_only: only the best window of the text is a span.
    longer: number of words that a window may have beyond those of the longest name.
    stop: stop words, spaCy's of `lang` by default.
    Raises KrisselError K006 (a threshold outside of 0 to 1), K737 (rapidfuzz is not installed).
    """

    def __init__(
        self,
        store: OntologyStore,
        *,
        threshold: float = 0.8,
        best_only: bool = False,
        longer: int = 1,
        stop: Collection[str] | None = None,
        lang: str = "en",
    ) -> None:
        if not 0 < threshold <= 1:
            raise KrisselError(
                Errors.K006.format(
                    setting="threshold", found=threshold, expected="above 0, at most 1"
                )
            )
        try:
            import rapidfuzz  # noqa: F401
        except ImportError:
            raise KrisselError(Errors.K737) from None
        self._stop = stop_words(lang) if stop is None else frozenset(stop)
        self._tables, self._one = NameTables(store), NameTables(store)
        self._threshold, self._best_only, self._longer = threshold, best_only, longer

    def spans(self, doc: Doc, entity_ids: Sequence[str]) -> dict[str, Pieces]:
        table = self._one.table(entity_ids)
        words = doc_words(doc)
        windows = self._windows(words, table)
        texts = [" ".join(word.text for word in words[start:end]) for start, end in windows]
        found: dict[str, Pieces] = dict.fromkeys(entity_ids, ())
        if not windows:
            return found
        for entity, scores in zip(
            entity_ids, table.best(_similarities(texts, table)).T, strict=True
        ):
            # In float32, 0.8 is a little more than 0.8.
            near = [i for i, score in enumerate(scores) if score >= np.float32(self._threshold)]
            near.sort(key=lambda i: (-scores[i], windows[i][0], -windows[i][1]))
            best = _apart(windows[i] for i in (near[:1] if self._best_only else near))
            found[entity] = join_fragments(
                (words[start].start, words[end - 1].end) for start, end in best
            )
        return found

    def scores(self, docs: Sequence[Doc], entity_ids: Sequence[str]) -> np.ndarray:
        table = self._tables.table(entity_ids)
        row_of: dict[str, int] = {}
        cells = []
        for i, doc in enumerate(docs):
            words = doc_words(doc)
            for start, end in self._windows(words, table):
                text = " ".join(word.text for word in words[start:end])
                cells.append((row_of.setdefault(text, len(row_of)), i))
        scores = np.zeros((len(docs), len(entity_ids)), dtype=np.float32)
        rows, owners = np.array(sorted(set(cells)), dtype=np.int64).reshape(-1, 2).T
        texts = list(row_of)
        size = max(1, BLOCK_CELLS // max(1, len(table.words)))
        for first in range(0, len(texts), size):
            best = table.best(_similarities(texts[first : first + size], table))
            begin, end = np.searchsorted(rows, [first, first + size])
            for row, owner in zip(
                rows[begin:end].tolist(), owners[begin:end].tolist(), strict=True
            ):
                np.maximum(scores[owner], best[row - first], out=scores[owner])
        return scores

    def _windows(self, words: Sequence[TextWord], table: NameTable) -> list[tuple[int, int]]:
        content = [i for i, word in enumerate(words) if word.text not in self._stop]
        longest = max((len(name) for name in table.words), default=0) + self._longer
        return [(i, j + 1) for i in content for j in content if i <= j < i + longest]


def _apart(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges (start, end) without those that overlap an earlier one."""
    kept: list[tuple[int, int]] = []
    for start, end in ranges:
        if all(end <= other_start or other_end <= start for other_start, other_end in kept):
            kept.append((start, end))
    return kept


def _similarities(texts: Sequence[str], table: NameTable) -> np.ndarray:
    """(texts, names), 0 to 1."""
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    names = [" ".join(name) for name in table.words]
    return cdist(
        texts, names, scorer=Levenshtein.normalized_similarity, dtype=np.float32, workers=1
    )


class TextEncoder(Protocol):
    """Interface of a bi-encoder: names and texts to vectors (n, width) of one space."""

    def encode_names(self, names: list[str]) -> np.ndarray: ...

    def encode_texts(self, texts: list[str]) -> np.ndarray: ...


class BiEncoder:
    """Vectors of texts against vectors of names: the score of an entity is the largest cosine of
    its names and the text (OSLAT, §7.3). Gives no spans."""

    def __init__(self, store: OntologyStore, encoder: TextEncoder) -> None:
        self._store, self._encoder = store, encoder
        self._last: tuple[tuple[str, ...], np.ndarray, np.ndarray] = (
            (),
            np.zeros((0, 1)),
            np.zeros(0, np.int64),
        )

    def scores(self, docs: Sequence[Doc], entity_ids: Sequence[str]) -> np.ndarray:
        if not docs or not entity_ids:
            return np.zeros((len(docs), len(entity_ids)), dtype=np.float32)
        names, starts = self._names(tuple(entity_ids))
        texts = _unit(self._encoder.encode_texts([doc.text for doc in docs]))
        size = max(1, BLOCK_CELLS // len(names))
        blocks = [texts[start : start + size] @ names.T for start in range(0, len(texts), size)]
        return np.concatenate([np.maximum.reduceat(block, starts, axis=1) for block in blocks])

    def _names(self, entity_ids: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors of all names, and where each entity's begin; those of the last call are
        kept."""
        if entity_ids != self._last[0]:
            names = [self._store.get(id_).names for id_ in entity_ids]
            starts = np.cumsum([0, *(len(own) for own in names[:-1])])
            vectors = _unit(self._encoder.encode_names([name for own in names for name in own]))
            self._last = entity_ids, vectors, starts
        return self._last[1], self._last[2]


def _unit(vectors: np.ndarray) -> np.ndarray:
    vectors = np.asarray(vectors, dtype=np.float32)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(norms > 0, norms, 1)
