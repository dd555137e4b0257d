"""Interface of a term: one kind of evidence for an entity."""

from dataclasses import dataclass, field

import numpy as np

from ....kb.search_result import SearchResult
from ..query import Query


@dataclass
class Pairs:
    """Pairs of a mention and an entity (n,), ascending by mention.

    mentions, entities: rows of the query and of the knowledge base.
    columns: column of the entity among the mention's proposals.
    prototypes: row of the entity's prototype that is nearest to the mention, -1 for none; set by
        the vector term, which comes first.
    """

    mentions: np.ndarray
    entities: np.ndarray
    columns: np.ndarray
    prototypes: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class Term:
    """One kind of evidence for an entity, and a part of its score: `weight` × the term's `score`.

    A custom class overrides `score`, and `propose` if it finds entities that no other term does.
    Its settings are the parameters of its `__init__`, declared with `@checked`. It is registered in
    `spacy_misc` and added to a linker's config, under its name in candidates:

        [components.krissel_linker.terms.popularity]
        @misc = "my.Popularity.v1"
        weight = 0.1

    name: key of its score in candidates (`span._.krissel_candidates`).
    weight: multiplies the score in the sum; 0 disables the term.
    missing: score of an empty candidate slot.
    n_candidates: minimum number of candidates per mention, so that the term can change their order.
    """

    name: str = ""
    weight: float = 1.0
    missing: float = 0.0
    n_candidates: int = 0

    def prepare(self, query: Query) -> None:
        """Read the mentions before they are encoded; they may be renamed (`Query.rename`)."""

    def propose(self, query: Query, known: np.ndarray, k: int) -> np.ndarray | None:
        """Return rows of entities to add to the candidates (q, any), padded with -1; None for none.

        known (q, w): proposals of the terms before this one. k: number of candidates wanted per
            mention.
        """
        return None

    def score(self, query: Query, pairs: Pairs) -> np.ndarray | None:
        """Return the score of each pair (n,), without the weight, -inf to exclude an entity; None
        for a term that does not score pairs."""
        return None

    def revise(self, query: Query, result: SearchResult) -> SearchResult:
        """Return the candidates, revised once those of all mentions are known, for terms that use
        the whole document."""
        return result
