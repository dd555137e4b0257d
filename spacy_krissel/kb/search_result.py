"""Entities that were found for mentions, with the parts of their scores."""

from dataclasses import dataclass, field

import numpy as np

from ..index.hits import no_hits
from ..index.protocol import Rows, Scores


@dataclass(frozen=True)
class SearchResult:
    """The best distinct entities of each query, best first.

    entities: entity rows (q, k), padded with -1.
    scores: (q, k), padded with -inf: the highest inner product with one of the entity's prototypes, or the sum of all
        terms. Entities that tie at the top all have the top score, and stand in the order of `kb.ties`.
    prototypes: the row of the nearest of the entity's prototypes (q, k), padded with -1.
    ties: the entity rows that tie at the top, in the order of their ids, for each query with two or more; an
        approximate index may have missed some.
    parts: the terms of the scores by their names, each (q, k); empty where the scores are those of vectors alone.
    confidence, by_name: the confidence of each (q, k), and that by its name alone, as `Confidence` has them; None where
        they are not computed.
    further: rows of the entity's next nearest prototypes (q, k, m), as far as they were found, else -1; None where they
        were not asked for. Where they were, entities that tie at the top have none, and no prototype either: what sets
        them apart from what they are compared with next may be any.
    """

    entities: Rows
    scores: Scores
    prototypes: Rows
    ties: dict[int, Rows]
    parts: dict[str, Scores] = field(default_factory=dict)
    confidence: np.ndarray | None = None
    by_name: np.ndarray | None = None
    further: Rows | None = None

    @classmethod
    def padded(cls, n: int, k: int, further: int = 0) -> "SearchResult":
        """The result of `n` queries that found nothing, to be written to."""
        scores, entities = no_hits(n, k)
        more = np.full((n, k, further), -1, dtype=np.int64) if further else None
        return cls(entities, scores, entities.copy(), {}, further=more)

    def at(self, queries: Rows) -> "SearchResult":
        """The result of these queries (n,), which may be there several times."""
        ties = {row: self.ties[query] for row, query in enumerate(queries.tolist()) if query in self.ties}
        parts = {name: values[queries] for name, values in self.parts.items()}
        further = None if self.further is None else self.further[queries]
        entities, scores, prototypes = self.entities[queries], self.scores[queries], self.prototypes[queries]
        return SearchResult(entities, scores, prototypes, ties, parts, further=further)

    def tied(self, query: int) -> Rows:
        """The entity rows at the top: one, unless several tie; none where nothing was found."""
        best = self.entities[query, :1]
        return self.ties.get(query, best[best >= 0])

    def with_tied(self) -> Rows:
        """The entities, and those that tie at the top beyond k: (q, w), -1 padded."""
        most = max(map(len, self.ties.values()), default=0)
        beyond = np.full((len(self.entities), most), -1, dtype=np.int64)
        for query, group in self.ties.items():
            beyond[query, : len(group)] = group
        return np.concatenate([self.entities, beyond], axis=1)

    def near(self) -> Rows:
        """The rows of all prototypes that were found of each entity: (q, k, m), -1 padded."""
        nearest = self.prototypes[:, :, None]
        return nearest if self.further is None else np.concatenate([nearest, self.further], axis=2)
