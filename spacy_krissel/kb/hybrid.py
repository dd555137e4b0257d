"""One score of vectors, spelling and what gold mentions tell."""

from typing import NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..index.protocol import Mask, Rows, Scores, Vectors
from .groups import pair_keys
from .lexical_index import LexicalIndex
from .prototype_table import PrototypeTable
from .ranking import SearchResult, first_of_each, order_ties, tie_bound

# Entities that spelling alone adds to those that vectors found. Of 9,284 mentions of two training splits, two in place
# of four link 22 otherwise and sixteen 43, by which accuracy changes by less than 0.1 points; sixteen take more than
# three times as long.
PROPOSED = 4
# Values of vectors that are held at a time (float32: 64 MB).
BLOCK_VALUES = 16_000_000


class Evidence(NamedTuple):
    """What a search may go by beside the vectors of its q mentions.

    texts, lexical_weight: of (q,) mentions; so many times the similarity in spelling with each entity (`LexicalIndex`).
    names, name_weight: vectors (q, d) of the mentions' texts alone; their share, 0 to 1, in the similarity of vectors.
    gold_prior: what an entity with a gold mention among its prototypes has more.
    """

    texts: Optional[Sequence[str]] = None
    lexical_weight: float = 0.0
    names: Optional[Vectors] = None
    name_weight: float = 0.0
    gold_prior: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.spells or self.names_weigh or self.gold_prior)

    @property
    def spells(self) -> bool:
        return self.texts is not None and self.lexical_weight > 0

    @property
    def names_weigh(self) -> bool:
        return self.names is not None and self.name_weight > 0


def rank_by_all(
    found: Sequence[SearchResult],
    prototypes: PrototypeTable,
    queries: Vectors,
    evidence: Evidence,
    allowed: Optional[Mask],
    break_ties: bool = True,
) -> SearchResult:
    """Rank the entities that the vectors found, and those that are spelt like the mentions, by all evidence.

    found: of the `queries` (q, d) and, where they weigh, of the `names`: k candidates a query each.

    The score of an entity is its highest inner product, or the weighted mean of that of the query and that of the name,
    plus what spelling and prior add; each candidate has all of these, whichever side found it. Its prototype is the
    nearest to the query. break_ties: as for `search_entities`. RETURNS: k candidates a query, their ties found anew.
    """
    k = found[0].entities.shape[1]
    none = np.zeros(0, dtype=np.int64)
    columns = []
    for result in found:
        # Entities that tie at the top may be more than k.
        beyond = _padded([result.ties.get(query, none) for query in range(len(queries))])
        columns += [result.entities, beyond]
    lexicon, of_query = None, none
    # What is said of gold mentions is said of names that stand for one thing: between the bearers of a shared name, the
    # context decides.
    alone = np.ones(len(queries), dtype=bool)
    if evidence.texts is not None and (evidence.names_weigh or evidence.gold_prior):
        _, owner = prototypes.lexical_index.bearers(evidence.texts)
        alone = np.bincount(owner, minlength=len(queries)) < 2
    if evidence.spells:
        assert evidence.texts is not None
        lexicon = prototypes.lexical_index
        distinct = {text: place for place, text in enumerate(dict.fromkeys(evidence.texts))}
        of_query = np.array([distinct[text] for text in evidence.texts], dtype=np.int64)
        spellings = lexicon.vectors(list(distinct))
        columns.append(lexicon.search(spellings, PROPOSED, allowed)[of_query])
    entities = np.concatenate(columns, axis=1)
    entities[~first_of_each(entities)] = -1
    known = np.full(entities.shape, -1, dtype=np.int64)
    known[:, :k] = found[0].prototypes

    query, place = np.nonzero(entities >= 0)
    entity, rows = entities[query, place], known[query, place]
    # All from the same vectors, since an index may round its scores: equal prototypes must give equal scores.
    total = np.empty(len(rows), dtype=np.float32)
    seen = rows >= 0
    total[seen] = _products(prototypes.vectors, rows[seen], queries, query[seen])
    rows[~seen], total[~seen] = _nearest(prototypes, queries, query[~seen], entity[~seen])
    if evidence.names_weigh:
        assert evidence.names is not None
        _, by_name = _nearest(prototypes, evidence.names, query, entity)
        share = np.float32(evidence.name_weight) * alone[query]
        total = (1 - share) * total + share * by_name
    if lexicon is not None:
        # Queries of one text share many candidates.
        _, one, of_pair = np.unique(pair_keys(of_query[query], entity), return_index=True, return_inverse=True)
        similarity = lexicon.similarity(spellings, of_query[query[one]], entity[one])[of_pair]
        total += np.float32(evidence.lexical_weight) * similarity
    if evidence.gold_prior:
        total += np.float32(evidence.gold_prior) * (alone[query] & np.isin(entity, prototypes.gold_entities))

    scores = np.full(entities.shape, -np.inf, dtype=np.float32)
    known[query, place] = rows
    scores[query, place] = total
    order = np.lexsort((entities, -scores), axis=1)
    entities, scores, known = (np.take_along_axis(each, order, axis=1) for each in (entities, scores, known))
    tied = (scores >= tie_bound(scores[:, :1])) & (entities >= 0)
    ties = {int(i): np.sort(entities[i, tied[i]]) for i in np.flatnonzero(tied.sum(axis=1) > 1)}
    ranked = SearchResult(entities[:, :k].copy(), scores[:, :k].copy(), known[:, :k].copy(), ties)
    if break_ties:
        order_ties(ranked, prototypes, queries)
    return ranked


