"""Spelling term: names with the letters and digits of the mention, whatever separates them ("IL-2"
and "IL2")."""

import numpy as np

from ....kb.snapshot import KBSnapshot
from ....lexical.groups import pad_groups
from ...settings import LinkerSettings
from ..query import Query
from .term import Pairs, Term

# Maximum number of entities proposed per spelling: a name of thousands of entities would use the
# memory of the whole batch.
MAX_SPELLING_MATCHES = 64


class SpellingTerm(Term):
    """Gain of an entity that has a name with the `spelling` of the mention's text or, if none of
    its species has, of the mention as written in the document.

    added: in units of the score.
    """

    name = "spelling"

    def __init__(self, added: float) -> None:
        self.added = added

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "SpellingTerm | None":
        """Return the term; None if it is off."""
        return cls(settings.spelling_weight) if settings.spelling_weight else None

    def propose(self, query: Query, known: np.ndarray, k: int) -> np.ndarray:
        matches = query.spelling_matches
        # Most matches have already been proposed.
        missing = (known[matches.mentions] != matches.entities[:, None]).all(axis=1)
        owners = matches.mentions[missing]
        most = int(np.bincount(owners, minlength=1).max())
        return pad_groups(
            matches.entities[missing], owners, len(query), min(most, MAX_SPELLING_MATCHES)
        )

    def score(self, query: Query, pairs: Pairs) -> np.ndarray:
        return (
            np.float32(self.added)
            * query.spelling_matches.lookup(pairs.mentions, pairs.entities)[0]
        )
