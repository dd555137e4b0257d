"""Candidates for a mention that is a prototype itself, as if it had never been seen."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...kb.search_result import SearchResult
from ...kb.snapshot import KBSnapshot
from ...util.folding import fold_name
from ...util.memory import MAX_REMEMBERED
from ...views import View
from .linking import search_candidates
from .query import Query, Visible
from .terms.lexical import LexicalTerm
from .terms.vectors import VectorTerm

# Prototypes examined per candidate, and their minimum: an entity has many.
PER_CANDIDATE, MIN_PROTOTYPES = 16, 256

folded = lru_cache(maxsize=MAX_REMEMBERED)(fold_name)


class Unseen(NamedTuple):
    """Candidates, best first: entity ids and the score of each (k,)."""

    ids: list[str]
    scores: np.ndarray


def search_visible(query: Query, k: int, lexical_weight: float) -> SearchResult:
    """Return the best `k` candidates by vectors and lexical similarity: other terms need
    documents."""
    return search_candidates(
        query, [VectorTerm(), *([LexicalTerm(lexical_weight)] if lexical_weight else [])], k
    )


def unseen_candidates(
    kb: KBSnapshot,
    views: Sequence[View],
    vectors: np.ndarray,
    hidden: Sequence[bool],
    k: int,
    lexical_weight: float = 0.0,
) -> list[Unseen]:
    """Return up to `k` entities for each mention, by the prototypes that it may see.

    A mention in context does not see the prototypes at its own position in a text: itself, and
    those where another name replaces it. These are recognised by their texts: references, weights
    and expanded abbreviations change scores. A `hidden` mention does not see prototypes with its
    name (folded) either, of any entity. A bare name that is not hidden sees all.

    lexical_weight: of `LexicalTerm`; the form of a `hidden` mention does not count.
    """

    def can_see(query: int, rows: np.ndarray) -> np.ndarray:
        view = views[query]
        visible = np.ones(len(rows), dtype=bool)
        if view.left or view.right:
            visible &= ~kb.prototypes.in_context(rows, view.left, view.right)
        if hidden[query]:
            own = folded(view.mention)
            visible &= np.array(
                [folded(name) != own for name in kb.prototypes.mentions(rows)], dtype=bool
            )
        return visible

    kb = kb.snapshot()
    visible = Visible(can_see, hidden, max(MIN_PROTOTYPES, PER_CANDIDATE * k))
    query = Query(kb, [*views], vectors=kb.queries(vectors), visible=visible)
    result = search_visible(query, k, lexical_weight)
    found = [
        (entities[entities >= 0], scores)
        for entities, scores in zip(result.entities, result.scores, strict=True)
    ]
    return [
        Unseen(list(kb.entity_ids.take(entities)), scores[: len(entities)])
        for entities, scores in found
    ]
