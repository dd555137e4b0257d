"""From vectors and texts of mentions to the entity of each."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...errors import Errors, KrisselError
from ...kb.candidates import candidate_dicts
from ...kb.lexical_index import SPELT
from ...kb.prototype_kb import OF_ANY_SPECIES, PrototypeKB
from ...kb.ranking import SearchResult
from ...mentions.annotations import SpanLink
from ...mentions.gold_ids import NIL
from ...mentions.species import taxon_numbers
from ..settings import LinkerSettings
from .coherence import RELATED, supports, with_gains
from .confidence import Confidence

# Ties and thresholds need the second-best entity even where one candidate is wanted.
MIN_CANDIDATES = 2
# Lexical similarity and gold mentions change the order of the first ones: more are searched for than are kept.
MIN_REORDERED = 5


class Found(NamedTuple):
    """The candidates of q mentions, and the confidence of each, in all and by its name alone (q, k), as `Confidence`
    has them; None where they are not computed."""

    result: SearchResult
    confidence: np.ndarray | None
    by_name: np.ndarray | None = None


def find(
    kb: PrototypeKB,
    vectors: np.ndarray,
    texts: Sequence[str],
    settings: LinkerSettings,
    n_candidates: int,
    allowed: np.ndarray | None = None,
    names: np.ndarray | None = None,
    species: np.ndarray | None = None,
    spelt: Sequence[str] | None = None,
    by_name: tuple[np.ndarray, np.ndarray] | None = None,
) -> Found:
    """The candidates of each of q mentions by itself.

    vectors (q, d): of the mentions in their contexts. texts (q,): of the mentions.
    names (q, d): vectors of the texts alone; None where `gold_name_weight` does not count.
    species (q, s): added to the scores of entities of each species of the knowledge base; None for nothing.
    spelt (q,): how the doc spells them; None for no other way than `texts`.
    by_name: vectors of different texts, and the number of each mention's, to search by (`PrototypeKB.search`).
    n_candidates: wanted of each, at least. allowed: mask of entities.
    """
    prior = settings.gold_prior if kb.has_gold else 0.0
    model = confidence_of(settings)
    weighed = settings.lexical_weight or settings.spelling_weight or prior
    reordered = weighed or names is not None or species is not None or model is not None
    k = max(n_candidates, MIN_REORDERED if reordered else MIN_CANDIDATES)
    if model is not None and species is not None:
        # How sure a species is depends on those of all candidates.
        k = max(k, OF_ANY_SPECIES)
    elif model is not None and settings.coherence_weight:
        k = max(k, RELATED)
    result = kb.search(
        vectors,
        k,
        allowed=allowed,
        texts=texts,
        lexical_weight=settings.lexical_weight,
        by_name=by_name,
        names=names,
        name_weight=settings.gold_name_weight,
        gold_prior=prior,
        species=species,
        spelt=spelt,
        spelling_weight=settings.spelling_weight,
    )
    confidence = by_name = None
    if model is not None:
        vector, lexical = similarities(kb, result, texts)
        if result.spelling is not None:
            # A name that is spelt so is that name.
            lexical = np.where(result.spelling > 0, np.maximum(lexical, np.float32(SPELT)), lexical)
        if result.species is None:
            confidence, by_name = model(vector, lexical)
        else:
            kind = species_of(kb, result.entities)
            confidence, by_name = model(vector, lexical, kind, result.species / np.float32(settings.species_weight))
    return Found(result, confidence, by_name)


def by_document(
    found: Sequence[Found], rows: Sequence[list[int]], docs: np.ndarray, texts: Sequence[str], settings: LinkerSettings
) -> list[Found]:
    """The same candidates, now with support by the other mentions of their documents: each gains `coherence_weight` ×
    its support (`supports`) × (1 - confidence of the mention's best candidate, by its name alone).

    rows: which of the mentions each of `found` is of. docs (q,): the number of each mention's document. texts (q,): of
    the mentions, abbreviations written out.
    """
    model = confidence_of(settings)
    if model is None or not settings.coherence_weight or not found:
        return [*found]
    every = np.concatenate(rows)
    entities, by_name = (
        np.concatenate(each) for each in zip(*((one.result.entities, one.by_name) for one in found), strict=True)
    )
    support = supports(docs[every], [texts[row] for row in every], entities, model.confident(by_name))
    together = []
    for one, own in zip(found, np.split(support, np.cumsum([len(each) for each in rows])[:-1]), strict=True):
        assert one.confidence is not None and one.by_name is not None, "there is a model of it"
        result, order = with_gains(one.result, settings.coherence_weight * own * (1 - one.by_name[:, :1]))
        together.append(Found(result, np.take_along_axis(model.supported(one.confidence, own), order, axis=1)))
    return together


def decide(kb: PrototypeKB, found: Found, settings: LinkerSettings, n_candidates: int) -> list[SpanLink]:
    """The link of each mention, with so many candidates."""
    result, confidence = found.result, found.confidence
    candidates = candidate_dicts(kb, result, n_candidates, confidence)
    best = result.entities[:, 0]
    nil = best < 0
    if settings.threshold is not None:
        # As precise as the threshold: one between two scores may be rounded to the lower.
        nil |= result.scores[:, 0].astype(np.float64) < settings.threshold
    if confidence is not None:
        nil |= confidence[:, 0].astype(np.float64) < settings.min_confidence
    ids = np.full(len(best), NIL, dtype=object)
    ids[~nil] = kb.entity_ids.take(best[~nil])
    ties: list[list[str]] = [[] for _ in best]
    for i, tied in result.ties.items():
        ties[i] = [kb.entity_ids[row] for row in tied]
    return [*map(SpanLink, ids.tolist(), candidates, ties)]


def confidence_of(settings: LinkerSettings) -> Confidence | None:
    """Raises KrisselError K006 for a least confidence where nothing computes one."""
    model = Confidence.of(settings.confidence)
    if model is None and settings.min_confidence:
        expected = "0, or a linker that `krissel confidence` gave its `confidence`"
        raise KrisselError(
            Errors.K006.format(setting="min_confidence", found=settings.min_confidence, expected=expected)
        )
    return model


def similarities(
    kb: PrototypeKB, result: SearchResult, texts: Sequence[str], hidden: Sequence[bool] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """The similarity of vectors, and the lexical one, of each candidate of the mentions `texts` (q, k). hidden: as in
    `PrototypeKB.search_unseen`."""
    vector = result.scores if result.vector is None else result.vector
    lexical = result.lexical
    return vector, kb.lexical_similarity(texts, result.entities, hidden) if lexical is None else lexical


def species_of(kb: PrototypeKB, entities: np.ndarray) -> np.ndarray | None:
    """The number of the species of each of these entity rows, -1 for no entity; None where all are of one."""
    numbers = taxon_numbers(kb.species)
    return None if numbers is None else np.where(entities >= 0, numbers[kb.entities.species[0][entities]], -1)
