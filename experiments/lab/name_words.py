"""Texts and names as folded words, the same way for both, for baselines that compare them word by
word."""

import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from spacy.tokens import Doc
from spacy.util import get_lang_class

from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.folding import fold_name

_WORD = re.compile(r"[^\W_]+")


@cache
def stop_words(lang: str) -> frozenset[str]:
    """spaCy's stop words of a language."""
    return frozenset(get_lang_class(lang).Defaults.stop_words)


def split_words(text: str) -> list[str]:
    """The runs of letters and digits, folded as `fold_name` folds: "X-rays" is x, rays."""
    return [fold_name(match.group()) for match in _WORD.finditer(text)]


class TextWord(NamedTuple):
    """A word of a text and the tokens that it touches: [start, end)."""

    text: str
    start: int
    end: int


def doc_words(doc: Doc) -> list[TextWord]:
    """The words of a doc as `split_words` makes them, wherever its tokenizer cuts."""
    token_at = [token.i for token in doc for _ in token.text_with_ws]
    text = doc.text
    return [
        TextWord(fold_name(match.group()), token_at[match.start()], token_at[match.end() - 1] + 1)
        for match in _WORD.finditer(text)
    ]


class NameTable:
    """The names of some entities as words.

    words: of each different name of each entity, in the entities' order. of: rows of `words` by
        entity.
    stop: words to leave out; a name of nothing else is left without words.
    """

    def __init__(
        self, store: OntologyStore, entity_ids: Sequence[str], stop: Collection[str] = ()
    ) -> None:
        self.words: list[tuple[str, ...]] = []
        self.of: dict[str, range] = {}
        starts = []
        for id_ in entity_ids:
            starts.append(len(self.words))
            names = (
                tuple(w for w in split_words(name) if w not in stop)
                for name in store.get(id_).names
            )
            self.words.extend(dict.fromkeys(names))
            self.of[id_] = range(starts[-1], len(self.words))
        self._starts = np.array(starts, dtype=np.int64)

    def best(self, scores: np.ndarray) -> np.ndarray:
        """The best score of each entity (n, entities), from those of its names (n, names)."""
        if not len(self._starts):
            return np.zeros((len(scores), 0), dtype=scores.dtype)
        return np.maximum.reduceat(scores, self._starts, axis=1)


class NameTables:
    """The tables of a store, the last one kept: an evaluation asks for the same entities block by
    block."""

    def __init__(self, store: OntologyStore, stop: Collection[str] | None = None) -> None:
        self._store, self._stop = store, frozenset(stop or ())
        self._last: tuple[tuple[str, ...], NameTable] = ((), NameTable(store, ()))

    def table(self, entity_ids: Sequence[str]) -> NameTable:
        """Raises KrisselError K106 for an entity that the store does not hold."""
        ids = tuple(entity_ids)
        if ids != self._last[0]:
            self._last = ids, NameTable(self._store, ids, self._stop)
        return self._last[1]
