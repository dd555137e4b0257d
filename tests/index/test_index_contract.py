"""Contract of every index, exact or approximate, with or without its own vectors."""

import json
import pickle
import shutil
from functools import partial

import numpy as np
import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import ExactIndex, make_exact_index
from spacy_krissel.index.faiss_index import make_faiss_index

N, WIDTH = 3000, 32
MAKERS = {
    "exact": make_exact_index(),
    "faiss-flat": make_faiss_index("flat"),
    "faiss-hnsw": make_faiss_index("hnsw", m=16),
    "faiss-ivf": make_faiss_index("ivf", nlist=20, nprobe=5),
}


@pytest.fixture(scope="module", params=MAKERS)
def kind(request):
    if request.param != "exact":
        pytest.importorskip("faiss")
    return request.param


@pytest.fixture(scope="module")
def make(kind):
    return MAKERS[kind]


@pytest.fixture(scope="module")
def is_exact(kind):
    return kind in ("exact", "faiss-flat")


@pytest.fixture(scope="module")
def vectors(clustered):
    return clustered(N, WIDTH)


@pytest.fixture(scope="module")
def queries(vectors):
    return vectors[:50] + 0.02 * np.random.default_rng(1).standard_normal((50, WIDTH)).astype(
        np.float32
    )


@pytest.fixture(scope="module")
def built(make, vectors):
    """An index of the vectors, for tests that do not change it."""
    index = make()
    index.build(vectors)
    return index


@pytest.fixture(scope="module")
def exactly(vectors):
    index = ExactIndex()
    index.build(vectors)
    return index.search


def recall(rows, expected):
    return np.mean(
        [
            len(set(a) & set(b) - {-1}) / max(1, len(set(b) - {-1}))
            for a, b in zip(rows, expected, strict=True)
        ]
    )


def assert_same(found, expected):
    np.testing.assert_array_equal(found[1], expected[1])
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5)


@pytest.mark.parametrize("k", [1, 10, 200])
def test_the_nearest_vectors_are_found_in_order(is_exact, built, queries, exactly, k):
    scores, rows = built.search(queries, k)
    assert (scores.dtype, rows.dtype) == (np.float32, np.int64)
    assert (np.diff(scores, axis=1) <= 0).all()
    if is_exact:
        assert_same((scores, rows), exactly(queries, k))
    else:
        assert recall(rows.tolist(), exactly(queries, k)[1].tolist()) > (0.9 if k < 200 else 0.6)


@pytest.mark.parametrize("part", [0.0, 0.01, 0.4, 1.0])
def test_only_allowed_rows_are_found(is_exact, built, queries, exactly, part):
    allowed = np.random.default_rng(2).random(N) < part
    scores, rows = built.search(queries, 10, allowed)
    expected = exactly(queries, 10, allowed)
    assert allowed[rows[rows >= 0]].all()
    assert np.array_equal(rows < 0, np.isneginf(scores))
    if is_exact or not part:
        assert_same((scores, rows), expected)
    else:
        assert recall(rows.tolist(), expected[1].tolist()) > 0.85


def test_missing_results_are_padded(kind, make, vectors):
    index = make()
    index.build(vectors[:40])
    scores, rows = index.search(vectors[:2], 60)
    assert rows.shape == (2, 60)
    assert np.array_equal(rows < 0, np.isneginf(scores))
    found = [set(line[line >= 0].tolist()) for line in rows]
    assert all(
        len(each) == (line >= 0).sum() and each <= set(range(40))
        for each, line in zip(found, rows, strict=True)
    )
    if kind != "faiss-ivf":
        assert all(each == set(range(40)) for each in found)


def test_no_queries_and_zero_k_give_empty_results(built, queries):
    assert [part.shape for part in built.search(queries[:0], 3)] == [(0, 3)] * 2
    assert [part.shape for part in built.search(queries, 0)] == [(len(queries), 0)] * 2


def test_added_rows_follow_the_existing_ones(make, vectors):
    index = make()
    assert len(index) == 0
    index.add(vectors[:2000])
    index.add(vectors[2000:2990])
    index.add(vectors[2990:])
    assert len(index) == N
    numbers = np.r_[:100, 1950:2050, 2950:3000]
    assert (index.search(vectors[numbers], 1)[1].ravel() == numbers).mean() > 0.95


