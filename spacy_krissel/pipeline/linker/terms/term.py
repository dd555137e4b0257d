"""The interface of a term: one kind of evidence for an entity."""

from dataclasses import dataclass, field

import numpy as np

from ....kb.search_result import SearchResult
from ..query import Query


@dataclass
class Pairs:
    """Pairs of a mention and an entity (n,), which ascend by mention.

    mentions, entities: rows of the query and of the knowledge base.
    columns: column of the entity among the mention's proposals.
    prototypes: row of the entity's prototype that is nearest to the mention, -1 for none; known after the term of
        vectors, which comes first.
    """

    mentions: np.ndarray
    entities: np.ndarray
    columns: np.ndarray
    prototypes: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))


class Term:
    """One kind of evidence for an entity, and a part of its score: `weight` × the term's `score`.

    A class of one's own overrides `score`, and `propose` if it finds entities that no other term does. Its settings are
    the parameters of its `__init__`, declared with `@checked`. It is registered in `spacy_misc`, and named in the
    config of a linker, where it is one more term under the name that it has there:

        [components.krissel_linker.terms.popularity]
        @misc = "my.Popularity.v1"
        weight = 0.1

    name: the key of its score in candidates (`span._.krissel_candidates`).
    weight: multiplies the score in the sum; 0 leaves the term out.
    missing: in place of a score where there is no candidate.
    n_candidates: candidates that a mention needs, at least, so that the term can change their order.
    """

    name: str = ""
    weight: float = 1.0
    missing: float = 0.0
    n_candidates: int = 0

    def prepare(self, query: Query) -> None:
        """Look at the mentions before they are encoded; they may be renamed (`Query.rename`)."""

    def propose(self, query: Query, known: np.ndarray, k: int) -> np.ndarray | None:
        """Return rows of entities that should be among the candidates (q, any), -1 padded; None for no others.

        known (q, w): what the terms before this one proposed. k: candidates wanted of each mention.
        """
        return None

    def score(self, query: Query, pairs: Pairs) -> np.ndarray | None:
        """Return the score of each pair (n,), without the weight, -inf for an entity that is to be left out; None for a
        term that does not score pairs."""
        return None

    def revise(self, query: Query, result: SearchResult) -> SearchResult:
        """Return the candidates once those of all mentions are known, as where the document decides."""
        return result
