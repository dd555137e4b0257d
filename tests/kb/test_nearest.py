"""Inner products of mentions with prototypes."""

import numpy as np
import pytest

from spacy_krissel.index.products import products
from spacy_krissel.kb.nearest import nearest_of_entities


@pytest.mark.parametrize("width", [1, 17, 256])
def test_scores_are_correct_and_independent_of_row_position(width):
    rng = np.random.default_rng(1)
    vectors, queries = (rng.normal(size=(n, width)).astype(np.float32) for n in (20, 6))
    vectors[7] = vectors[3]
    rows, of_query = rng.integers(0, 20, 500), rng.integers(0, 6, 500)
    found = products(vectors, rows, queries, of_query)
    np.testing.assert_allclose(
        found, (vectors.astype(float)[rows] * queries[of_query]).sum(axis=1), atol=1e-4
    )
    _, first, same = np.unique(
        np.where(rows == 7, 3, rows) * 6 + of_query, return_index=True, return_inverse=True
    )
    assert (found == found[first][same]).all()


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_nearest_prototypes_are_found_in_small_blocks(random_kb, monkeypatch, dtype):
    rng = np.random.default_rng(0)
    owners = rng.integers(0, 12, size=60).tolist()
    kb = random_kb(owners, rng.normal(size=(60, 5)).astype(np.float32), dtype=dtype)
    vectors = rng.normal(size=(7, 5)).astype(np.float32)
    queries, entities = np.repeat(np.arange(7), 13), np.tile(np.arange(13), 7)
    monkeypatch.setattr("spacy_krissel.index.products.BLOCK_VALUES", 12)
    rows, best = nearest_of_entities(kb.prototypes, vectors, queries, entities)
    for query, entity, row, score in zip(queries, entities, rows, best, strict=True):
        mine = np.flatnonzero(np.array(owners) == entity)
        scores = kb.vectors[mine].astype(np.float32) @ vectors[query]
        assert row == (mine[scores.argmax()] if len(mine) else -1)
        assert score == pytest.approx(scores.max(initial=-np.inf), abs=1e-6)
