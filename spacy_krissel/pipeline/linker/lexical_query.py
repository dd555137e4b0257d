"""Lookup of mentions' texts among the names of a knowledge base."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...lexical.groups import distinct, indices_of, pair_keys
from ...lexical.index import LexicalIndex
from ...lexical.ngrams import Spellings

# Number of entities that lexical search adds per query. On 9,284 mentions of two training splits, 2
# change 22 links and 16 change 43, less than 0.1 points of accuracy; 16 take three times as long.
LEXICAL_CANDIDATES = 4


class SpellingMatches(NamedTuple):
    """Entities that have a name with the spelling of a mention, as columns of one length.

    entities: rows. mentions: row of each one's mention, ascending. by_text: True if the mention's
        text matches, False if its alternative text does.
    """

    entities: np.ndarray
    mentions: np.ndarray
    by_text: np.ndarray

    def at(self, which: np.ndarray) -> "SpellingMatches":
        return SpellingMatches(*(each[which] for each in self))

    def lookup(self, mentions: np.ndarray, entities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return which pairs of a mention and an entity (n,) match, and which of them by the text."""
        keys = pair_keys(np.concatenate([self.mentions, mentions]), np.concatenate([self.entities, entities]))
        known, asked = np.split(keys, [len(self.mentions)])
        order = np.argsort(known)
        places = indices_of(known[order], asked)
        is_spelt, is_name = places >= 0, np.zeros(len(mentions), dtype=bool)
        is_name[is_spelt] = self.by_text[order][places[is_spelt]]
        return is_spelt, is_name


class LexicalQuery:
    """Texts of q mentions, as queries to a lexical index; equal texts are searched once.

    hidden (q,): for these, the surface form that the text folds to is ignored, as if no entity had
        it.
    """

    def __init__(self, index: LexicalIndex, texts: Sequence[str], hidden: Sequence[bool] | None = None) -> None:
        keys: Sequence[Any] = texts if hidden is None else list(zip(texts, hidden, strict=True))
        different, self._of_query = distinct(keys)
        self._asked = texts
        searched = different if hidden is None else [text for text, _ in different]
        self._index = index
        self._texts = index.read(searched)
        self._without = None
        if hidden is not None:
            is_hidden = np.array([each for _, each in different], dtype=bool)
            forms = self._texts.forms
            self._without = np.where(is_hidden, forms, -1)
            self._texts = self._texts._replace(forms=np.where(is_hidden, -1, forms))

    def candidates(self, allowed: np.ndarray | None = None) -> np.ndarray:
        """Return the entities that have each query's text as a name, or else those that lexical
        search finds: (q, `LEXICAL_CANDIDATES`), padded with -1.

        Searching for both changed no link of 27,813 mentions, and takes twice as long.
        """
        found = self._index.entities_with_forms(self._texts.forms, LEXICAL_CANDIDATES, allowed)
        rest = np.flatnonzero(found[:, 0] < 0)
        without = None if self._without is None else self._without[rest]
        found[rest] = self._index.search(self._texts.vectors[rest], LEXICAL_CANDIDATES, allowed, without)
        return found[self._of_query]

    def spelling_matches(
        self, alternatives: Sequence[str] | None = None, species: np.ndarray | None = None
    ) -> SpellingMatches:
        """Return the entities that have a name with the `spelling` of each query's text.

        alternatives: alternative texts (q,), which count for the species in which no entity has the
            text.
        species: index of each entity's species; None: all entities are of one.
        """
        entities, owner = self._index.entities_with_spellings(self._texts.spellings).take(self._of_query)
        if alternatives is None:
            return SpellingMatches(entities, owner, np.ones(len(owner), dtype=bool))
        differ = np.flatnonzero([other != text for other, text in zip(alternatives, self._asked, strict=True)])
        different, of_other = distinct([alternatives[i] for i in differ.tolist()])
        others, index = self._index.entities_with_spellings(Spellings.of(different)).take(of_other)
        both, owners = np.append(entities, others), np.append(owner, differ[index])
        keys = owners if species is None else pair_keys(owners, species[both])
        kept = np.append(np.ones(len(entities), dtype=bool), ~np.isin(keys[len(entities) :], keys[: len(entities)]))
        order = np.flatnonzero(kept)[np.argsort(owners[kept], kind="stable")]
        return SpellingMatches(both[order], owners[order], order < len(entities))

    def similarity(self, queries: np.ndarray, entities: np.ndarray) -> np.ndarray:
        """Return the lexical similarity of the `queries` (n,) with `entities` (n,): (n,), from 0 to
        1."""
        # Queries with the same text share many candidates.
        keys = pair_keys(self._of_query[queries], entities)
        _, one, of_pair = np.unique(keys, return_index=True, return_inverse=True)
        text = self._of_query[queries[one]]
        return self._index.similarity(self._texts, text, entities[one], self._without)[of_pair]

    def of_candidates(self, entities: np.ndarray) -> np.ndarray:
        """Return the lexical similarity of each query with its candidates (q, k), 0 for none: (q,
        k)."""
        query, column = np.nonzero(entities >= 0)
        found = np.zeros(entities.shape, dtype=np.float32)
        found[query, column] = self.similarity(query, entities[query, column])
        return found
