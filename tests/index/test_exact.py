import warnings
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spacy_krissel.errors import KrisselError
from spacy_krissel.index import bfloat16, exact, hits
from spacy_krissel.index.bfloat16 import MIN_QUERIES, search_rounded
from spacy_krissel.index.exact import ExactIndex, make_exact_index
from spacy_krissel.index.hits import lower_bound, search_blocks

# Small whole numbers: their products are exact in float32, and ties are frequent.
WHOLE = st.integers(-2, 2).map(float)


@st.composite
def searches(draw):
    n, d, q = draw(st.integers(1, 150)), draw(st.integers(1, 3)), draw(st.integers(0, 7))
    vectors = draw(arrays(np.float32, (n, d), elements=WHOLE))
    queries = draw(arrays(np.float32, (q, d), elements=WHOLE))
    allowed = draw(st.none() | arrays(np.bool_, n))
    return vectors, queries, draw(st.integers(0, n + 3)), allowed


def brute_force(vectors, queries, k, allowed):
    """Scores and rows by sorting everything, equal scores by row."""
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows = np.full((len(queries), k), -1)
    for i, query in enumerate(queries):
        found = [
            (-float(query @ vectors[row]), row)
            for row in range(len(vectors))
            if allowed is None or allowed[row]
        ]
        for place, (score, row) in enumerate(sorted(found)[:k]):
            scores[i, place], rows[i, place] = -score, row
    return scores, rows


@given(searches(), st.integers(1, 60))
@settings(deadline=None)
def test_search_equals_brute_force(search, block_rows):
    vectors, queries, k, allowed = search
    index = ExactIndex()
    index.build(vectors)
    with patch.object(exact, "BLOCK_ROWS", block_rows):
        scores, rows = index.search(queries, k, allowed)
    expected_scores, expected_rows = brute_force(vectors, queries, k, allowed)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.mark.parametrize("k", [1, 5, 64, 500, 3000])
def test_the_lower_bound_is_reached_by_k_scores_and_few_more(k):
    scores = np.random.default_rng(0).standard_normal((20, 3000)).astype(np.float32)
    reached = (scores >= lower_bound(scores, k)[:, None]).sum(axis=1)
    assert (reached >= k).all()
    assert (reached <= 2 * k + 10).all()


def test_later_blocks_with_higher_scores_replace_earlier_results():
    vectors = np.arange(1000, dtype=np.float32)[:, None]
    index = ExactIndex()
    index.build(vectors)
    with patch.object(exact, "BLOCK_ROWS", 64):
        _, rows = index.search(np.ones((1, 1), dtype=np.float32), 3)
    assert rows.tolist() == [[999, 998, 997]]


def test_float16_vectors_are_searched_as_float32():
    vectors = np.random.default_rng(0).standard_normal((100, 8)).astype(np.float16)
    index = ExactIndex()
    index.build(vectors)
    scores, rows = index.search(vectors[:5].astype(np.float32), 4)
    expected_scores, expected_rows = brute_force(
        vectors.astype(np.float32), vectors[:5].astype(np.float32), 4, None
    )
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5)


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:every", "cudax", ""])
def test_a_misspelt_device_raises(device):
    with pytest.raises(KrisselError, match="K006.*device"):
        make_exact_index(device)()


@pytest.fixture
def rounded(monkeypatch):
    """Use bfloat16 on any processor and for few queries; torch supports it everywhere."""
    monkeypatch.setattr(bfloat16, "has_bfloat16", lambda: True)
    monkeypatch.setattr(bfloat16, "MIN_QUERIES", 1)


def search_counted(index, *arguments):
    """The search, and how many queries the first pass in bfloat16 was enough for."""
    n = []

    def noted(*given):
        found = search_rounded(*given)
        n.append(len(found[0]) - len(found[2]))
        return found

    with patch.object(bfloat16, "search_rounded", noted):
        found = index.search(*arguments)
    return found, sum(n)


@given(searches(), *[st.integers(1, 60)] * 2, st.integers(1, 5), st.integers(-10, 10))
@settings(deadline=None)
def test_bfloat16_search_in_blocks_equals_brute_force(
    search, block_rows, rows_at_a_time, queries_at_a_time, power
):
    vectors, queries, k, _ = search
    queries = queries * np.float32(2.0**power)
    starts = range(0, len(vectors), block_rows)
    numbers = [np.arange(start, min(start + block_rows, len(vectors))) for start in starts]
    with (
        patch.object(bfloat16, "BLOCK_ROWS", rows_at_a_time),
        patch.object(bfloat16, "QUERY_ROWS", queries_at_a_time),
    ):
        blocks = [(rows, vectors[rows]) for rows in numbers]
        scores, rows, left = search_rounded(blocks, vectors, queries, k)
    assert not len(left)
    expected_scores, expected_rows = brute_force(vectors, queries, k, None)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.mark.parametrize("length", [3.0, 30.0, 100.0])
