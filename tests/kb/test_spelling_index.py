"""Entities by the spelling of their names."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_hybrid import make_kb

from spacy_krissel.kb.spelling_index import SpellingIndex
from spacy_krissel.ontology.folding import spelling

NAMES = ["IL-2", "IL2", "il 2", "IL 12", "TGF-β", "TGFB", "±", "++", "", "gene"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 4)), max_size=12),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=5),
)
def test_an_entity_of_that_spelling_is_missed(pairs, mentions):
    index = SpellingIndex([name for name, _ in pairs], np.array([entity for _, entity in pairs], dtype=np.int64))
    texts = [[first for first, _ in mentions], [second for _, second in mentions]]
    entities, owner = index.named_by_any(texts)
    expected = sorted(
        {
            (i, entity)
            for i, forms in enumerate(mentions)
            for name, entity in pairs
            if spelling(name) and spelling(name) in map(spelling, forms)
        }
    )
    assert list(zip(owner.tolist(), entities.tolist(), strict=True)) == expected


def test_the_short_form_of_a_mention_does_not_count():
    """Entity 1 is nearer to the long form; entity 0 has the short one as a name. Entity 2, far away, has it too."""
    kb = make_kb([0, 1, 2], ["VHL", "VHL like", "V-H-L"], np.array([[0.8, 0], [0.9, 0], [0, 0.9]], dtype=np.float32))
    query = np.array([[1, 0]], dtype=np.float32)
    asked = {"texts": ["von Hippel-Lindau"], "spelt": ["VHL"]}
    assert kb.search(query, 3, **asked).entities.tolist() == [[1, 0, 2]]
    result = kb.search(query, 3, spelling_weight=0.2, **asked)
    assert result.entities.tolist() == [[0, 1, 2]]
    assert result.scores[0] == pytest.approx([1.0, 0.9, 0.2])
    assert result.spelling[0] == pytest.approx([0.2, 0, 0.2]) and result.vector[0] == pytest.approx([0.8, 0.9, 0])
    assert result.lexical is None and result.species is None
    # Found by its spelling alone, and only where it is allowed.
    assert kb.search(query, 1, spelling_weight=2.0, allowed=np.array([False, True, True]), **asked).entities == [[2]]


def test_the_mention_itself_does_not_count():
    kb = make_kb([0, 1], ["IL2", "IL 12"], np.array([[0.8, 0], [0.9, 0]], dtype=np.float32))
    query = np.array([[1, 0]], dtype=np.float32)
    assert kb.search(query, 1, texts=["IL-2"], spelling_weight=0.2).entities == [[0]]
    assert kb.search(query[:0], 1, texts=[], spelling_weight=0.2).entities.shape == (0, 1)
