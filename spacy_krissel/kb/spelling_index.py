"""The entities of a knowledge base by how their names are spelt."""

from collections.abc import Sequence

import numpy as np

from ..index.protocol import Rows
from ..ontology.folding import spelling
from .groups import Groups
from .lexical_index import distinct, places_of
from .ngrams import hashed


class SpellingIndex:
    """The entities that have a name with the spelling of a text (`spelling`), such as "IL2" for "IL-2".

    names: surface forms. entities: the entity row of each, (len(names),). Pairs may be repeated.
    """

    def __init__(self, names: Sequence[str], entities: Rows) -> None:
        spellings, of_name = distinct([spelling(name) for name in names])
        # Their hashes and not they, of which there are millions.
        self._hashes = hashed(spellings)
        order = np.argsort(self._hashes)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        self._hashes = self._hashes[order]
        pairs = np.unique(np.stack([rank[of_name], entities], axis=1), axis=0)
        self._entities = Groups.of(pairs[:, 0], pairs[:, 1])

    def named_by_any(self, forms: Sequence[Sequence[str]]) -> tuple[Rows, Rows]:
        """The entities with the spelling of one of each mention's texts, and for each the mention, ascending.

        forms: lists of texts, of one for each mention (q,).
        """
        found = [self._entities.take(self._places(texts)) for texts in forms]
        pairs = np.concatenate([np.stack([owner, entities], axis=1) for entities, owner in found])
        owner, entities = np.unique(pairs, axis=0).T
        return entities, owner

    def _places(self, texts: Sequence[str]) -> Rows:
        spellings = [spelling(text) for text in texts]
        found = places_of(self._hashes, hashed(spellings))
        # Symbols alone have none.
        found[[not each for each in spellings]] = -1
        return found
