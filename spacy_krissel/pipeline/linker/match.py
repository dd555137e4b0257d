"""Match of a candidate: how its name was found in the mention."""

from dataclasses import replace

import numpy as np

from ...kb.search_result import MATCHES, SearchResult
from ...lexical.index import DIFFERENT, LOWER_CASE
from ..settings import LinkerSettings
from .query import Query

# Lowest lexical similarity of a text that is similar to a name. Of 57 development mentions of
# BC5CDR and NCBI Disease with less, 3 were linked to MEDIC correctly.
MIN_SIMILAR = 0.4
CONTEXT, SIMILAR, VARIANT, SPELLING, ABBREVIATION, MENTION, SYNONYM, LABEL = range(len(MATCHES))
# Variants of names that no comparison of texts tells (`finding.finder.VARIANTS`).
WORD_VARIANTS = frozenset(["form", "order", "word", "coordination"])


def with_match(query: Query, result: SearchResult, settings: LinkerSettings) -> SearchResult:
    """Return the candidates with their match, if these settings compare names."""
    if not (settings.lexical_weight or settings.spelling_weight or settings.confidence):
        return result
    return replace(result, match=match_codes(query, result))


def match_codes(query: Query, result: SearchResult) -> np.ndarray:
    """Return the match of each candidate as an index of `MATCHES` (q, k), -1 for no entity.

    A mention is compared as written. If the document defines an abbreviation in it, the expanded
    text is compared too: any match of that alone is an abbreviation. An entity whose name the
    mention was found by in other words, or read in other words, is a variant. A name that a person
    added is a synonym.
    """
    entities = result.entities
    lexical = result.parts.get("lexical")
    lexical = query.lexical.of_candidates(entities) if lexical is None else lexical
    codes = np.where(lexical >= MIN_SIMILAR, SIMILAR, CONTEXT).astype(np.int8)
    lower = query.lexical.lower
    codes[(lexical > DIFFERENT) | (lower[:, None] & (lexical == np.float32(LOWER_CASE)))] = SPELLING
    row, column = np.nonzero(lexical == 1)
    codes[row, column] = _names(query, query.lexical.hashes[row], entities[row, column])
    expanded, texts, of_mention = query.lexical.alternatives
    if len(expanded):
        of_text = codes[expanded]
        equal = query.lexical.alternative_equality(entities[expanded])
        written = np.where(equal > 0, SPELLING, CONTEXT).astype(np.int8)
        row, column = np.nonzero(equal == 1)
        written[row, column] = _names(
            query, texts.hashes[of_mention[row]], entities[expanded[row], column]
        )
        is_defined = [*map(query.is_defined, expanded.tolist())]
        most = np.where(is_defined, ABBREVIATION, SIMILAR)[:, None]
        codes[expanded] = np.maximum(written, np.where(of_text == CONTEXT, CONTEXT, most))
    if (spelt := result.parts.get("spelling")) is not None:
        codes = np.where(spelt > 0, np.maximum(codes, SPELLING), codes)
    codes[query.reworded] = np.minimum(codes[query.reworded], VARIANT)
    for row, found in query.found.items():
        named = found.has(entities[row])
        if found.is_added:
            codes[row, named] = np.maximum(codes[row, named], SYNONYM)
        elif found.variant in WORD_VARIANTS:
            codes[row, named] = VARIANT
        elif found.variant == "abbreviation":
            codes[row, named] = np.minimum(codes[row, named], ABBREVIATION)
    codes[entities < 0] = -1
    return codes


def _names(query: Query, hashes: np.ndarray, entities: np.ndarray) -> np.ndarray:
    """Return the match of texts that are names of `entities` (n,). hashes (n,): of their canonical
    forms."""
    kb = query.kb
    codes = np.full(len(entities), SYNONYM, dtype=np.int8)
    if kb.has_gold:
        # An annotated mention counts as a name in the lexical index.
        gold = np.flatnonzero(np.isin(entities, kb.prototypes.gold_entities))
        codes[gold[~kb.prototypes.are_names(entities[gold], hashes[gold])]] = MENTION
    codes[kb.entities.label_hashes(entities) == hashes] = LABEL
    return codes
