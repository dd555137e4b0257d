"""Search among the entities with lexically similar names."""

import numpy as np
import pytest
import torch

from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.kb import alike
from spacy_krissel.kb.alike import nearest_among_entities
from spacy_krissel.kb.ranking import search_entities


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("seed, width, n_queries", [(0, 1, 3), (1, 4, 1), (2, 9, 7), (3, 30, 1200)])
def test_the_nearest_prototypes_equal_a_plain_restatement(random_kb, seed, width, n_queries, dtype):
    rng = np.random.default_rng(seed)
    owners, vectors = rng.integers(0, 12, 40), rng.integers(-2, 3, (40, 3)).astype(np.float32)
    prototypes = random_kb(sorted(owners.tolist()), vectors, dtype=dtype).prototypes
    queries = rng.integers(-2, 3, (n_queries, 3)).astype(np.float32)
    pairs = np.argwhere(rng.random((n_queries, int(prototypes.entity_rows.max()) + 1)) < 0.3)
    allowed = rng.random(pairs[:, 1].max(initial=0) + 1) < 0.8
    scores, rows = nearest_among_entities(
        prototypes, queries, pairs[:, 1], pairs[:, 0], width, allowed
    )
    for query, vector in enumerate(queries):
        mine = pairs[pairs[:, 0] == query, 1]
        near = np.flatnonzero(np.isin(prototypes.entity_rows, mine[allowed[mine]]))
        expected = -np.sort(-(prototypes.vectors[near] @ vector))[:width]
        found = rows[query, : len(expected)]
        assert scores[query, : len(expected)].tolist() == expected.tolist()
        assert (prototypes.vectors[found] @ vector).tolist() == expected.tolist()
        assert {*found.tolist()} <= {*near.tolist()} and len({*found.tolist()}) == len(expected)
        assert (rows[query, len(expected) :] == -1).all()


def test_threads_find_what_one_finds(random_kb, monkeypatch):
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 4)).astype(np.float32)
    prototypes = random_kb(sorted(rng.integers(0, 40, 200).tolist()), vectors).prototypes
    queries = rng.normal(size=(30, 4)).astype(np.float32)
    pairs = np.argwhere(rng.random((30, 40)) < 0.5)
    calls = prototypes, queries, pairs[:, 1], pairs[:, 0], 9
    expected = nearest_among_entities(*calls)
    monkeypatch.setattr(alike, "MIN_PAIRS", 10)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    for found, own in zip(nearest_among_entities(*calls), expected, strict=True):
        np.testing.assert_array_equal(found, own)


def test_hits_of_all_prototypes_give_what_the_index_gives(random_kb):
    rng = np.random.default_rng(0)
    prototypes = random_kb(
        rng.integers(0, 300, 900).tolist(), rng.normal(size=(900, 4)).astype(np.float32)
    ).prototypes
    index, queries = ExactIndex(), rng.normal(size=(50, 4)).astype(np.float32)
    index.build(prototypes.vectors)
    expected = search_entities(index, prototypes, queries, 64, None, 3)
    found = search_entities(
        index, prototypes, queries, 64, None, 3, index.search(queries, len(prototypes))
    )
    np.testing.assert_array_equal(found.entities, expected.entities)
    np.testing.assert_array_equal(found.extra_prototypes, expected.extra_prototypes)


def test_queries_without_hits_and_cut_ties_are_compared_with_all(random_kb):
    vectors = np.ones((900, 4), dtype=np.float32)
    vectors[0] = 2
    prototypes = random_kb([*range(900)], vectors).prototypes
    index, queries = ExactIndex(), np.ones((3, 4), dtype=np.float32)
    index.build(prototypes.vectors)
    scores, rows = np.full((3, 512), 4, np.float32), np.tile(np.arange(1, 513), (3, 1))
    # The first has no hit, the second a few, and those of the third may go on beyond the last.
    scores[0], rows[0], scores[1, 5:], rows[1, 5:] = -np.inf, -1, -np.inf, -1
    found = search_entities(index, prototypes, queries, 4, None, 0, (scores, rows))
    assert found.entities[0, 0] == found.entities[2, 0] == 0 and len(found.ties) == 1
    assert found.ties[1].tolist() == [1, 2, 3, 4, 5]
