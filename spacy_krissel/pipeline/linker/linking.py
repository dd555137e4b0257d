"""Linking of a batch: proposals, the weighted sum of terms, confidence, decision."""

from collections.abc import Iterable, Sequence

import numpy as np

from ...errors import Errors, KrisselError
from ...kb.candidates import candidate_dicts
from ...kb.ranking import first_occurrences
from ...kb.search_result import SearchResult
from ...kb.snapshot import KBSnapshot
from ...kb.ties import order_ties, rank_entities, ties_at_top
from ...mentions.annotations import NIL, SpanLink
from ..settings import LinkerSettings
from .confidence import with_confidence, with_known
from .decision import without_link
from .match import with_match
from .query import Query
from .terms.term import Pairs, Term
from .terms.vectors import VectorTerm
from .verdicts import with_verdicts

# Ties and thresholds need the second-best entity even if one candidate is wanted.
MIN_CANDIDATES = 2
# Terms change the order of the first candidates, so more are searched for than are kept.
MIN_REORDERED = 5
Parts = list[tuple[Term, np.ndarray]]


def link_mentions(
    query: Query, terms: Sequence[Term], settings: LinkerSettings, n_candidates: int
) -> list[SpanLink]:
    """Return the link of each mention, with up to `n_candidates` candidates. Raises KrisselError
    as `find_candidates`."""
    result = find_candidates(query, terms, settings, n_candidates)
    return _decided(query.kb, result, settings, n_candidates)


def find_candidates(
    query: Query, terms: Sequence[Term], settings: LinkerSettings, n_candidates: int
) -> SearchResult:
    """Return `n_candidates` or more candidates of each mention, in their final order.

    Raises KrisselError K006 (confidence), K663 (a term's result is wrong).
    """
    reordered = len(terms) > 1 or query.name_vectors is not None or settings.confidence
    wanted = max(
        n_candidates,
        MIN_REORDERED if reordered else MIN_CANDIDATES,
        *(term.n_candidates for term in terms),
    )
    parts = [
        (rows, with_match(own, search_candidates(own, terms, wanted), settings))
        for rows, own in query.by_types(settings.types, settings.types_by_label)
    ]
    result = with_confidence(query, _joined(parts, len(query)), settings)
    for term in terms:
        result = term.revise(query, result)
    return with_verdicts(query, with_known(result), terms, settings)


