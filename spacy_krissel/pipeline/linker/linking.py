"""Linking of the mentions of a batch."""

from collections.abc import Iterable, Sequence

import numpy as np

from ...kb.candidates import candidate_dicts
from ...kb.search_result import SearchResult
from ...kb.snapshot import KBSnapshot
from ...mentions.annotations import SpanLink
from ...mentions.gold_ids import NIL
from ..settings import LinkerSettings
from .confidence import with_confidence
from .query import Query
from .search import search_candidates
from .terms.term import Term

# Ties and thresholds need the second-best entity even if one candidate is wanted.
MIN_CANDIDATES = 2
# Terms change the order of the first candidates, so more are searched for than are kept.
MIN_REORDERED = 5


def link_mentions(query: Query, terms: Sequence[Term], settings: LinkerSettings, n_candidates: int) -> list[SpanLink]:
    """Return the link of each mention, with up to `n_candidates` candidates.

    Raises KrisselError K006 (confidence), K663 (a term's result is wrong).
    """
    reordered = len(terms) > 1 or query.name_vectors is not None or settings.confidence
    wanted = max(n_candidates, MIN_REORDERED if reordered else MIN_CANDIDATES, *(term.n_candidates for term in terms))
    parts = [
        (rows, search_candidates(own, terms, wanted))
        for rows, own in query.by_types(settings.types, settings.types_by_label)
    ]
    result = with_confidence(query, _joined(parts, len(query)), settings)
    for term in terms:
        result = term.revise(query, result)
    return _decided(query.kb, result, settings, n_candidates)


def _joined(parts: Sequence[tuple[Iterable[int], SearchResult]], n: int) -> SearchResult:
    """Return one result for all mentions, from results for the mentions at these rows."""
    if len(parts) == 1:
        return parts[0][1]
    order = np.empty(n, dtype=np.int64)
    order[np.concatenate([np.array(rows) for rows, _ in parts])] = np.arange(n)
    results = [result for _, result in parts]
    starts = np.cumsum([0, *(len(result.entities) for result in results)]).tolist()
    ties = {start + i: tied for start, each in zip(starts, results, strict=False) for i, tied in each.ties.items()}
    entities, prototypes = (
        np.concatenate([getattr(each, name) for each in results]) for name in ("entities", "prototypes")
    )
    scores = np.concatenate([each.scores for each in results])
    terms = {name: np.concatenate([each.parts[name] for each in results]) for name in results[0].parts}
    return SearchResult(entities, scores, prototypes, ties, terms).at(order)


def _decided(kb: KBSnapshot, result: SearchResult, settings: LinkerSettings, n_candidates: int) -> list[SpanLink]:
    best = result.entities[:, 0]
    nil = best < 0
    if settings.threshold is not None:
        # In float64, as the threshold is: float32 may round a threshold between two scores down.
        nil |= result.scores[:, 0].astype(np.float64) < settings.threshold
    if result.confidence is not None:
        nil |= result.confidence[:, 0].astype(np.float64) < settings.min_confidence
    ids = np.full(len(best), NIL, dtype=object)
    ids[~nil] = kb.entity_ids.take(best[~nil])
    ties: list[list[str]] = [[] for _ in best]
    for i, tied in result.ties.items():
        ties[i] = [kb.entity_ids[row] for row in tied]
    return [*map(SpanLink, ids.tolist(), candidate_dicts(kb, result, n_candidates), ties)]
