"""One score of vectors, lexical similarity, gold mentions, species and spelling."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..distributed.parts import in_parts
from ..index.protocol import Mask, Rows, Scores, Vectors
from ..util.compiled import kernel
from .groups import in_lines, pair_keys
from .lexical_index import SPELT, LexicalIndex, distinct, places_of, read_only
from .ngrams import Spellings
from .overlaid_vectors import OverlaidVectors
from .prototype_table import PrototypeTable
from .ranking import SearchResult, first_of_each, order_ties, tie_bound

# Entities that lexical search adds per query. On 9,284 mentions of two training splits, 2 change 22 links and 16 change
# 43, less than 0.1 points of accuracy; 16 take three times as long.
PROPOSED = 4
# Entities with a mention's spelling that are looked at, whatever else finds more of them: one name of thousands would
# take the memory of all of a batch.
MAX_SPELT = 64
# Values of vectors held at a time, which fit into a core's cache (float32: 1 MB): half the time of large blocks.
BLOCK_VALUES = 2**18
KERNEL = "spacy_krissel.kb.product_kernel"
# (number of a query, prototype rows (n,)) -> which of them it can see (n,).
CanSee = Callable[[int, Rows], Mask]


class Spelt(NamedTuple):
    """Entities that have a name with the spelling of a query: columns of one length.

    entities: rows. queries: of each, ascending. by_text: is it the query's text, and not the other one?
    """

    entities: Rows
    queries: Rows
    by_text: Mask


class LexicalQuery:
    """The texts of q mentions, as queries to a lexical index; equal ones are searched once.

    hidden (q,): for these, the surface form that the text folds to does not count, as if no entity had it.
    """

    def __init__(self, index: LexicalIndex, texts: Sequence[str], hidden: Sequence[bool] | None = None) -> None:
        keys: Sequence[Any] = texts if hidden is None else list(zip(texts, hidden, strict=True))
        different, self._of_query = distinct(keys)
        self._asked = texts
        searched = different if hidden is None else [text for text, _ in different]
        self._index = index
        self._texts = index.read(searched)
        self._without = None
        if hidden is not None:
            is_hidden = np.array([each for _, each in different], dtype=bool)
            forms = self._texts.forms
            self._without = np.where(is_hidden, forms, -1)
            self._texts = self._texts._replace(forms=np.where(is_hidden, -1, forms))

    def proposed(self, allowed: Mask | None = None) -> Rows:
        """The entities that have each query's text as a name, else those that lexical search finds: (q, PROPOSED), -1
        padded. To search for both changed no link of 27,813 mentions, and takes twice as long."""
        found = self._index.having(self._texts.forms, PROPOSED, allowed)
        rest = np.flatnonzero(found[:, 0] < 0)
        without = None if self._without is None else self._without[rest]
        found[rest] = self._index.search(self._texts.vectors[rest], PROPOSED, allowed, without)
        return found[self._of_query]

    def spelt(self, otherwise: Sequence[str] | None = None, species: Rows | None = None) -> Spelt:
        """Return the entities that have a name with the `spelling` of each query's text.

        otherwise: other texts (q,), which count for the entities of a species of which none has the text.
        species: number of each entity's species; None: all entities are of one.
        """
        entities, owner = self._index.spelt(self._texts.spellings).take(self._of_query)
        if otherwise is None:
            return Spelt(entities, owner, np.ones(len(owner), dtype=bool))
        differ = np.flatnonzero([other != text for other, text in zip(otherwise, self._asked, strict=True)])
        different, of_other = distinct([otherwise[i] for i in differ.tolist()])
        others, place = self._index.spelt(Spellings.of(different)).take(of_other)
        both, owners = np.append(entities, others), np.append(owner, differ[place])
        keys = owners if species is None else pair_keys(owners, species[both])
        kept = np.append(np.ones(len(entities), dtype=bool), ~np.isin(keys[len(entities) :], keys[: len(entities)]))
        order = np.flatnonzero(kept)[np.argsort(owners[kept], kind="stable")]
        return Spelt(both[order], owners[order], order < len(entities))

    def similarity(self, queries: Rows, entities: Rows) -> Scores:
        """The lexical similarity of the `queries` (n,) with `entities` (n,): (n,), from 0 to 1."""
        # Queries with the same text share many candidates.
        keys = pair_keys(self._of_query[queries], entities)
        _, one, of_pair = np.unique(keys, return_index=True, return_inverse=True)
        text = self._of_query[queries[one]]
        return self._index.similarity(self._texts, text, entities[one], self._without)[of_pair]


def rank_candidates(  # noqa: C901
    prototypes: PrototypeTable,
    queries: Vectors,
    entities: Rows,
    nearest: Rows,
    k: int,
    *,
    allowed: Mask | None = None,
    lexical: LexicalQuery | None = None,
    lexical_weight: float = 0.0,
    texts: Sequence[str] | None = None,
    names: Vectors | None = None,
    name_weight: float = 0.0,
    gold_prior: float = 0.0,
    species: tuple[Scores, Rows] | None = None,
    spelt: Spelt | None = None,
    spelling_weight: float = 0.0,
    can_see: CanSee | None = None,
) -> SearchResult:
    """The best `k` of the `entities` (q, w) that vectors found, and of those that lexical search finds.

    nearest: prototypes of the first of each (q, v, m), -1 padded: the nearest of them to the query counts. Of an entity
        without any, all are compared.
    species: what each species adds to the score of its entities (q, s), and the species of each entity by number.
    spelt: entities with a name that is spelt as the mention is.

    The score of an entity is its highest inner product with the query, or the weighted mean of that and the one with
    the name, plus weighted lexical similarity, prior, and what its species and spelling add, whichever search found it.
    Its prototype is the nearest one to the query of those compared. The other settings are those of
    `PrototypeKB.search` and `search_unseen`.
    """
    if lexical is not None:
        entities = np.concatenate([entities, lexical.proposed(allowed)], axis=1)
    if spelt is not None:
        if allowed is not None:
            seen = allowed[spelt.entities]
            spelt = Spelt(spelt.entities[seen], spelt.queries[seen], spelt.by_text[seen])
        # Most are among those that were found.
        missing = (entities[spelt.queries] != spelt.entities[:, None]).all(axis=1)
        owners = spelt.queries[missing]
        most = int(np.bincount(owners, minlength=1).max())
        added = in_lines(spelt.entities[missing], owners, len(queries), min(most, MAX_SPELT))
        entities = np.concatenate([entities, added], axis=1)
    query, place = np.nonzero(first_of_each(entities) & (entities >= 0))
    entity = entities[query, place]
    # All scores from the same vectors, since an index may round its own: equal prototypes must give equal scores.
    rows, total = _best_of(prototypes, queries, query, nearest, place)
    unknown = rows < 0
    rows[unknown], total[unknown] = _nearest(prototypes, queries, query[unknown], entity[unknown], can_see)
    # Names and gold mentions count where the text is a name of one entity: context decides between homonyms.
    alone = np.ones(len(queries), dtype=bool)
    if texts is not None and (names is not None or gold_prior):
        _, owner = prototypes.lexical_index.named(texts)
        alone = np.bincount(owner, minlength=len(queries)) < 2
    if names is not None:
        _, by_name = _nearest(prototypes, names, query, entity)
        fraction = np.float32(name_weight) * alone[query]
        total = (1 - fraction) * total + fraction * by_name
    vector, similar = total, np.zeros_like(total)
    is_spelt = is_name = np.zeros(len(query), dtype=bool)
    if spelt is not None:
        keys = pair_keys(np.concatenate([spelt.queries, query]), np.concatenate([spelt.entities, entity]))
        known, asked = np.split(keys, [len(spelt.queries)])
        order = np.argsort(known)
        places = places_of(known[order], asked)
        is_spelt = places >= 0
        is_name[is_spelt] = spelt.by_text[order][places[is_spelt]]
    if lexical is not None:
        similar = lexical.similarity(query, entity)
        # A name that is spelt as the text is that name.
        similar = np.where(is_name, np.maximum(similar, np.float32(SPELT)), similar)
        total = total + np.float32(lexical_weight) * similar
    if gold_prior:
        total = total + np.float32(gold_prior) * (alone[query] & np.isin(entity, prototypes.gold_entities))

    parts: dict[str, Any] = {"vector": vector}
    if lexical is not None:
        parts["lexical"] = similar
    if species is not None:
        parts["species"] = species[0][query, species[1][entity]]
    if spelt is not None:
        parts["spelling"] = np.float32(spelling_weight) * is_spelt
    for part in ("species", "spelling"):
        total = total + parts.get(part, np.float32(0))

    if nearest.shape[2] > 1:
        level = _level(query, total)
        # `order_ties` goes by all prototypes of entities that tie, so that the best of all has to be known of these.
        rows[level], best = _nearest(prototypes, queries, query[level], entity[level])
        total[level] += best - vector[level]
        vector[level] = best
    found = rows >= 0

    def table(values: np.ndarray, missing: float = 0.0) -> np.ndarray:
        filled = np.full(entities.shape, missing, dtype=values.dtype)
        filled[query[found], place[found]] = values[found]
        return filled

    tables: dict[str, Any] = {"": table(entity, -1), "score": table(total, -np.inf), "prototype": table(rows, -1)}
    tables |= {part: table(values, -np.inf if part == "vector" else 0) for part, values in parts.items()}
    order = np.lexsort((tables[""], -tables["score"]), axis=1)
    entities, scores, nearest = (
        np.take_along_axis(tables.pop(each), order, axis=1) for each in ("", "score", "prototype")
    )
    tied = (scores >= tie_bound(scores[:, :1])) & (entities >= 0)
    ties = {int(i): np.sort(entities[i, tied[i]]) for i in np.flatnonzero(tied.sum(axis=1) > 1)}
    ranked = SearchResult(entities[:, :k].copy(), scores[:, :k].copy(), nearest[:, :k].copy(), ties)
    if can_see is None:
        order_ties(ranked, prototypes, queries)
    # Of entities that tie, the order has changed.
    place = np.take_along_axis(order, np.argmax(entities[:, None] == ranked.entities[:, :, None], axis=2), axis=1)
    shown: dict[str, Any] = {part: np.take_along_axis(values, place, axis=1) for part, values in tables.items()}
    return replace(ranked, **shown)


def with_ties(found: Sequence[SearchResult]) -> tuple[Rows, Rows]:
    """The entities of all results and those that tie at the top beyond k (q, w), and the prototypes of the first
    result's (q, k, m)."""
    columns = []
    for result in found:
        most = max(map(len, result.ties.values()), default=0)
        beyond = np.full((len(result.entities), most), -1, dtype=np.int64)
        for query, group in result.ties.items():
            beyond[query, : len(group)] = group
        columns += [result.entities, beyond]
    entities = np.concatenate(columns, axis=1)
    first = found[0]
    near = first.prototypes[:, :, None]
    if first.further is not None:
        near = np.concatenate([near, first.further], axis=2)
    return entities, near


