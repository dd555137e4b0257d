import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spacy_krissel.kb.ranking import SearchResult
from spacy_krissel.pipeline.linker.linking import agree


def make_result(*lines, ties=None):
    """Each line: (entity, score) pairs, best first. The prototype of a place is its number in reading order."""
    entities = np.array([[entity for entity, _ in line] for line in lines], dtype=np.int64)
    scores = np.array([[score for _, score in line] for line in lines], dtype=np.float32)
    prototypes = np.arange(entities.size).reshape(entities.shape)
    return SearchResult(entities, scores, prototypes, {query: np.array(tied) for query, tied in (ties or {}).items()})


def test_the_surest_decides():
    result = make_result([(1, 0.80), (2, 0.78)], [(2, 0.95), (1, 0.70)], [(1, 0.6), (2, 0.1)])
    agreed = agree(result, ["a", "a", "b"], 0.05)
    assert agreed.entities.tolist() == [[2, 1], [2, 1], [1, 2]]
    assert agreed.scores[0] == pytest.approx([0.95, 0.70]) and agreed.scores[2] == pytest.approx([0.6, 0.1])
    assert agreed.prototypes.tolist() == [[2, 3], [2, 3], [4, 5]]
    assert result.entities.tolist()[0] == [1, 2], "the search result is left as it was"


def test_two_senses_stay_apart():
    """One form in two senses: each mention is surer of its own by more than the margin, or knows no other."""
    result = make_result([(1, 0.80), (2, 0.60)], [(2, 0.95), (1, 0.50)], [(3, 0.70), (4, 0.69)])
    assert agree(result, ["a"] * 3, 0.05).entities.tolist() == result.entities.tolist()
    assert agree(result, ["a"] * 3, 0.25).entities.tolist() == [[2, 1], [2, 1], [3, 4]]


def test_a_settled_mention_settles_ties():
    """Mentions that are as sure as each other: one without ties goes before."""
    ties = {0: [1, 2], 2: [1, 2]}
    result = make_result([(1, 0.9), (2, 0.9)], [(2, 0.9), (1, 0.8)], [(1, 0.7), (2, 0.7)], ties=ties)
    agreed = agree(result, ["a"] * 3, 0.05)
    assert agreed.entities[:, 0].tolist() == [2, 2, 2] and agreed.ties == {}


def test_ties_go_with_the_link():
    result = make_result([(1, 0.9), (2, 0.9)], [(2, 0.7), (1, 0.68)], [(2, 0.7), (1, 0.1)], ties={0: [1, 2]})
    agreed = agree(result, ["a"] * 3, 0.05)
    assert agreed.entities[:, 0].tolist() == [1, 1, 2]
    assert {query: tied.tolist() for query, tied in agreed.ties.items()} == {0: [1, 2], 1: [1, 2]}


def test_nothing_found():
    result = make_result([(-1, -np.inf), (-1, -np.inf)], [(-1, -np.inf), (-1, -np.inf)])
    agreed = agree(result, ["a", "a"], 0.05)
    assert agreed.entities.tolist() == result.entities.tolist() and not agreed.ties
    mixed = make_result([(-1, -np.inf), (-1, -np.inf)], [(4, 0.5), (-1, -np.inf)])
    assert agree(mixed, ["a", "a"], 0.05).entities.tolist() == [[-1, -1], [4, -1]]


LINES = st.lists(st.tuples(st.permutations(range(5)), st.lists(st.integers(0, 8), min_size=3, max_size=3)), max_size=8)


@given(LINES, st.data())
def test_restated(lines, data):
    """Mention by mention: the surest of its form where it agrees, else its own."""
    result = make_result(
        *[
            list(zip(entities, sorted((s / 8 for s in scores), reverse=True), strict=False))
            for entities, scores in lines
        ]
    )
    if not lines:
        result = SearchResult(*(np.zeros((0, 3), dtype) for dtype in (np.int64, np.float32, np.int64)), {})
    forms = data.draw(st.lists(st.sampled_from("ab"), min_size=len(lines), max_size=len(lines)))
    agreed = agree(result, forms, 0.3)
    for i, form in enumerate(forms):
        group = [j for j, other in enumerate(forms) if other == form]
        leader = max(group, key=lambda j: (result.scores[j, 0], -j))
        own = dict(zip(result.entities[i].tolist(), result.scores[i].tolist(), strict=False))
        agrees = own.get(int(result.entities[leader, 0]), -np.inf) >= result.scores[i, 0] - 0.3
        assert agreed.entities[i].tolist() == result.entities[leader if agrees else i].tolist()
