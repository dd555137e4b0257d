"""Vector term: the inner product of a mention with an entity's nearest prototype."""

from typing import Any

import numpy as np

from ....kb.alike import nearest_among_entities
from ....kb.nearest import nearest_among, nearest_of_entities
from ....kb.ranking import best_entities, search_entities
from ....kb.search_result import SearchResult
from ....kb.snapshot import KBSnapshot
from ...settings import LinkerSettings
from ..query import Names, Query
from .term import Pairs, Term

# Additional prototypes kept per entity if entities are searched for with other vectors than they
# are compared with. On the training splits of NCBI Disease and BC5CDR's diseases, 0, 1, 2, 3 and
# all have 83.0, 83.0, 83.1, 83.1, 83.1 and 80.4, 80.4, 80.5, 80.6, 80.7.
EXTRA_PROTOTYPES = 3
# From this number of prototypes on, the exact index compares a name of a gene only with the
# entities that have one of this number of lexically most similar forms, and returns at most so many
# of the nearest prototypes; with all prototypes if no form is similar. On the 17,472 mentions of
# the training splits of GNormPlus, NLM-Gene and BioRED, 128, 256 and 512 forms change 81, 50 and 41
# links, and take 511, 535 and 715 µs a mention instead of 1,991.
MIN_ALIKE, ALIKE_FORMS, MAX_NEAREST = 250_000, 256, 512


class VectorTerm(Term):
    """Highest inner product of the mention's vector with one of the entity's prototypes (KRISSBERT
    §3.4), to which the entity's reference is added if references are in use (eq. 6). It comes
    first, since it finds each entity's prototype.

    name_weight: weight of the mention's text alone, instead of the mention in its context, if the
        text is a name of at most one entity.
    """

    name = "vector"
    missing = -np.inf

    def __init__(self, name_weight: float = 0.0) -> None:
        self.name_weight = name_weight

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "VectorTerm":
        """Return the term."""
        return cls(name_weight(settings, kb))

    def search(self, query: Query, k: int) -> list[SearchResult]:
        """Return the nearest `k` entities of each mention, and of its name if that counts."""
        index, prototypes = query.kb.build_index(), query.kb.prototypes
        if query.visible is not None:
            return [_visible(query, index, k)]
        if query.names is None:
            found = [search_entities(index, prototypes, query.vectors, k, query.allowed)]
        else:
            by_name = search_entities(
                index,
                prototypes,
                query.names.vectors,
                k,
                query.allowed,
                EXTRA_PROTOTYPES,
                self._alike(query, query.names, index),
            )
            found = [by_name.at(query.names.of_mention)]
        if query.name_vectors is not None:
            found.append(search_entities(index, prototypes, query.name_vectors, k, query.allowed))
        return found

    @staticmethod
    def _alike(query: Query, names: Names, index: Any) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the prototypes nearest to each name among those of lexically similar entities
        (`nearest_among_entities`); None where all prototypes are compared."""
        prototypes = query.kb.prototypes
        is_slow = index.kind == "exact" and index.device == "cpu"
        if query.species is None or not is_slow or len(prototypes) < MIN_ALIKE:
            return None
        first = np.unique(names.of_mention, return_index=True)[1]
        entities, owner = query.lexical.alike(first, ALIKE_FORMS)
        return nearest_among_entities(
            prototypes, names.vectors, entities, owner, MAX_NEAREST, query.allowed
        )

    def propose(self, query: Query, known: np.ndarray, k: int) -> np.ndarray:
        found = self.search(query, k)
        query.near = found[0].all_prototypes()
        return np.concatenate([each.with_tied() for each in found], axis=1)

    def score(self, query: Query, pairs: Pairs) -> np.ndarray:
        # Scored with the stored vectors, whatever search found them, since an index may round its
        # own.
        prototypes = query.kb.prototypes
        rows, best = nearest_among(
            prototypes, query.vectors, pairs.mentions, query.near, pairs.columns
        )
        unknown = rows < 0
        rows[unknown], best[unknown] = self._nearest(query, pairs, unknown)
        pairs.prototypes = rows
        if query.name_vectors is not None:
            _, by_name = nearest_of_entities(
                prototypes, query.name_vectors, pairs.mentions, pairs.entities
            )
            fraction = np.float32(self.name_weight) * query.is_unambiguous[pairs.mentions]
            best = (1 - fraction) * best + fraction * by_name
        return best

    def compare_all(self, query: Query, pairs: Pairs, which: np.ndarray) -> np.ndarray:
        """Compare the pairs in `which` with all prototypes of their entities, and return their
        scores."""
        pairs.prototypes[which], best = self._nearest(query, pairs, which)
        return best

    @staticmethod
    def _nearest(query: Query, pairs: Pairs, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        can_see = None if query.visible is None else query.visible.can_see
        mentions, entities = pairs.mentions[which], pairs.entities[which]
        return nearest_of_entities(query.kb.prototypes, query.vectors, mentions, entities, can_see)


def name_weight(settings: LinkerSettings, kb: KBSnapshot) -> float:
    """Return the weight of mentions' texts alone, which count if gold mentions are prototypes."""
    return settings.gold_name_weight if settings.context != "none" and kb.has_gold else 0.0


def nearest_prototypes(query: Query, index: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the scores and rows of the nearest prototypes, visible or not, of mentions that do not
    see all (`Visible.nearest`)."""
    assert query.visible is not None, "mentions do not see all"
    n = min(query.visible.n_prototypes, len(query.kb.prototypes))
    found: tuple[np.ndarray, np.ndarray] = index.search(query.vectors, n)
    return found


def _visible(query: Query, index: Any, k: int) -> SearchResult:
    assert query.visible is not None, "mentions do not see all"
    prototypes, can_see = query.kb.prototypes, query.visible.can_see
    scores, rows = map(np.copy, query.visible.nearest or nearest_prototypes(query, index))
    entities = np.where(rows >= 0, prototypes.entity_rows[rows], -1)
    for mention in range(len(rows)):
        inside = np.flatnonzero(rows[mention] >= 0)
        hidden = inside[~can_see(mention, rows[mention, inside])]
        scores[mention, hidden], rows[mention, hidden], entities[mention, hidden] = -np.inf, -1, -1
    return best_entities(entities, scores, rows, k)
