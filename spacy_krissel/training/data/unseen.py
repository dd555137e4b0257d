"""The linker's candidates of a mention that is among its own prototypes, as if it had never been seen."""

from functools import lru_cache
from typing import List, NamedTuple, Sequence

import numpy as np

from ...kb.prototype_kb import PrototypeKB
from ...ontology.folding import fold_name
from ...views import View

# Prototypes looked through for each candidate wanted, and at least: an entity has many.
PER_CANDIDATE, FEWEST = 16, 256

folded = lru_cache(maxsize=200_000)(fold_name)


class Found(NamedTuple):
    """Candidates, best first: entity ids and the score of each (k,)."""

    ids: List[str]
    scores: np.ndarray


class _Nearest(NamedTuple):
    """The entity rows (m,) of prototypes, each once, and the score of each (m,)."""

    entities: np.ndarray
    scores: np.ndarray


def unseen_candidates(
    kb: PrototypeKB,
    views: Sequence[View],
    vectors: np.ndarray,
    hidden: Sequence[bool],
    k: int,
    lexical_weight: float = 0.0,
) -> List[Found]:
    """Up to `k` entities for each mention, by the prototypes that it may see.

    A mention in context does not see what was made of this very place in a text: its own prototype, nor those that put
    other names in its stead. One that is `hidden` sees none that bears its name (folded) either, whichever entity's
    they are. A bare name that is not hidden sees them all.

    lexical_weight: that of `PrototypeKB.search`, over the same candidates: for a `hidden` mention its own form is none
        that counts. For the others it does, even where the mention's own prototype alone has it.
    """
    scores, rows, entities = kb.nearest_prototypes(vectors, max(FEWEST, PER_CANDIDATE * k))
    nearest = []
    for i, view in enumerate(views):
        seen = rows[i] >= 0
        seen[seen] = _visible(kb, rows[i][seen], view, hidden[i])
        nearest.append(_best_of_each(entities[i][seen], scores[i][seen], k))
    if lexical_weight:
        nearest = _with_spelling(kb, views, vectors, hidden, nearest, lexical_weight, k)
    ids = kb.entity_ids
    return [Found([ids[int(row)] for row in each.entities], each.scores) for each in nearest]


def _visible(kb: PrototypeKB, rows: np.ndarray, view: View, hidden: bool) -> np.ndarray:
    """Which of the prototypes at `rows` (n,) a mention may see: (n,).

    Told by their texts and not by their scores, which references, weights and long forms of abbreviations change.
    """
    visible = np.ones(len(rows), dtype=bool)
    if view.left or view.right:
        visible &= ~kb.prototypes_in_context(rows, view.left, view.right)
    if hidden:
        own = folded(view.mention)
        visible &= np.array([folded(name) != own for name in kb.prototype_mentions(rows)], dtype=bool)
    return visible


def _best_of_each(entities: np.ndarray, scores: np.ndarray, k: int) -> _Nearest:
    """The first `k` entities, from prototypes (n,) that stand best first."""
    distinct, first = np.unique(entities, return_index=True)
    order = np.argsort(first)[:k]
    return _Nearest(distinct[order], scores[first[order]])


def _with_spelling(
    kb: PrototypeKB,
    views: Sequence[View],
    vectors: np.ndarray,
    hidden: Sequence[bool],
    nearest: Sequence[_Nearest],
    weight: float,
    k: int,
) -> List[_Nearest]:
    """Add the entities that are spelt like the mentions, and to each score so many times the similarity."""
    spelling = kb.spelling([view.mention for view in views], hidden)
    joined = []
    for i, (each, proposed) in enumerate(zip(nearest, spelling.proposed(), strict=True)):
        entities, dense = each.entities.tolist(), each.scores.tolist()
        for entity in set(proposed[proposed >= 0].tolist()).difference(entities):
            rows = kb.prototype_rows(kb.entity_ids[entity])
            rows = rows[_visible(kb, rows, views[i], hidden[i])]
            if len(rows):
                entities.append(entity)
                dense.append(float(kb.products(vectors[i], rows).max()))
        joined.append(_Nearest(np.array(entities, dtype=np.int64), np.array(dense, dtype=np.float32)))
    lengths = [len(each.entities) for each in joined]
    queries = np.repeat(np.arange(len(joined)), lengths)
    lexical = spelling.similarity(queries, np.concatenate([each.entities for each in joined]))
    ranked = []
    for each, added in zip(joined, np.split(lexical, np.cumsum(lengths)[:-1]), strict=True):
        scores = each.scores + np.float32(weight) * added
        order = np.lexsort((each.entities, -scores))[:k]
        ranked.append(_Nearest(each.entities[order], scores[order]))
    return ranked
