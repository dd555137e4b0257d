"""The linker's candidates of a mention that is among its own prototypes, as if it had never been seen."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ...kb.prototype_kb import PrototypeKB
from ...ontology.folding import fold_name
from ...views import View

# Prototypes looked through for each candidate wanted, and at least: an entity has many.
PER_CANDIDATE, FEWEST = 16, 256

folded = lru_cache(maxsize=200_000)(fold_name)


class Found(NamedTuple):
    """Candidates, best first: entity ids and the score of each (k,)."""

    ids: list[str]
    scores: np.ndarray


def unseen_candidates(
    kb: PrototypeKB,
    views: Sequence[View],
    vectors: np.ndarray,
    hidden: Sequence[bool],
    k: int,
    lexical_weight: float = 0.0,
) -> list[Found]:
    """Up to `k` entities for each mention, by the prototypes that it may see.

    A mention in context does not see what was made of this very place in a text: its own prototype, nor those that put
    other names in its stead. One that is `hidden` sees none that bears its name (folded) either, whichever entity's
    they are. A bare name that is not hidden sees them all.

    lexical_weight: that of `PrototypeKB.search`, over the same candidates: for a `hidden` mention its own form is none
        that counts. For the others it does, even where the mention's own prototype alone has it.
    """

    def can_see(query: int, rows: np.ndarray) -> np.ndarray:
        return _visible(kb, rows, views[query], hidden[query])

    result = kb.search_unseen(
        vectors,
        k,
        can_see,
        max(FEWEST, PER_CANDIDATE * k),
        texts=[view.mention for view in views],
        hidden=hidden,
        lexical_weight=lexical_weight,
    )
    found = [(entities[entities >= 0], scores) for entities, scores in zip(result.entities, result.scores, strict=True)]
    return [Found(list(kb.entity_ids.take(entities)), scores[: len(entities)]) for entities, scores in found]


def _visible(kb: PrototypeKB, rows: np.ndarray, view: View, hidden: bool) -> np.ndarray:
    """Which of the prototypes at `rows` (n,) a mention may see: (n,).

    Told by their texts and not by their scores, which references, weights and long forms of abbreviations change.
    """
    visible = np.ones(len(rows), dtype=bool)
    if view.left or view.right:
        visible &= ~kb.prototypes.in_context(rows, view.left, view.right)
    if hidden:
        own = folded(view.mention)
        visible &= np.array([folded(name) != own for name in kb.prototypes.mentions(rows)], dtype=bool)
    return visible
