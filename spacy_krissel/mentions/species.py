"""Whose gene or cell line a mention is: the species that its document speaks of. The alternative to telling homonyms
apart in the knowledge base that BELHD's Table 5 compares with."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence

from spacy.tokens import Doc, Span

from ..ontology.folding import fold_name
from ..ontology.homonyms.species_names import taxon_number
from .contexts import sentence_starts
from .gold_ids import NIL

Keys = frozenset[str]
NOTHING: Keys = frozenset()


def species_key(text: str) -> str:
    """What ids and names of a species are compared by: the number of an id of NCBI Taxonomy, the name folded."""
    return taxon_number(text) or fold_name(text)


def assigned_species(doc: Doc, spans: Sequence[Span], species: Sequence[Span]) -> list[Keys]:
    """The keys of the species of each of `spans`, none where the doc speaks of none.

    That is the last one before it in its sentence, else the first one after it there, else the one that the doc names
    most often, the first of several.

    species: mentions of species; one that is linked counts by its id and its text.
    """
    found = sorted((span.start_char, span.end_char, _keys(span)) for span in species)
    if not found:
        return [NOTHING] * len(spans)
    starts = sentence_starts(doc)
    sentences = [bisect_right(starts, start) for start, _, _ in found]
    # By id where there is one, so that "man" and "patients" are one species.
    counts = Counter(_identity(keys) for _, _, keys in found)
    usual = max(found, key=lambda each: (counts[_identity(each[2])], -each[0]))[2]
    assigned = []
    for span in spans:
        sentence = bisect_right(starts, span.start_char)
        near = [each for each, place in zip(found, sentences, strict=True) if place == sentence]
        before = [keys for start, _, keys in near if start < span.start_char]
        after = [keys for start, _, keys in near if start >= span.start_char]
        assigned.append(before[-1] if before else after[0] if after else usual)
    return assigned


def _keys(span: Span) -> Keys:
    linked = [] if span.kb_id_ in ("", NIL) else [species_key(span.kb_id_)]
    return frozenset([*linked, species_key(span.text)])


def _identity(keys: Keys) -> str:
    return min(keys, key=lambda key: (not key.isdigit(), key))