def _level(queries: Rows, scores: Scores) -> Mask:
    """Which of the scores (n,) tie with another as the highest of their query, (n,); `queries` ascend."""
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    highest = np.maximum.reduceat(scores, starts) if len(starts) else scores
    highest = np.repeat(highest, np.diff(np.append(starts, len(queries))))
    level = np.isfinite(scores) & (scores >= tie_bound(highest))
    return level & (np.bincount(queries[level], minlength=int(queries.max(initial=0)) + 1)[queries] > 1)


def _best_of(
    prototypes: PrototypeTable, vectors: Vectors, queries: Rows, nearest: Rows, places: Rows
) -> tuple[Rows, Scores]:
    """The one of the prototypes `nearest[queries[i], places[i]]` (m,), -1 padded, that is nearest to
    `vectors[queries[i]]`, the first of equals, and their inner product: (n,) both; -1 and -inf where there is none, as
    in all places beyond those of `nearest` (q, w, m)."""
    rows, best = np.full(len(queries), -1, dtype=np.int64), np.full(len(queries), -np.inf, dtype=np.float32)
    within = np.flatnonzero(places < nearest.shape[1])
    near = nearest[queries[within], places[within]]
    pair, place = np.nonzero(near >= 0)
    scores = np.full(near.shape, -np.inf, dtype=np.float32)
    scores[pair, place] = _products(prototypes.vectors, near[pair, place], vectors, queries[within[pair]])
    first = scores.argmax(axis=1)[:, None]
    rows[within], best[within] = (np.take_along_axis(each, first, axis=1)[:, 0] for each in (near, scores))
    return rows, best


