"""What the other mentions of a document say about a candidate."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ...kb.ranking import SearchResult, tie_bound

# Candidates of a mention that are compared with those of others. With 5, the training splits of genes gain two thirds
# of what they gain with 30, with 16 nearly all.
RELATED = 16
# What another mention has with this confidence, it surely is: a name that several entities share has about 0.5. Without
# the bound, "mouse" is the genus where a text has "mice" (28 of 1,291 mentions of Linnaeus's training documents), and
# mentions without an entity raise each other's confidence.
SURE = 0.6


def supports(docs: np.ndarray, texts: Sequence[str], entities: np.ndarray, confidence: np.ndarray) -> np.ndarray:
    """How sure the document's other mentions are of each candidate (q, k), 0 to 1: the highest confidence that it has,
    among the candidates of its species, for a mention with another text in the same document.

    docs (q,): the number of each mention's document. texts (q,): how it is written, whatever its case.
    entities (q, k): rows of its candidates, -1 for none. confidence (q, k): of each.
    """
    support = np.zeros(entities.shape)
    numbers: dict[str, int] = {}
    text = np.array([numbers.setdefault(each.lower(), len(numbers)) for each in texts], dtype=np.int64)
    mention, place = np.nonzero(entities >= 0)
    if not len(mention):
        return support
    pairs = np.stack([docs[mention], entities[mention, place]])
    _, pair = np.unique(pairs, axis=1, return_inverse=True)
    pair, form, sure = pair.ravel(), text[mention], confidence[mention, place]
    # Of each entity in each document, the surest text, and the surest of the others.
    order = np.lexsort((-sure, pair))
    first = order[np.flatnonzero(np.diff(pair[order], prepend=-1))]
    best, best_form = sure[first], form[first]
    second = np.zeros(len(first))
    other = form != best_form[pair]
    np.maximum.at(second, pair[other], sure[other])
    support[mention, place] = np.where(other, best[pair], second[pair])
    return support


def of_ties(scores: np.ndarray, support: np.ndarray) -> np.ndarray:
    """The support (q, k) by which candidates with these scores are told apart: where several are first, as those with
    the mention's name are, nothing less than `SURE` of one of them. They have an order already (`order_ties`)."""
    tied = scores >= tie_bound(scores[:, :1])
    return np.where(tied & (tied.sum(axis=1, keepdims=True) > 1) & (support < SURE), 0, support)


def with_gains(result: SearchResult, gain: np.ndarray) -> tuple[SearchResult, np.ndarray]:
    """The candidates in the order of their scores with the gains (q, k), and where each was before (q, k)."""
    gain = np.where(result.entities >= 0, gain, 0).astype(np.float32)
    scores = result.scores + gain
    order = np.argsort(-scores, axis=1, kind="stable")

    def moved(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, order, axis=1)

    parts = {key: getattr(result, key) for key in ("vector", "lexical", "species", "spelling")}
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
    top = scores[np.arange(len(scores)), first]
    level = (scores >= tie_bound(top)[:, None]) & (result.entities >= 0)
    ties = {}
    for query in {*result.ties, *np.flatnonzero(first > 0).tolist()}:
        tied = result.entities[query, level[query]]
        if result.entities[query, 0] in tied:
            # Others with its score have come after it for a reason (`order_ties`), and some may not be candidates.
            tied = result.tied(query)
            gained = gain[query, first[query]] > 0
            tied = tied[np.isin(tied, result.entities[query, level[query]])] if gained else tied
        if len(tied) > 1:
            ties[query] = np.sort(tied)
    return ties
