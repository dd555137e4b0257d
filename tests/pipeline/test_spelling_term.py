"""Entities by the spelling of their names."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from term_search import search
from test_search_terms import make_kb

from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.pipeline.linker.query import LexicalQuery
from spacy_krissel.util.folding import spelling

NAMES = ["IL-2", "IL2", "il 2", "IL 12", "TGF-β", "TGFB", "±", "++", "", "gene"]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 4)), max_size=12),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=5),
    st.lists(st.integers(0, 1), min_size=5, max_size=5),
)
def test_entities_are_found_by_the_spelling_of_their_names(pairs, mentions, species):
    index = LexicalIndex.of(
        [name for name, _ in pairs], np.array([entity for _, entity in pairs], dtype=np.int64)
    )
    texts, otherwise = [text for text, _ in mentions], [other for _, other in mentions]

    def with_spelling(text):
        return {
            entity for name, entity in pairs if spelling(name) and spelling(name) == spelling(text)
        }

    for given_species in (None, np.array(species)):
        of = [0] * 5 if given_species is None else species
        expected = []
        for i, (text, other) in enumerate(mentions):
            own = with_spelling(text)
            known = {of[entity] for entity in own}
            own |= {entity for entity in with_spelling(other) if of[entity] not in known}
            expected += [(i, entity) for entity in sorted(own)]
        query = LexicalQuery(index, texts, written=otherwise)
        entities, owner, by_text = query.spelling_matches(given_species)
        assert sorted(zip(owner.tolist(), entities.tolist(), strict=True)) == expected
        assert owner.tolist() == sorted(owner.tolist())
        of_text = [
            entity in with_spelling(texts[i])
            for entity, i in zip(entities.tolist(), owner.tolist(), strict=True)
        ]
        assert by_text.tolist() == of_text
    alone = [(i, entity) for i, text in enumerate(texts) for entity in sorted(with_spelling(text))]
    entities, owner, _ = LexicalQuery(index, texts).spelling_matches()
    assert list(zip(owner.tolist(), entities.tolist(), strict=True)) == alone


def test_short_form_counts_if_no_entity_has_the_long_form():
    """Entity 1 is nearer to the long form; entity 0 has the short one as a name. Entity 2, far
    away, has it too."""
    kb = make_kb(
        [0, 1, 2],
        ["VHL", "VHL like", "V-H-L"],
        np.array([[0.8, 0], [0.9, 0], [0, 0.9]], dtype=np.float32),
    )
    query = np.array([[1, 0]], dtype=np.float32)
    asked = {"texts": ["von Hippel-Lindau"], "spelt": ["VHL"]}
    assert search(kb, query, 3, **asked).entities.tolist() == [[1, 0, 2]]
    result = search(kb, query, 3, spelling_weight=0.2, **asked)
    assert result.entities.tolist() == [[0, 1, 2]]
    assert result.scores[0] == pytest.approx([1.0, 0.9, 0.2])
    assert result.parts["spelling"][0] == pytest.approx([0.2, 0, 0.2]) and result.parts["vector"][
        0
    ] == pytest.approx([0.8, 0.9, 0])
    assert [*result.parts] == ["vector", "spelling"]
    # Found by its spelling alone, and only where it is allowed.
    assert search(
        kb, query, 1, spelling_weight=2.0, allowed=np.array([False, True, True]), **asked
    ).entities == [[2]]


def test_spelling_of_the_mention_counts():
    kb = make_kb([0, 1], ["IL2", "IL 12"], np.array([[0.8, 0], [0.9, 0]], dtype=np.float32))
    query = np.array([[1, 0]], dtype=np.float32)
    assert search(kb, query, 1, texts=["IL-2"], spelling_weight=0.2).entities == [[0]]
    assert search(kb, query[:0], 1, texts=[], spelling_weight=0.2).entities.shape == (0, 1)