def test_longer_vectors_in_a_later_block_are_found(length):
    """Their scores are rounded by more than the scores before."""
    draw = np.random.default_rng(0)
    vectors, queries = (
        draw.normal(size=(n, 32)).astype(np.float32) for n in (bfloat16.BLOCK_ROWS + 1, 16)
    )
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    numbers = np.arange(len(vectors))
    for i, query in enumerate(queries):
        best = (vectors[:-1] @ query).max()
        vectors[-1] = length * _orthogonal(query, draw) + query * (best + 1e-3)
        _, rows, left = search_rounded([(numbers, vectors)], vectors, queries, 1)
        assert i in left or vectors[-1] @ query <= best or rows[i] == len(vectors) - 1


def _orthogonal(query, draw):
    other = draw.normal(size=len(query)).astype(np.float32)
    other -= query * (other @ query) / (query @ query)
    return other / np.linalg.norm(other)


@given(searches(), st.integers(1, 60), st.integers(1, 4))
@settings(deadline=None)
def test_queries_with_too_many_similar_vectors_are_searched_in_float32(search, block_rows, most):
    """Ties fill what is kept for the second pass."""
    vectors, queries, k, allowed = search
    index = ExactIndex()
    index.build(vectors)
    with (
        patch.object(bfloat16, "has_bfloat16", lambda: True),
        patch.object(bfloat16, "MIN_QUERIES", 0),
        patch.object(bfloat16, "BLOCK_ROWS", block_rows),
        patch.object(bfloat16, "MIN_NEAR", most),
        patch.object(bfloat16, "NEAR_PER_RESULT", 1),
    ):
        scores, rows = index.search(queries, k, allowed)
    expected_scores, expected_rows = brute_force(vectors, queries, k, allowed)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.mark.parametrize("n", [0, 1, 300])
def test_many_results_are_sorted(rounded, n):
    """They are not inserted one by one."""
    vectors = np.random.default_rng(0).integers(-2, 3, (900, 3)).astype(np.float32)
    index = ExactIndex()
    index.build(vectors)
    k = hits.MAX_INSERTED + n
    scores, rows = index.search(vectors[:9], k)
    expected_scores, expected_rows = brute_force(vectors, vectors[:9], k, None)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(scores, expected_scores)


