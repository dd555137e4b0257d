"""The linker's candidates of a mention that is among its own prototypes, as if it had never been seen."""

from functools import lru_cache
from typing import List, NamedTuple, Sequence

import numpy as np

from ..kb.prototype_kb import PrototypeKB
from ..ontology.names import fold_name
from ..views import View

# Prototypes looked through for each candidate wanted, and at least: an entity has many.
PER_CANDIDATE, FEWEST = 16, 256

folded = lru_cache(maxsize=200_000)(fold_name)


class Found(NamedTuple):
    """Candidates, best first: entity ids and the score of each (k,)."""

    ids: List[str]
    scores: np.ndarray


def unseen_candidates(
    kb: PrototypeKB, views: Sequence[View], vectors: np.ndarray, hidden: Sequence[bool], k: int
) -> List[Found]:
    """Up to `k` entities for each mention, by the prototypes that it may see.

    A mention in context does not see what was made of this very place in a text: its own prototype, nor those that put
    other names in its stead. One that is `hidden` sees none that bears its name (folded) either, whichever entity's
    they are. A bare name that is not hidden sees them all.
    """
    scores, rows, entities = kb.nearest_prototypes(vectors, max(FEWEST, PER_CANDIDATE * k))
    ids = kb.entity_ids
    found = []
    for i, view in enumerate(views):
        seen = rows[i] >= 0
        seen[seen] = _visible(kb, rows[i][seen], view, hidden[i])
        best, first = np.unique(entities[i][seen], return_index=True)
        order = np.argsort(first)[:k]
        found.append(Found([ids[int(row)] for row in best[order]], scores[i][seen][first[order]]))
    return found


def _visible(kb: PrototypeKB, rows: np.ndarray, view: View, hidden: bool) -> np.ndarray:
    """Which of the prototypes at `rows` (n,) a mention may see: (n,).

    Told by their texts and not by their scores, which references, weights and long forms of abbreviations change.
    """
    visible = np.ones(len(rows), dtype=bool)
    if view.left or view.right:
        visible &= ~kb.prototypes_in_context(rows, view.left, view.right)
    if hidden:
        own = folded(view.mention)
        visible &= [folded(name) != own for name in kb.prototype_mentions(rows)]
    return visible