def _nearest(
    prototypes: PrototypeTable, vectors: Vectors, queries: Rows, entities: Rows, can_see: CanSee | None = None
) -> tuple[Rows, Scores]:
    """The row of the prototype of `entities[i]` that is nearest to `vectors[queries[i]]`, and their inner product.

    `queries` ascend. RETURNS: (n,) both; -1 and -inf for an entity without prototypes, or with none that it can see.
    """
    nearest = np.full(len(queries), -1, dtype=np.int64)
    best = np.full(len(queries), -np.inf, dtype=np.float32)
    rows, pair = prototypes.by_entity.take(entities)
    if can_see is not None and len(rows):
        starts = np.flatnonzero(np.diff(queries[pair], prepend=-1))
        groups = zip(queries[pair[starts]].tolist(), np.split(rows, starts[1:]), strict=True)
        seen = np.concatenate([can_see(query, group) for query, group in groups])
        rows, pair = rows[seen], pair[seen]
    if not len(rows):
        return nearest, best
    scores = _products(prototypes.vectors, rows, vectors, queries[pair])
    found, starts = np.unique(pair, return_index=True)
    best[found] = np.maximum.reduceat(scores, starts)
    at_best = np.flatnonzero(scores == best[pair])
    _, first = np.unique(pair[at_best], return_index=True)
    nearest[found] = rows[at_best[first]]
    return nearest, best


