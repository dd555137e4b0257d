"""The search of `ExactIndex` on cards, run on CPU tensors."""

import pickle
import tracemalloc
import warnings
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spacy_krissel.errors import KrisselWarning
from spacy_krissel.index import devices, exact, shard
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.index.hits import search_blocks
from spacy_krissel.index.shard import Shard, pool_width, torch_hits, upload

torch = pytest.importorskip("torch")


def brute_force(vectors, queries, k, allowed=None):
    """Scores and rows by sorting everything, equal scores by row."""
    index = ExactIndex()
    index.build(vectors)
    return index.search(queries, k, allowed)


def assert_same(found, expected):
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_array_equal(found[0], expected[0])


@pytest.fixture
def cards(monkeypatch):
    """Three cards, each of which is the CPU."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(exact, "_all_devices", lambda: ["cpu"] * 3)
    monkeypatch.setattr(exact.devices, "note_cuda", lambda: None)


@st.composite
def searches(draw):
    """Vectors, queries, k and a mask, drawn by seed, which is faster than to draw each value."""
    n, d, q = draw(st.integers(1, 300)), draw(st.integers(1, 3)), draw(st.integers(1, 7))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    # Small whole numbers: their products are exact in float32, and ties are frequent.
    vectors, queries = (rng.integers(-2, 3, (rows, d)).astype(np.float32) for rows in (n, q))
    # Powers of two, so that products stay exact: norms differ up to a hundredfold.
    vectors *= 2.0 ** rng.integers(-4, 4, (n, 1)) if draw(st.booleans()) else 1
    vectors = vectors.astype(draw(st.sampled_from([np.float16, np.float32])))
    allowed = draw(st.none() | st.sampled_from([0.0, 0.1, 0.7, 1.0]))
    mask = None if allowed is None else rng.random(n) < allowed
    return vectors, queries, draw(st.integers(0, n + 3)), mask


@given(searches(), st.integers(9, 120), st.sampled_from([2, 1024]), st.sampled_from([0, 2, 64]))
@settings(deadline=None, max_examples=150)
def test_search_in_a_shard_equals_brute_force(search, block_rows, query_rows, slack):
    vectors, queries, k, allowed = search
    with (
        patch.object(shard, "CUDA_BLOCK_ROWS", block_rows),
        patch.object(shard, "CUDA_QUERY_ROWS", query_rows),
        patch.object(shard, "pool_width", lambda k: k + slack),
    ):
        found = Shard.of(0, torch.from_numpy(vectors)).search(queries, k, allowed)
    assert_same(found, brute_force(vectors, queries, k, allowed))


@given(searches(), st.integers(9, 90), st.integers(2, 9))
@settings(deadline=None, max_examples=40)
def test_search_in_blocks_equals_brute_force(search, block_rows, query_rows):
    vectors, queries, k, _ = search
    starts = range(0, len(vectors), block_rows)
    numbers = [np.arange(start, min(start + block_rows, len(vectors))) for start in starts]
    blocks = ((rows, torch.from_numpy(vectors[rows])) for rows in numbers)
    found = search_blocks(blocks, queries, k, find_hits=torch_hits, query_rows=query_rows)
    assert_same(found, brute_force(vectors, queries, k))


@pytest.mark.parametrize("n", [2, 3, 200])
def test_search_on_all_gpus_equals_the_cpu(n, cards, monkeypatch):
    monkeypatch.setattr(shard, "CUDA_BLOCK_ROWS", 16)
    rng = np.random.default_rng(0)
    # Whole numbers, so that scores are equal often and are the same in any order of adding.
    vectors, queries = (rng.integers(-2, 3, (rows, 4)).astype(np.float16) for rows in (n, 20))
    queries = queries.astype(np.float32)
    one, all_cards = ExactIndex(), ExactIndex("cuda:all")
    for index in (one, all_cards):
        index.build(vectors)
    for mask in (None, rng.random(n) < 0.3, np.arange(n) < n // 3, np.zeros(n, dtype=bool)):
        assert_same(all_cards.search(queries, 7, mask), one.search(queries, 7, mask))
    assert [each.tensor.dtype for each in all_cards._shards] == [torch.float16] * 3
    assert sum(len(each.tensor) for each in all_cards._shards) == n
    assert pickle.loads(pickle.dumps(all_cards))._shards == []


@pytest.mark.parametrize("length", [1e-6, 1.0, 600.0, 1e5])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("finds", ["shard", "blocks"])
def test_half_precision_loses_no_result(length, dtype, finds):
    """Float16 cannot order scores so close, and cannot hold those of very long vectors."""
    rng = np.random.default_rng(0)
    vectors = 1 + 0.01 * rng.standard_normal((3000, 48))
    vectors = (length * vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(dtype)
    queries = (length * rng.standard_normal((20, 48)) + length).astype(np.float32)
    queries[3] = 0
    if finds == "shard":
        with patch.object(shard, "CUDA_BLOCK_ROWS", 1000):
            scores, rows = Shard.of(0, torch.from_numpy(vectors)).search(queries, 7)
    else:
        starts = 0, 1000, 2000
        blocks = ((np.arange(i, i + 1000), torch.from_numpy(vectors[i : i + 1000])) for i in starts)
        scores, rows = search_blocks(blocks, queries, 7, find_hits=torch_hits, query_rows=8)
    expected = queries.astype(np.float64) @ vectors.T.astype(np.float64)
    np.testing.assert_allclose(scores, -np.sort(-expected)[:, :7], rtol=3e-6)
    assert rows[3].tolist() == list(range(7)), "equal scores are not in the order of their rows"
    whole = torch.from_numpy(vectors.astype(np.float32) / length).half()
    half = torch.from_numpy(queries / length).half() @ whole.T
    wrong = set(half[0].topk(7).indices.tolist()) - set(np.argsort(-expected[0])[:7].tolist())
    assert wrong or length < 1e-3, "the vectors are not close enough for this test"


class Counted(torch.overrides.TorchFunctionMode):
    """Counts calls for which a host waits for its card, by name."""

    WAITING = frozenset(
        {"cpu", "item", "tolist", "numpy", "nonzero", "to", "__bool__", "__float__"}
    )

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        if name in self.WAITING | {"tensor", "from_numpy"}:
            self.calls.append(name)
        return function(*args, **(kwargs or {}))


def counted_search(vectors, queries, k, allowed=None):
    searched = Shard.of(0, torch.from_numpy(vectors))
    again = Shard._search_all
    with Counted() as counted, patch.object(Shard, "_search_all", autospec=True) as second:
        second.side_effect = again
        found = searched.search(queries, k, allowed)
    return found, counted.calls, second.call_count


@pytest.mark.parametrize("share", [None, 0.5])
def test_the_number_of_host_waits_does_not_depend_on_the_number_of_blocks(share, monkeypatch):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((4096, 16)).astype(np.float16)
    queries = rng.standard_normal((10, 16)).astype(np.float32)
    allowed = None if share is None else rng.random(4096) < share
    calls = []
    for block_rows in (4096, 128):
        monkeypatch.setattr(shard, "CUDA_BLOCK_ROWS", block_rows)
        found, noted, second = counted_search(vectors, queries, 5, allowed)
        assert not second, "the pool was too narrow"
        np.testing.assert_array_equal(found[1], brute_force(vectors, queries, 5, allowed)[1])
        calls.append(noted)
    assert calls[0] == calls[1]
    # The queries go to the card once, the mask once; scores, rows and doubts come back.
    sent = ["tensor"] if share is None else ["tensor", "nonzero", "tensor"]
    copies = [name for name in calls[0] if name not in ("numpy", "to")]
    assert copies == [*sent, "cpu", "cpu", "cpu"]


def test_only_doubtful_queries_are_searched_again(monkeypatch):
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((3000, 16)).astype(np.float32)
    # More copies of one vector than the pool holds: which of them are in it is chance.
    vectors[1000 : 1010 + pool_width(5)] = 3 * vectors[7]
    queries = np.concatenate([vectors[7:8], -vectors[7:8], vectors[:3]])
    expected = brute_force(vectors, queries, 5)
    assert expected[1][0].tolist() == [1000, 1001, 1002, 1003, 1004]
    monkeypatch.setattr(shard, "CUDA_BLOCK_ROWS", 256)
    searched, again = [], Shard._search_all

    def noted(self, some, *rest):
        searched.append(some)
        return again(self, some, *rest)

    monkeypatch.setattr(Shard, "_search_all", noted)
    found = Shard.of(0, torch.from_numpy(vectors)).search(queries, 5)
    np.testing.assert_array_equal(found[1], expected[1])
    assert len(searched) == 1 and 0 < len(searched[0]) < len(queries)


def test_upload_buffers_two_blocks_on_the_host(cards, monkeypatch, tmp_path):
    vectors = np.random.default_rng(0).standard_normal((20_000, 64)).astype(np.float16)
    np.save(tmp_path / "vectors.npy", vectors)
    mapped = np.load(tmp_path / "vectors.npy", mmap_mode="r")
    index = ExactIndex("cuda:all")
    index.from_disk(tmp_path, mapped)
    monkeypatch.setattr(shard, "STAGING_BYTES", 2**16)
    staged, empty = [], torch.empty

    def noted(*arguments, device=None, **settings):
        tensor = empty(*arguments, device=device, **settings)
        staged.append(tensor.nbytes if device is None else 0)
        return tensor

    monkeypatch.setattr(torch, "empty", noted)
    tracemalloc.start()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            shards = index._on_devices()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(staged) == 3 * 2 * 2**16
    # NumPy's own memory, where a copy of all vectors would be.
    assert peak < vectors.nbytes / 10
    np.testing.assert_array_equal(np.concatenate([each.tensor for each in shards]), vectors)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_upload_accepts_any_number_of_rows(n):
    vectors = np.arange(4.0 * n, dtype=np.float32).reshape(n, 4)[::-1, ::-1]
    with patch.object(shard, "STAGING_BYTES", 32):
        np.testing.assert_array_equal(upload(vectors, "cpu").numpy(), vectors)


def test_a_missing_gpu_is_replaced_by_the_cpu_with_one_warning(monkeypatch):
    monkeypatch.setattr(devices, "_warned", set())
    vectors = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    first, second = ExactIndex("cuda:1"), ExactIndex("cuda:1")
    first.build(vectors)
    second.build(vectors)
    with pytest.warns(KrisselWarning, match="KW503.*'cuda:1'.*on the CPU"):
        assert_same(first.search(vectors, 3), brute_force(vectors, vectors, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same(second.search(vectors, 3), brute_force(vectors, vectors, 3))
        assert_same(first.search(vectors, 3), brute_force(vectors, vectors, 3))
