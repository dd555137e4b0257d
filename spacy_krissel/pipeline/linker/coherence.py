"""Support for a candidate by the other mentions of its document."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kb.groups import pair_keys
from ...kb.lexical_index import distinct, places_of
from ...kb.ranking import SearchResult, tie_bound
from ...ontology.folding import canonical_name

# Candidates that are searched for of each mention, at least: within 0.1 points of 16 and 30 on the training splits of
# diseases and chemicals, and as quick as 5, where 16 take a quarter longer.
RELATED = 8


def supports(docs: np.ndarray, texts: Sequence[str], entities: np.ndarray, confident: np.ndarray) -> np.ndarray:
    """The support of each candidate (q, k), 0 to 1: the highest confidence that its entity has for another mention of
    the same document, with another text.

    docs (q,): the number of each mention's document. texts (q,): of the mentions, folded where they are compared.
    entities (q, k): rows of their candidates, -1 for none. confident (q, k): the confidence of each, 0 where it is low.
    """
    support = np.zeros(entities.shape)
    if not confident.any():
        return support
    # Mentions often have the same text.
    different, of_text = distinct(texts)
    text = distinct([canonical_name(each) for each in different])[1][of_text]
    mention, place = np.nonzero(entities >= 0)
    keys, form, value = pair_keys(docs[mention], entities[mention, place]), text[mention], confident[mention, place]
    # Of each entity in each document, the text with the highest value, and the highest of the others.
    sure = np.flatnonzero(value)
    known, pair = np.unique(keys[sure], return_inverse=True)
    order = np.lexsort((-value[sure], pair))
    first = sure[order[np.flatnonzero(np.diff(pair[order], prepend=-1))]]
    best, best_form = value[first], form[first]
    second = np.zeros(len(first))
    other = form[sure] != best_form[pair]
    np.maximum.at(second, pair[other], value[sure[other]])
    at = places_of(known, keys)
    supported = np.flatnonzero(at >= 0)
    at = at[supported]
    found = np.where(form[supported] != best_form[at], best[at], second[at])
    support[mention[supported], place[supported]] = found
    return support


def with_gains(result: SearchResult, gain: np.ndarray) -> tuple[SearchResult, np.ndarray]:
    """The candidates in the order of their scores with the gains (q, k), 0 for no entity, and where each was before
    (q, k)."""
    gain = gain.astype(np.float32)
    scores = result.scores + gain
    order = np.argsort(-scores, axis=1, kind="stable")

    def moved(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, order, axis=1)

    parts = {key: getattr(result, key) for key in ("lexical", "species", "spelling")}
    parts["vector"] = result.scores if result.vector is None else result.vector
    return (
        replace(
            result,
            entities=moved(result.entities),
            scores=moved(scores),
            prototypes=moved(result.prototypes),
            ties=_ties(result, gain, scores, order[:, 0]),
            coherence=moved(gain),
            **{key: moved(values) for key, values in parts.items() if values is not None},  # type: ignore[arg-type]
        ),
        order,
    )


def _ties(result: SearchResult, gain: np.ndarray, scores: np.ndarray, first: np.ndarray) -> dict[int, np.ndarray]:
    """The entities that tie with the new first ones, which were at `first` (q,)."""
    lines = np.arange(len(scores))
    level = (scores >= tie_bound(scores[lines, first])[:, None]) & (result.entities >= 0)
    # Those that were level before and no tie have an order for a reason (`order_ties`).
    before = result.scores >= tie_bound(result.scores[:, :1])
    ties = {}
    for query in {*result.ties, *np.flatnonzero(level.sum(axis=1) > 1).tolist()}:
        found, tied = result.entities[query], result.ties.get(query, result.entities[query, :0])
        if gain[query, first[query]] == 0 and found[first[query]] in tied:
            # Nothing is said of them; some may be no candidates.
            ties[query] = tied
            continue
        others = level[query] & ~(before[query] & before[query, first[query]])
        kept = np.isin(found, tied) & level[query] if found[first[query]] in tied else found == found[first[query]]
        now = found[others | kept]
        if len(now) > 1:
            ties[query] = np.sort(now)
    return ties