def _products(vectors: Any, rows: Rows, queries: Vectors, of_query: Rows) -> Scores:
    """`vectors[rows[i]] · queries[of_query[i]]`: (n,)."""
    products = np.empty(len(rows), dtype=np.float32)
    if isinstance(vectors, OverlaidVectors):
        is_base = rows < len(vectors.base)
        products[is_base] = _products(vectors.base, rows[is_base], queries, of_query[is_base])
        _multiply(vectors, rows[~is_base], queries, of_query[~is_base], own := products[~is_base])
        products[~is_base] = own
        return products
    _multiply(vectors, rows, queries, of_query, products)
    return products


def _multiply(vectors: Any, rows: Rows, queries: Vectors, of_query: Rows, products: Scores) -> None:
    """Write the `_products`."""
    is_compiled = isinstance(vectors, np.ndarray) and vectors.dtype == queries.dtype == np.float32
    loop = kernel(KERNEL, len(queries)) if is_compiled else None
    step = max(1, BLOCK_VALUES // max(1, vectors.shape[1]))

    def multiply(first: int, end: int) -> None:
        if loop is not None:
            part = slice(first, end)
            loop.products(read_only(vectors), rows[part], read_only(queries), of_query[part], products[part])
            return
        for start in range(first, end, step):
            part = slice(start, min(start + step, end))
            left, right = vectors[rows[part]].astype(np.float32, copy=False), queries[of_query[part]]
            products[part] = np.einsum("nd,nd->n", left, right)

    in_parts(multiply, len(rows), step)
