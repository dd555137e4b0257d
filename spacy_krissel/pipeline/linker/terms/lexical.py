"""Lexical term: character n-gram similarity of the mention and an entity's nearest name."""

import numpy as np

from ....kb.snapshot import KBSnapshot
from ....lexical.index import SAME_SPELLING
from ...settings import LinkerSettings
from ..query import Query
from .term import Pairs, Term


class LexicalTerm(Term):
    """Similarity, 0 to 1, of the mention's text with the entity's nearest name (`LexicalIndex`).

    by_spelling: treat a name with the spelling of the text as the same name.
    """

    name = "lexical"

    def __init__(self, weight: float, *, by_spelling: bool = False) -> None:
        self.weight, self.by_spelling = weight, by_spelling

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "LexicalTerm":
        """Return the term."""
        return cls(settings.lexical_weight, by_spelling=settings.spelling_weight > 0)

    def propose(self, query: Query, known: np.ndarray, k: int) -> np.ndarray:
        return query.lexical.candidates(query.allowed)

    def score(self, query: Query, pairs: Pairs) -> np.ndarray:
        similar = query.lexical.similarity(pairs.mentions, pairs.entities)
        if not self.by_spelling:
            return similar
        _, is_name = query.spelling_matches.lookup(pairs.mentions, pairs.entities)
        return np.where(is_name, np.maximum(similar, np.float32(SAME_SPELLING)), similar)
