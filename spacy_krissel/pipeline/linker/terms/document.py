"""Document term: support for a candidate by the other mentions of its document."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ....kb.search_result import SearchResult
from ....kb.snapshot import KBSnapshot
from ....kb.ties import with_term
from ....lexical.groups import distinct, indices_of, pair_keys
from ....util.folding import canonical_name
from ...settings import LinkerSettings
from ..confidence import Confidence
from ..query import Query
from .term import Term

# Minimum number of candidates searched per mention: within 0.1 points of 16 and 30 on the training
# splits of diseases and chemicals. It is as fast as 5; 16 take a quarter longer.
MIN_DOCUMENT_CANDIDATES = 8


class DocumentTerm(Term):
    """Gain from the other mentions of the document: `factor` × the support of the candidate
    (`supports`) × (1 - confidence of the mention's best candidate, by its name alone). The
    candidate's confidence rises too."""

    name = "coherence"
    n_candidates = MIN_DOCUMENT_CANDIDATES

    def __init__(self, factor: float, model: Confidence) -> None:
        self.factor, self._model = factor, model

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "DocumentTerm | None":
        """Return the term; None if it is off, or candidates have no confidence."""
        model = Confidence.of(settings.confidence)
        return (
            cls(settings.coherence_weight, model)
            if settings.coherence_weight and model is not None
            else None
        )

    def revise(self, query: Query, result: SearchResult) -> SearchResult:
        by_name = result.by_name
        assert result.confidence is not None and by_name is not None, "the confidence model is set"
        certain = by_name if result.known is None else by_name * result.known
        support = supports(
            query.doc_of, query.texts, result.entities, self._model.confident(certain)
        )
        result = replace(result, confidence=self._model.supported(result.confidence, support))
        return with_term(result, self.name, self.factor * support * (1 - by_name[:, :1]))


def supports(
    docs: np.ndarray, texts: Sequence[str], entities: np.ndarray, confident: np.ndarray
) -> np.ndarray:
    """Return the support of each candidate (q, k), 0 to 1: the highest confidence of its entity for
    another mention of the same document with a different text.

    docs (q,): index of each mention's document. texts (q,): of the mentions, folded when compared.
    entities (q, k): rows of their candidates, -1 for none. confident (q, k): their confidence, 0 if
        low.
    """
    support = np.zeros(entities.shape)
    if not confident.any() or np.bincount(docs).max() < 2:
        return support
    # Mentions often have the same text.
    different, of_text = distinct(texts)
    text = distinct([canonical_name(each) for each in different])[1][of_text]
    mention, column = np.nonzero(entities >= 0)
    keys, form, value = (
        pair_keys(docs[mention], entities[mention, column]),
        text[mention],
        confident[mention, column],
    )
    # Per entity and document: the text with the highest value, and the highest value of other
    # texts.
    sure = np.flatnonzero(value)
    known, pair = np.unique(keys[sure], return_inverse=True)
    order = np.lexsort((-value[sure], pair))
    first = sure[order[np.flatnonzero(np.diff(pair[order], prepend=-1))]]
    best, best_form = value[first], form[first]
    second = np.zeros(len(first))
    other = form[sure] != best_form[pair]
    np.maximum.at(second, pair[other], value[sure[other]])
    at = indices_of(known, keys)
    supported = np.flatnonzero(at >= 0)
    at = at[supported]
    found = np.where(form[supported] != best_form[at], best[at], second[at])
    support[mention[supported], column[supported]] = found
    return support
