"""Candidates by the terms of a linker, without a linker."""

import numpy as np

from spacy_krissel.pipeline.linker.component import built_in_terms
from spacy_krissel.pipeline.linker.linking import search_candidates
from spacy_krissel.pipeline.linker.query import Names, Query
from spacy_krissel.pipeline.linker.terms.species import SpeciesTerm
from spacy_krissel.pipeline.linker.terms.vectors import VectorTerm
from spacy_krissel.pipeline.settings import LinkerSettings
from spacy_krissel.views import name_view


def search(
    kb,
    vectors,
    k,
    *,
    texts=None,
    spelt=None,
    by_name=None,
    names=None,
    name_weight=0.0,
    species=None,
    terms=(),
    **given,
):
    """The best `k` entities for each of the vectors, by the terms that these settings of a linker
    turn on.

    texts, spelt: of the mentions, with abbreviations written out, and as the doc has them. by_name:
    vectors of texts and the number of each mention's, to be searched by. names, name_weight:
    vectors of the texts alone, and their weight. species: the log-odds of each species. terms:
    further ones. given: an `allowed` mask, and weights.
    """
    kb = kb.snapshot()
    texts = [""] * len(vectors) if texts is None else list(texts)
    query = Query(
        kb,
        [name_view(text) for text in texts],
        written=texts if spelt is None else list(spelt),
        vectors=kb.queries(vectors),
        names=None if by_name is None else Names(kb.queries(by_name[0]), by_name[1]),
        name_vectors=None if names is None or not name_weight else kb.queries(names),
        species=species,
        allowed=given.pop("allowed", None),
    )
    of_settings = built_in_terms(
        LinkerSettings(coherence_weight=0.0, **{"gold_prior": 0.0, **given}), kb
    )[1:]
    of_species = [] if species is None else [SpeciesTerm(1.0)]
    return search_candidates(query, [VectorTerm(name_weight), *of_settings, *of_species, *terms], k)


def similarity(kb, text, entity):
    """The lexical similarity of a text with an entity, by row."""
    query = Query(kb.snapshot(), [name_view(text)])
    return float(query.lexical.of_candidates(np.array([[entity]]))[0, 0])
