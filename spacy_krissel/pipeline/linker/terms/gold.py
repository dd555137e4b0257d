"""Gold term: an entity that was annotated once is likelier to be annotated again."""

import numpy as np

from ....kb.snapshot import KBSnapshot
from ...settings import LinkerSettings
from ..query import Query
from .term import Pairs, Term


class GoldTerm(Term):
    """Gain of an entity with a gold mention, if the text is a name of at most one entity.

    added: in units of the score.
    """

    name = "gold"

    def __init__(self, added: float) -> None:
        self.added = added

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "GoldTerm | None":
        """Return the term; None if it is off, or no gold mention is a prototype."""
        return cls(settings.gold_prior) if settings.gold_prior and kb.has_gold else None

    def score(self, query: Query, pairs: Pairs) -> np.ndarray:
        is_gold = np.isin(pairs.entities, query.kb.prototypes.gold_entities)
        return np.float32(self.added) * (query.is_unambiguous[pairs.mentions] & is_gold)