@pytest.mark.parametrize("offset", [1.0, -1.0, 0.0])
@pytest.mark.parametrize("length", [1.0, 1e-15, 1e5])
def test_scores_closer_than_bfloat16_precision_keep_their_order(rounded, offset, length):
    rng = np.random.default_rng(0)
    vectors = offset + 0.01 * rng.standard_normal((3000, 48))
    vectors = (length * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    queries = (length * (rng.standard_normal((20, 48)) + 1)).astype(np.float32)
    queries[3] = 0
    index = ExactIndex()
    index.build(vectors)
    with (
        patch.object(exact, "BLOCK_ROWS", 1024),
        # Zeros for a query let all vectors tie.
        patch.object(bfloat16, "MIN_NEAR", 2 * len(vectors)),
    ):
        (scores, rows), n = search_counted(index, queries, 7)
    assert n == len(queries), "the first pass was not in bfloat16"
    expected = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    np.testing.assert_allclose(scores, -np.sort(-expected)[:, :7], rtol=3e-6, atol=3e-7 * length**2)
    assert rows[3].tolist() == list(range(7)), "equal scores do not come in the order of their rows"


def test_rounding_errors_stay_within_the_bound(rounded, monkeypatch):
    """The worst case: what is best is rounded down by half a unit in each value, and the next is
    rounded up."""
    half_way, step = 1 + 2.0**-8, 2.0**-20
    # Scores around a power of two are rounded most, relative to the vectors.
    best = np.array([half_way - step] * 252 + [1.25])
    other = np.array([half_way + step] * 252 + [1.25 - 252 * 2 * step - 2.0**-10])
    vectors = np.array([other] + [0.1 * best] * 500 + [best], dtype=np.float32)
    index = ExactIndex()
    index.build(vectors)
    queries = np.ones((3, 253), dtype=np.float32)
    (_, rows), n = search_counted(index, queries, 1)
    assert n == 3 and rows.tolist() == [[501]] * 3
    # A bound of a quarter loses it.
    rounded_of = bfloat16._rounded
    monkeypatch.setattr(bfloat16, "RESULT_ERROR", bfloat16.RESULT_ERROR / 4)
    monkeypatch.setattr(
        bfloat16, "_rounded", lambda each: (*rounded_of(each)[:2], rounded_of(each)[2] / 4)
    )
    assert 501 not in index.search(queries, 1)[1]


@pytest.mark.parametrize("kind", ["alike", "one is long"])
def test_vectors_unsuited_to_bfloat16_are_searched_in_float32(rounded, kind):
    """All of their scores would be computed again, at many times the cost."""
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((4000, 32)).astype(np.float32)
    if kind == "alike":
        vectors = vectors * np.float32(0.01) + 1
    else:
        vectors[7] *= 1000
    queries = rng.standard_normal((20, 32)).astype(np.float32)
    index = ExactIndex()
    index.build(vectors)
    with patch.object(exact, "search_blocks", wraps=search_blocks) as in_float32:
        scores, _ = index.search(queries, 3)
    assert in_float32.called
    np.testing.assert_allclose(scores, -np.sort(-(queries @ vectors.T))[:, :3], rtol=1e-5)


def test_reversed_vectors_are_searched(rounded):
    vectors = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = ExactIndex()
    index.build(vectors[::-1, ::-1])
    assert index.search(vectors[:, ::-1], 1)[1].ravel().tolist() == list(range(49, -1, -1))


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_memory_mapped_vectors_are_searched_without_a_warning(rounded, dtype, tmp_path):
    vectors = np.random.default_rng(0).standard_normal((500, 8)).astype(dtype)
    np.save(tmp_path / "vectors.npy", vectors)
    index = ExactIndex()
    index.from_disk(tmp_path, np.load(tmp_path / "vectors.npy", mmap_mode="r"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (_, rows), n = search_counted(index, vectors[:300].astype(np.float32), 5)
    assert n == 300
    scores = vectors[:300].astype(np.float32) @ vectors.T.astype(np.float32)
    assert (
        np.sort(rows, axis=1) == np.sort(np.argsort(-scores, axis=1)[:, :5], axis=1)
    ).mean() > 0.999


def test_batches_of_any_size_multiply_few_shapes(rounded, monkeypatch):
    """Torch keeps what it compiled for each shape."""
    import torch

    shapes, multiply, draw = set(), torch.mm, np.random.default_rng(0)

    def noted(left, right, **options):
        shapes.add((left.shape, right.shape))
        return multiply(left, right, **options)

    monkeypatch.setattr(torch, "mm", noted)
    index = ExactIndex()
    index.build(draw.normal(size=(2_000, 16)).astype(np.float32))
    for n in range(1, 700, 7):
        index.search(draw.normal(size=(n, 16)).astype(np.float32), 3)
    assert 1 < len(shapes) <= bfloat16.QUERY_ROWS // bfloat16.PADDED_ROWS


def test_few_queries_are_searched_without_bfloat16(rounded, monkeypatch):
    monkeypatch.setattr(bfloat16, "MIN_QUERIES", MIN_QUERIES)
    index = ExactIndex()
    index.build(np.eye(8, dtype=np.float32))
    assert (
        search_counted(index, np.ones((bfloat16.MIN_QUERIES - 1, 8), dtype=np.float32), 1)[1] == 0
    )
    n = bfloat16.MIN_QUERIES
    assert search_counted(index, np.ones((n, 8), dtype=np.float32), 1)[1] == n


def test_unfiltered_search_allocates_no_array_of_all_rows(monkeypatch):
    index = ExactIndex()
    index.build(np.random.default_rng(0).standard_normal((5000, 4)).astype(np.float32))
    queries = np.ones((2, 4), dtype=np.float32)
    expected = index.search(queries, 3)
    made, arange = [], np.arange

    def noted(*arguments, **settings):
        made.append(arange(*arguments, **settings))
        return made[-1]

    monkeypatch.setattr(exact, "BLOCK_ROWS", 500)
    monkeypatch.setattr(np, "arange", noted)
    for allowed in (None, np.ones(5000, dtype=bool)):
        np.testing.assert_array_equal(index.search(queries, 3, allowed), expected)
    assert made and max(map(len, made)) <= 500


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("device", ["cuda", "cuda:all"])
def test_search_on_cuda_equals_the_cpu(device, dtype):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((400_000, 32), dtype=np.float32)
    # Duplicates, which come in the order of their rows, and vectors of various lengths.
    vectors[1000:1100] = vectors[5]
    vectors *= rng.uniform(0.5, 1.5, (len(vectors), 1)).astype(np.float32).round(1)
    vectors = vectors.astype(dtype)
    queries = np.concatenate([vectors[:30].astype(np.float32), np.zeros((1, 32), np.float32)])
    on_cpu, on_card = ExactIndex(), ExactIndex(device)
    for index in (on_cpu, on_card):
        index.build(vectors)
    for mask in (None, rng.random(len(vectors)) < 0.3):
        scores, rows = on_card.search(queries, 10, mask)
        expected_scores, expected_rows = on_cpu.search(queries, 10, mask)
        np.testing.assert_allclose(scores, expected_scores, rtol=1e-5, atol=1e-4)
        assert (rows == expected_rows).mean() > 0.99
        assert rows[-1].tolist() == expected_rows[-1].tolist()
