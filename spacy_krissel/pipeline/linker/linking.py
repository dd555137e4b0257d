"""From vectors and texts of mentions to the entity of each."""

from collections.abc import Hashable, Sequence
from dataclasses import replace

import numpy as np

from ...kb.candidates import candidate_dicts
from ...kb.prototype_kb import PrototypeKB
from ...kb.ranking import TIE, SearchResult
from ...mentions.annotations import SpanLink
from ...mentions.gold_ids import NIL
from ..settings import LinkerSettings

# Ties and thresholds need the second-best entity even where one candidate is wanted.
MIN_CANDIDATES = 2
# Spelling and agreement change the order of the first ones, so that more are looked at than are kept.
MIN_REORDERED = 5


def decide(
    kb: PrototypeKB,
    vectors: np.ndarray,
    texts: Sequence[str],
    forms: Sequence[Hashable],
    settings: LinkerSettings,
    allowed: np.ndarray | None = None,
    names: np.ndarray | None = None,
) -> list[SpanLink]:
    """The link of each of q mentions.

    vectors (q, d): of the mentions in their contexts. texts (q,): of the mentions.
    forms (q,): mentions of equal forms have one sense (`one_sense_per_document`).
    names (q, d): vectors of the texts alone; None where `gold_name_weight` does not count.
    allowed: mask of entities.
    """
    margin = settings.one_sense_per_document
    prior = settings.gold_prior if kb.has_gold else 0.0
    reordered = settings.lexical_weight or margin or prior or names is not None
    k = max(settings.n_candidates, MIN_REORDERED if reordered else MIN_CANDIDATES)
    result = kb.search(
        vectors,
        k,
        allowed=allowed,
        texts=texts,
        lexical_weight=settings.lexical_weight,
        names=names,
        name_weight=settings.gold_name_weight,
        gold_prior=prior,
    )
    if margin:
        result = agree(result, forms, margin)
    return _links(kb, result, settings.n_candidates, settings.threshold)


def agree(result: SearchResult, forms: Sequence[Hashable], margin: float) -> SearchResult:
    """Let the mentions of one form have the link of the surest of them: the one with the highest score.

    A mention keeps its own link where the other one's entity is not among its candidates, or scores more than `margin`
    below its best: the form is then taken to stand for two things in the document. Of mentions that are as sure as each
    other, one without ties goes before, then the first.
    """
    groups: dict[Hashable, list[int]] = {}
    for query, form in enumerate(forms):
        groups.setdefault(form, []).append(query)
    leaders = np.arange(len(result.entities))
    top = result.scores[:, 0]
    for group in groups.values():
        if len(group) == 1:
            continue
        bound = top[group].max()
        bound -= TIE * max(1, abs(bound))
        sure = [query for query in group if top[query] >= bound]
        leader = min(sure, key=lambda query: (query in result.ties, query))
        entity = result.entities[leader, 0]
        scores = np.where(result.entities[group] == entity, result.scores[group], -np.inf).max(axis=1)
        close = (scores >= top[group] - margin) & np.isfinite(scores)
        leaders[np.array(group)[close]] = leader
    ties = {query: result.ties[leader] for query, leader in enumerate(leaders.tolist()) if leader in result.ties}
    return replace(
        result,
        entities=result.entities[leaders],
        scores=result.scores[leaders],
        prototypes=result.prototypes[leaders],
        ties=ties,
    )


def _links(kb: PrototypeKB, result: SearchResult, n_candidates: int, threshold: float | None) -> list[SpanLink]:
    candidates = candidate_dicts(kb, result, n_candidates)
    links = []
    for i, found in enumerate(candidates):
        best, score = int(result.entities[i, 0]), float(result.scores[i, 0])
        nil = best < 0 or (threshold is not None and score < threshold)
        ties = [kb.entity_ids[row] for row in result.ties.get(i, ())]
        links.append(SpanLink(NIL if nil else kb.entity_ids[best], found, ties))
    return links