def test_building_again_replaces_the_vectors(make, vectors):
    index = make()
    index.build(vectors[:100])
    index.build(vectors[100:300])
    assert len(index) == 200
    assert (index.search(vectors[100:110], 1)[1].ravel() == np.arange(10)).all()


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_other_float_types_are_accepted(make, vectors, dtype):
    index = make()
    index.build(vectors[:500].astype(dtype) / 1.001)
    index.add(vectors[500:510].astype(dtype) / 1.001)
    scores, rows = index.search(vectors[:50].astype(dtype), 1)
    assert (rows.ravel() == np.arange(50)).all()
    np.testing.assert_allclose(scores.ravel(), 1, atol=0.01)


def files(path):
    return {
        file_.relative_to(path).as_posix(): file_.read_bytes()
        for file_ in path.rglob("*")
        if file_.is_file()
    }


def test_saved_bytes_are_stable_after_loading(make, built, vectors, queries, tmp_path):
    expected = built.search(queries, 5)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    built.to_disk(tmp_path / "one")
    before = files(tmp_path / "one")
    loaded = make()
    loaded.from_disk(tmp_path / "one", vectors)
    assert len(loaded) == N
    assert_same(loaded.search(queries, 5), expected)
    loaded.to_disk(tmp_path / "two")
    assert before == files(tmp_path / "one") == files(tmp_path / "two")
    # The files may be replaced while they are in use; and what was saved can be searched on.
    shutil.rmtree(tmp_path / "one")
    assert_same(loaded.search(queries, 5), expected)
    assert_same(built.search(queries, 5), expected)


def test_growing_a_loaded_index_leaves_its_files_unchanged(make, vectors, tmp_path):
    index = make()
    index.build(vectors[:2000])
    index.to_disk(tmp_path)
    before = files(tmp_path)
    first, second = make(), make()
    first.from_disk(tmp_path, vectors[:2000])
    second.from_disk(tmp_path, vectors[:2000])
    first.add(vectors[2000:])
    assert (len(first), len(second)) == (N, 2000)
    assert (first.search(vectors[2000:], 1)[1].ravel() == np.arange(2000, N)).mean() > 0.95
    assert second.search(vectors, 3)[1].max() < 2000
    assert files(tmp_path) == before


def test_a_pickled_index_keeps_its_contents(built, queries):
    copy = pickle.loads(pickle.dumps(built))
    assert copy.settings == built.settings
    assert_same(copy.search(queries, 5), built.search(queries, 5))


def test_invalid_vectors_queries_and_masks_raise(make, tmp_path):
    index = make()
    with pytest.raises(KrisselError, match="K508"):
        index.search(np.ones((1, 2), dtype=np.float32), 1)
    index.build(np.ones((3, 2), dtype=np.float32))
    with pytest.raises(KrisselError, match="K503.*query vectors.*2"):
        index.search(np.ones((1, 5), dtype=np.float32), 1)
    with pytest.raises(KrisselError, match="K503"):
        index.search(np.ones(2, dtype=np.float32), 1)
    with pytest.raises(KrisselError, match="K504.*1 of 2 query vectors.*row 1"):
        index.search(np.array([[0, 1], [np.nan, 0]], dtype=np.float32), 1)
    with pytest.raises(KrisselError, match="K505"):
        index.search(np.ones((1, 2), dtype=np.float32), 1, np.ones(4, dtype=bool))
    with pytest.raises(KrisselError, match="K505"):
        index.search(np.ones((1, 2), dtype=np.float32), 1, np.array([0, 1, 2]))
    with pytest.raises(KrisselError, match="K503"):
        index.add(np.ones((1, 3), dtype=np.float32))
    with pytest.raises(KrisselError, match="K504.*1 of 3 vectors"):
        index.build(np.array([[1.0], [np.inf], [-1.0]]))
    assert index.search(np.ones((1, 2), dtype=np.float32), 1)[0].tolist() == [[2]]


def test_loading_missing_or_mismatched_files_raises(kind, make, vectors, tmp_path):
    if kind == "exact":
        pytest.skip("it has no files")
    load = partial(make().from_disk, tmp_path)
    with pytest.raises(KrisselError, match="K506"):
        load(vectors)
    index = make()
    with pytest.raises(KrisselError, match="K508"):
        index.to_disk(tmp_path)
    with pytest.raises(KrisselError, match="K508"):
        index.build(vectors[:0])
    index.build(vectors[:100])
    index.to_disk(tmp_path)
    with pytest.raises(KrisselError, match="K506.*100 vectors.*3000"):
        load(vectors)


def test_an_index_reads_indexes_with_its_own_settings(make):
    index = make()
    assert index.can_read(make().settings)
    assert json.loads(json.dumps(index.settings)) == index.settings
