"""Words term: words of the mention and of an entity's names, and their induced equivalents."""

import numpy as np

from ....kb.snapshot import KBSnapshot
from ...settings import LinkerSettings
from ..query import Query
from .term import Pairs, Term


class WordsTerm(Term):
    """Similarity, 0 to 1, of the mention's words with those of the entity's nearest name, where the
    names show some words to be equivalent (`Words`)."""

    name = "words"

    def __init__(self, weight: float) -> None:
        self.weight = weight

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "WordsTerm | None":
        """Return the term; None if it is off, or many names have digits."""
        if not settings.words_weight or not kb.prototypes.lexical_index.words:
            return None
        return cls(settings.words_weight)

    def score(self, query: Query, pairs: Pairs) -> np.ndarray:
        return query.lexical.word_similarity(pairs.mentions, pairs.entities)