def _joined(parts: Sequence[tuple[Iterable[int], SearchResult]], n: int) -> SearchResult:
    """Return one result for all mentions, from results for the mentions at these rows."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.empty(n, dtype=np.int64)
    order[np.concatenate([np.array(rows) for rows, _ in parts])] = np.arange(n)
    results = [result for _, result in parts]
    starts = np.cumsum([0, *(len(result.entities) for result in results)]).tolist()
    ties = {
        start + i: tied
        for start, each in zip(starts, results, strict=False)
        for i, tied in each.ties.items()
    }
    entities, prototypes = (
        np.concatenate([getattr(each, name) for each in results])
        for name in ("entities", "prototypes")
    )
    scores = np.concatenate([each.scores for each in results])
    names = dict.fromkeys(name for each in results for name in each.parts)
    terms = {
        # A term may score the mentions of one group only.
        name: np.concatenate([each.parts.get(name, np.zeros_like(each.scores)) for each in results])
        for name in names
    }
    matches = [each.match for each in results if each.match is not None]
    match = np.concatenate(matches) if matches else None
    return SearchResult(entities, scores, prototypes, ties, terms, match=match).at(order)


def _decided(
    kb: KBSnapshot, result: SearchResult, settings: LinkerSettings, n_candidates: int
) -> list[SpanLink]:
    best, nil = result.entities[:, 0], without_link(result, settings)
    ids = np.full(len(best), NIL, dtype=object)
    ids[~nil] = kb.entity_ids.take(best[~nil])
    ties: list[list[str]] = [[] for _ in best]
    for i, tied in result.ties.items():
        ties[i] = [kb.entity_ids[row] for row in tied]
    return [*map(SpanLink, ids.tolist(), candidate_dicts(kb, result, n_candidates), ties)]


def search_candidates(query: Query, terms: Sequence[Term], k: int) -> SearchResult:
    """Return the best `k` of the entities that any term proposes for each mention, by the weighted
    sum of the terms.

    terms: the vector term first. The score of an entity does not depend on the search that found
        it. Its prototype is the compared one that is nearest to the mention.
    Raises KrisselError K663 if a term's proposals or scores are wrong.
    """
    vectors = terms[0]
    assert isinstance(vectors, VectorTerm), "the vector term comes first"
    if (
        not k
        or not len(query)
        or (len(terms) == 1 and query.names is None and query.name_vectors is None)
    ):
        return vectors.search(query, k)[0]
    entities = _proposed(query, terms, k)
    mentions, columns = np.nonzero(first_occurrences(entities) & (entities >= 0))
    pairs = Pairs(mentions, entities[mentions, columns], columns)
    parts: Parts = []
    total = np.zeros(len(mentions), dtype=np.float32)
    for term in terms:
        if (values := term.score(query, pairs)) is not None:
            parts.append((term, _checked(term, values, len(mentions))))
            total = total + np.float32(term.weight) * parts[-1][1]
    if query.near.shape[2] > 1:
        # `order_ties` goes by all prototypes of entities that tie, so that the best of all has to
        # be known of these.
        level = ties_at_top(mentions, total)
        best, near = vectors.compare_all(query, pairs, level), parts[0][1]
        total[level] += best - near[level]
        near[level] = best
    return _ranked(query, pairs, entities.shape, total, k, parts)


def _proposed(query: Query, terms: Sequence[Term], k: int) -> np.ndarray:
    """Return the entities that any of the terms proposes (q, w), padded with -1, possibly
    repeated."""
    known = np.zeros((len(query), 0), dtype=np.int64)
    for term in terms:
        found = term.propose(query, known, k)
        if found is None:
            continue
        shape, kind = np.shape(found), getattr(found, "dtype", np.dtype(object)).kind
        if (
            len(shape) != 2
            or shape[0] != len(query)
            or kind != "i"
            or not _within(found, query.kb.n_entities)
        ):
            expected = (
                f"rows of entities below {query.kb.n_entities}, -1 for none, of shape "
                f"({len(query)}, any)"
            )
            raise KrisselError(
                Errors.K663.format(term=term.name, what="proposed", found=shape, expected=expected)
            )
        if query.allowed is not None:
            found = np.where(query.allowed[found], found, -1)
        known = np.concatenate([known, found], axis=1)
    return known


def _within(rows: np.ndarray, n: int) -> bool:
    return not rows.size or (int(rows.min()) >= -1 and int(rows.max()) < n)


def _checked(term: Term, values: np.ndarray, n: int) -> np.ndarray:
    """Return the scores as float32. Raises KrisselError K663 unless they are one number per
    pair."""
    values = np.asarray(values, dtype=np.float32)
    if values.shape != (n,) or not (values < np.inf).all():
        found = values.shape if values.shape != (n,) else "NaN or infinity"
        expected = f"a number for each pair of a mention and an entity, of shape ({n},)"
        raise KrisselError(
            Errors.K663.format(term=term.name, what="scored", found=found, expected=expected)
        )
    return values


def _ranked(
    query: Query, pairs: Pairs, shape: tuple[int, ...], total: np.ndarray, k: int, parts: Parts
) -> SearchResult:
    """Return the pairs as a table with the best `k` entities of each mention, without those that
    score -inf.

    shape: of the proposals. total, parts: scores of the pairs, and those of each term.
    """
    index, found = np.full(shape, -1), np.flatnonzero(total > -np.inf)
    index[pairs.mentions[found], pairs.columns[found]] = found

    def table(values: np.ndarray, missing: float) -> np.ndarray:
        # -1 is the last.
        return np.append(values, values.dtype.type(missing))[index]

    entities = table(pairs.entities, -1)
    result, column = rank_entities(entities, table(total, -np.inf), table(pairs.prototypes, -1), k)
    if query.visible is None and result.ties:
        moved = np.array([*result.ties])
        order_ties(result, query.kb.prototypes, query.vectors)
        is_it = entities[moved, None] == result.entities[moved, :, None]
        column[moved] = np.argmax(is_it, axis=2)
    index = np.take_along_axis(index, column, axis=1)
    for term, values in parts:
        result.parts[term.name] = table(values, term.missing)
    return result
