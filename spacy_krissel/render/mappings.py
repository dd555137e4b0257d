"""Mappings of terms to their entities, as rows of SSSOM."""

from collections.abc import Mapping as Dictionary
from typing import Any

from ..corpora.term_lists import Term
from ..kb.prototype_kb import PrototypeKB
from ..util.escape import one_line
from ..util.folding import canonical_name
from .sssom import NOT_FOUND, Curies, Mapping

EXACT, CLOSE = "skos:exactMatch", "skos:closeMatch"
LEXICAL = "semapv:LexicalMatching"
SIMILAR = "semapv:LexicalSimilarityThresholdMatching"
SEMANTIC = "semapv:SemanticSimilarityThresholdMatching"
# Fields of an entity that a term may match.
LABEL, ALIAS = "rdfs:label", "skos:altLabel"
# Kinds of mappings that are counted.
KINDS = ("exact", "close", "without_entity")


def term_mapping(
    term: Term,
    found: Dictionary[str, Any],
    kb: PrototypeKB,
    curies: Curies,
    predicate: str = "",
) -> Mapping:
    """Return the mapping of a term to an entity.

    found: a candidate; empty for no entity. predicate: "" for a skos:exactMatch if the term is a
        name of the entity in canonical form, else a skos:closeMatch.
    """
    subject, form = term.id and curies(term.id, "term"), canonical_name(term.label)
    names = [*map(canonical_name, kb.names_of(found["id"]))] if found else []
    is_name, is_similar = form in names, found.get("match", "context") != "context"
    confidence, score = found.get("confidence"), found.get("score", -1)
    return Mapping(
        subject,
        term.label,
        predicate or (EXACT if is_name or not found else CLOSE),
        curies(found["id"], "kb") if found else NOT_FOUND,
        one_line(found.get("name", "")),
        LEXICAL if is_name else SIMILAR if is_similar else SEMANTIC,
        # The standard's rule for a subject without an id.
        "" if subject else "rdfs literal",
        rounded(confidence),
        (LABEL if form == names[0] else ALIAS) if is_name else "",
        form if is_name else "",
        rounded(score) if confidence is None and 0 <= score <= 1 else "",
        dict(term.others),
    )


def kind_of(mapping: Mapping) -> str:
    """Return which of `KINDS` a mapping is."""
    exact, close, without_entity = KINDS
    if mapping.object_id == NOT_FOUND:
        return without_entity
    return exact if mapping.predicate_id == EXACT else close


def rounded(number: float | None) -> str:
    return "" if number is None else f"{round(number, 3):g}"
