"""Species term: the species of an entity, given the species that the document names."""

from itertools import islice

import numpy as np

from ....kb.snapshot import KBSnapshot
from ....mentions.discontinuous import holds_fragments
from ....mentions.species import prefix_taxon, species_scores, taxon_numbers, taxon_of
from ....views import doc_texts
from ...settings import LinkerSettings
from ..query import Query
from .term import Pairs, Term

# Minimum number of entities found by name before their species counts. One of the correct species
# may rank far below those spelt as the mention is. The certainty of a species depends on those of
# all candidates, too.
MIN_SPECIES_CANDIDATES = 64


class SpeciesTerm(Term):
    """Gain from the entity's species: `factor` × its log-probability relative to the most likely
    species (`species_scores`).

    spans_key: group of spans that holds the mentions.
    """

    name = "species"
    n_candidates = MIN_SPECIES_CANDIDATES

    def __init__(self, factor: float, spans_key: str = "") -> None:
        self.factor, self._spans_key = factor, spans_key

    @classmethod
    def of(cls, settings: LinkerSettings, kb: KBSnapshot) -> "SpeciesTerm | None":
        """Return the term; None if it is off, or the entities are of one species."""
        if not settings.species_weight or taxon_numbers(kb.species) is None:
            return None
        return cls(settings.species_weight, settings.spans_key)

    def prepare(self, query: Query) -> None:
        """Remove the species prefix of mentions (hMLH1), and score the species of each mention."""
        prefixes: list[str | None] = [None] * len(query)
        for row, name in _names_without_species_prefix(query).items():
            prefixes[row] = prefix_taxon(query.texts[row])
            query.rename(row, name)
        taxa = [taxon_of(each) for each in query.kb.species]
        left, spans = iter(prefixes), iter(query.spans)
        counts = np.bincount(query.doc_of, minlength=len(query.docs)).tolist()
        found = []
        for doc, text, n in zip(query.docs, doc_texts(query.docs), counts, strict=True):
            own = [*islice(spans, n)]
            scores = species_scores(doc, own, taxa, [*islice(left, n)], text=text)
            if holds_fragments(doc, self._spans_key):
                # All fragments of a mention have the species of the first.
                first = {span.id_: row for row, span in reversed([*enumerate(own)]) if span.id_}
                scores = scores[[first.get(span.id_, row) for row, span in enumerate(own)]]
            found.append(scores)
        query.species = np.concatenate(found)

    def score(self, query: Query, pairs: Pairs) -> np.ndarray:
        assert query.species is not None, "the query is prepared"
        species = query.kb.entities.species[0][pairs.entities]
        return np.float32(self.factor) * query.species[pairs.mentions, species]


def _names_without_species_prefix(query: Query) -> dict[int, str]:
    """Return the names of mentions that are a name only without their species prefix, by row."""
    rows = [row for row, text in enumerate(query.texts) if prefix_taxon(text)]
    if not rows:
        return {}
    whole, bare = ([query.texts[row][start:] for row in rows] for start in (0, 1))
    named = query.kb.prototypes.lexical_index.entities_named
    is_name = [set(named(texts)[1].tolist()) for texts in (whole, bare)]
    return {row: bare[i] for i, row in enumerate(rows) if i in is_name[1] - is_name[0]}
