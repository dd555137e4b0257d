"""Entities found for mentions, with the terms of their scores."""

from dataclasses import dataclass, field

import numpy as np

from ..index.hits import no_hits
from ..index.protocol import Rows, Scores

# How the name of a candidate was found (`pipeline.linker.match`), the weakest match first.
MATCH_MEANINGS = {
    "context": "is less similar to any name: vectors found the entity",
    "similar": "has a lexical similarity of 0.4 or more with a name",
    "variant": "was found by other forms, order or words of a name, or in a coordination",
    "spelling": (
        "has the letters and digits of a name (IL-2, IL2), or differs in accents or an acronym's "
        "case"
    ),
    "abbreviation": (
        "contains an abbreviation that the document defines, and its long form is or resembles a "
        "name"
    ),
    "mention": "is no name of the entity, but was annotated with it, in this form or another",
    "synonym": "is another name of the entity, or one that was added to the finder",
    "label": "is the preferred name of the entity",
}
MATCHES = tuple(MATCH_MEANINGS)


@dataclass(frozen=True)
class SearchResult:
    """Best distinct entities of each query, best first.

    entities: entity rows (q, k), padded with -1.
    scores: (q, k), padded with -inf: the highest inner product with one of the entity's prototypes,
        or the sum of all terms. Entities that tie at the top all have the top score, in the order
        of `kb.ties`.
    prototypes: the row of the nearest of the entity's prototypes (q, k), padded with -1.
    ties: the entity rows that tie at the top, in the order of their ids, for each query with two or
        more; an approximate index may have missed some.
    parts: the terms of the scores by their names, each (q, k); empty if the scores are those of
        vectors alone.
    confidence, by_name: the confidence of each (q, k), and that by its name alone (`Confidence`);
        None if not computed. known: probability that the knowledge base has the mention's entity
        (q, 1); None: 1. The confidence is multiplied by it last.
    match: index in `MATCHES` of how the name of each was found (q, k), -1 for no entity; None if
        names were not compared.
    verdicts: the row of the verdict that decided the link of each (q,), -1 for none; None if there
        are none. The first entity is then that of a correction; without one, the mention has no
        entity.
    extra_prototypes: rows of the entity's next nearest prototypes (q, k, m), -1 where none was
        found; None if not requested. With them, entities that tie at the top have neither these nor
        a prototype, since what distinguishes them may be any.
    """

    entities: Rows
    scores: Scores
    prototypes: Rows
    ties: dict[int, Rows]
    parts: dict[str, Scores] = field(default_factory=dict)
    confidence: np.ndarray | None = None
    by_name: np.ndarray | None = None
    known: np.ndarray | None = None
    match: np.ndarray | None = None
    verdicts: Rows | None = None
    extra_prototypes: Rows | None = None

    @classmethod
    def padded(cls, n: int, k: int, extra_prototypes: int = 0) -> "SearchResult":
        """Return the result of `n` queries that found nothing, to be filled in."""
        scores, entities = no_hits(n, k)
        more = np.full((n, k, extra_prototypes), -1, dtype=np.int64) if extra_prototypes else None
        return cls(entities, scores, entities.copy(), {}, extra_prototypes=more)

    def at(self, queries: Rows) -> "SearchResult":
        """Return the result of these queries (n,), which may contain repeats."""
        ties = {
            row: self.ties[query]
            for row, query in enumerate(queries.tolist())
            if query in self.ties
        }
        parts = {name: values[queries] for name, values in self.parts.items()}
        match, extra_prototypes = (
            None if values is None else values[queries]
            for values in (self.match, self.extra_prototypes)
        )
        entities, scores, prototypes = (
            self.entities[queries],
            self.scores[queries],
            self.prototypes[queries],
        )
        return SearchResult(
            entities,
            scores,
            prototypes,
            ties,
            parts,
            match=match,
            extra_prototypes=extra_prototypes,
        )

    def tied(self, query: int) -> Rows:
        """Return the entity rows at the top: one, several if they tie, none if nothing was
        found.
        """
        best = self.entities[query, :1]
        return self.ties.get(query, best[best >= 0])

    def with_tied(self) -> Rows:
        """Return the entities, and those that tie at the top beyond k: (q, w), -1 padded."""
        most = max(map(len, self.ties.values()), default=0)
        beyond = np.full((len(self.entities), most), -1, dtype=np.int64)
        for query, group in self.ties.items():
            beyond[query, : len(group)] = group
        return np.concatenate([self.entities, beyond], axis=1)

    def all_prototypes(self) -> Rows:
        """Return the rows of all prototypes found per entity: (q, k, m), -1 padded."""
        nearest = self.prototypes[:, :, None]
        return (
            nearest
            if self.extra_prototypes is None
            else np.concatenate([nearest, self.extra_prototypes], axis=2)
        )
