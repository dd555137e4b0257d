"""Names with the letters and digits of the mention, whatever separates these: "IL-2" and "IL2"."""

import numpy as np

from ....kb.snapshot import KBSnapshot
from ....lexical.groups import pad_groups
from ...settings import LinkerSettings
from ..query import Query
from .term import Pairs, Term

# Entities with a mention's spelling that are looked at, whatever else finds more of them: one name of thousands would
# take the memory of all of a batch.
MAX_SPELT = 64


class SpellingTerm(Term):
    """Gain of an entity that has a name with the `spelling` of the mention's text, or, if none of its species has, with
    that of the mention as the document writes it.

    added: in units of the score.
    """

    name = "spelling"

    def __init__(self, added: float) -> None:
        self.added = added

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "SpellingTerm | None":
        """Return the term; None where it is off."""
        return cls(settings.spelling_weight) if settings.spelling_weight else None

    def propose(self, query: Query, known: np.ndarray, k: int) -> np.ndarray:
        spelt = query.spelt
        # Most are among those that were found.
        missing = (known[spelt.mentions] != spelt.entities[:, None]).all(axis=1)
        owners = spelt.mentions[missing]
        most = int(np.bincount(owners, minlength=1).max())
        return pad_groups(spelt.entities[missing], owners, len(query), min(most, MAX_SPELT))

    def score(self, query: Query, pairs: Pairs) -> np.ndarray:
        return np.float32(self.added) * query.spelt.find(pairs.mentions, pairs.entities)[0]