class Spelling:
    """How some texts (q,) are spelt, beside the surface forms of a knowledge base.

    hidden (q,): the form that a text itself folds to does not count for it, as if nobody had ever been called so.
    """

    def __init__(self, lexicon: LexicalIndex, texts: Sequence[str], hidden: Sequence[bool]) -> None:
        self._lexicon = lexicon
        self._vectors = lexicon.vectors(texts)
        self._without = np.where(hidden, lexicon.forms(texts), -1)

    def proposed(self) -> Rows:
        """The entities that spelling alone proposes for each text: (q, PROPOSED), -1 padded."""
        return self._lexicon.search(self._vectors, PROPOSED, without=self._without)

    def similarity(self, queries: Rows, entities: Rows) -> Scores:
        """Of the texts `queries` (n,), in ascending order, with `entities` (n,): (n,), from 0 to 1."""
        return self._lexicon.similarity(self._vectors, queries, entities, self._without)


def _nearest(prototypes: PrototypeTable, vectors: Vectors, queries: Rows, entities: Rows) -> Tuple[Rows, Scores]:
    """The row of the prototype of `entities[i]` that is nearest to `vectors[queries[i]]`, and their inner product.

    RETURNS: (n,) both; -1 and -inf for an entity without prototypes.
    """
    nearest = np.full(len(queries), -1, dtype=np.int64)
    best = np.full(len(queries), -np.inf, dtype=np.float32)
    rows, pair = prototypes.by_entity.take(entities)
    if not len(rows):
        return nearest, best
    scores = _products(prototypes.vectors, rows, vectors, queries[pair])
    found, starts = np.unique(pair, return_index=True)
    best[found] = np.maximum.reduceat(scores, starts)
    at_best = np.flatnonzero(scores == best[pair])
    _, first = np.unique(pair[at_best], return_index=True)
    nearest[found] = rows[at_best[first]]
    return nearest, best


def _products(vectors: Vectors, rows: Rows, queries: Vectors, of_query: Rows) -> Scores:
    """`vectors[rows[i]] · queries[of_query[i]]`: (n,)."""
    products = np.empty(len(rows), dtype=np.float32)
    step = max(1, BLOCK_VALUES // max(1, vectors.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        products[part] = np.einsum(
            "nd,nd->n", vectors[rows[part]].astype(np.float32, copy=False), queries[of_query[part]]
        )
    return products


def _padded(groups: Sequence[Rows]) -> Rows:
    width = max(map(len, groups), default=0)
    padded = np.full((len(groups), width), -1, dtype=np.int64)
    for line, group in zip(padded, groups, strict=True):
        line[: len(group)] = group
    return padded
