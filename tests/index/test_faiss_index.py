import sys

import numpy as np
import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.index import faiss_index
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.index.faiss_index import FaissIndex, make_faiss_index

faiss = pytest.importorskip("faiss")
ALL_TYPES = [("flat", {}), ("hnsw", {"m": 16}), ("ivf", {"nlist": 20, "nprobe": 5})]
N, WIDTH = 3000, 32


@pytest.fixture(scope="module")
def vectors(clustered):
    return clustered(N, WIDTH)


@pytest.fixture(scope="module")
def queries(vectors):
    return vectors[:200] + 0.02 * np.random.default_rng(1).standard_normal((200, WIDTH)).astype(
        np.float32
    )


def exactly(vectors, queries, k, allowed=None):
    index = ExactIndex()
    index.build(vectors)
    return index.search(queries, k, allowed)


def recall(rows, expected):
    return np.mean(
        [
            len(set(a) & set(b)) / len(b)
            for a, b in zip(rows.tolist(), expected.tolist(), strict=True)
        ]
    )


@pytest.mark.parametrize("float16", [False, True])
@pytest.mark.parametrize("type_,settings", ALL_TYPES)
def test_recall_is_close_to_exact_search(vectors, queries, type_, settings, float16):
    index = make_faiss_index(type_, float16=float16, **settings)()
    index.build(vectors)
    scores, rows = index.search(queries, 10)
    expected_scores, expected_rows = exactly(vectors, queries, 10)
    assert recall(rows, expected_rows) > 0.9
    np.testing.assert_allclose(scores[:, 0], expected_scores[:, 0], atol=0.01)
    assert (np.diff(scores, axis=1) <= 0).all()


@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize("n,settings", [(300, {}), (3000, {"ef_search": 100})])
def test_a_small_graph_finds_neighbours_despite_longer_vectors(n, settings, grown):
    rng = np.random.default_rng(0)
    # All near to one another, so that the two longest are the nearest neighbours of every other
    # one.
    vectors = rng.standard_normal(16) + 0.1 * rng.standard_normal((n, 16))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    vectors[-2:] *= 1.05
    index = make_faiss_index("hnsw", **settings)()
    index.build(vectors[:-2] if grown else vectors)
    if grown:
        index.add(vectors[-2:])
    scores, rows = index.search(vectors, 64)
    np.testing.assert_allclose(scores, exactly(vectors, vectors, 64)[0], atol=1e-5)
    np.testing.assert_allclose(scores, np.einsum("qd,qkd->qk", vectors, vectors[rows]), atol=1e-5)


def test_filtered_rows_are_compared_exactly_only_for_enough_queries(vectors, monkeypatch):
    """Filtered rows are compared exactly where the number of queries makes that faster."""
    index = faiss_index.FaissIndex("hnsw", ef_search=64)
    index.build(vectors)
    compared = []
    whole = faiss_index.search_blocks
    monkeypatch.setattr(
        faiss_index, "search_blocks", lambda *given: compared.append(1) or whole(*given)
    )
    allowed = np.arange(len(vectors)) % 2 == 0
    monkeypatch.setattr(faiss_index, "PER_WIDTH", len(vectors) / 2 * 2 / 128)
    for n, expected in ((1, 0), (faiss_index.PER_COPY - 1, 0), (faiss_index.PER_COPY, 1)):
        compared.clear()
        index.search(np.resize(vectors, (n, vectors.shape[1])), 5, allowed)
        assert len(compared) == expected


@pytest.mark.parametrize("part", [0.0, 0.01, 0.4, 1.0])
@pytest.mark.parametrize("compares_few", [False, True])
@pytest.mark.parametrize("type_,settings", ALL_TYPES)
def test_only_allowed_rows_are_found(
    vectors, queries, type_, settings, part, compares_few, monkeypatch
):
    # Both ways of filtering: comparing the allowed rows, and searching the index with a selector.
    for cost in () if compares_few else ("PER_WIDTH", "PER_LISTED"):
        monkeypatch.setattr(faiss_index, cost, 0)
    index = make_faiss_index(type_, **settings)()
    index.build(vectors)
    allowed = np.random.default_rng(2).random(N) < part
    _, rows = index.search(queries, 10, allowed)
    assert allowed[rows[rows >= 0]].all()
    _, expected = exactly(vectors, queries, 10, allowed)
    if part:
        assert recall(rows, expected) > 0.85
    else:
        assert (rows == -1).all()


def test_ivf_chooses_its_number_of_lists(vectors):
    index = FaissIndex("ivf")
    index.build(vectors)
    assert index._index.nlist == 3000 // 39
    index.build(vectors[:10])
    assert index._index.nlist == 1


def test_search_settings_do_not_require_another_index():
    index = FaissIndex("hnsw", ef_search=200)
    assert index.can_read(FaissIndex("hnsw").settings)
    assert not index.can_read(FaissIndex("hnsw", m=8).settings)
    assert not index.can_read(FaissIndex("hnsw", float16=True).settings)
    assert not index.can_read(FaissIndex("flat").settings)


@pytest.mark.parametrize(
    "settings,named",
    [
        ({"type": "hsnw"}, "type"),
        ({"type": "flat", "m": 16}, "m"),
        ({"type": "hnsw", "nprobe": 3}, "nprobe"),
        ({"type": "hnsw", "device": "cuda"}, "device"),
        ({"type": "flat", "device": "gpu"}, "device"),
    ],
)
def test_invalid_settings_raise(settings, named):
    with pytest.raises(KrisselError, match=f"K006.*'{named}'"):
        make_faiss_index(**settings)()


def test_missing_faiss_raises_with_the_extra_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(KrisselError, match=r"K501.*spacy-krissel\[cpu\].*spacy-krissel\[gpu\]"):
        FaissIndex().build(np.ones((3, 2), dtype=np.float32))


@pytest.mark.parametrize(
    "error",
    [
        ImportError("libcudart.so.12: cannot open shared object file"),
        OSError("libcublas.so.12: cannot open shared object file"),
        RuntimeError("libcublas.so.12 not found: install nvidia-cublas-cu12"),
        ModuleNotFoundError("No module named 'numpy.core'", name="numpy.core"),
    ],
)
def test_a_broken_faiss_raises_with_its_cause(error, monkeypatch):
    class Broken:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "faiss":
                raise error

    monkeypatch.delitem(sys.modules, "faiss")
    monkeypatch.setattr(sys, "meta_path", [Broken, *sys.meta_path])
    with pytest.raises(KrisselError, match=r"K509.*spacy-krissel\[cpu\]") as caught:
        FaissIndex().build(np.ones((3, 2), dtype=np.float32))
    assert str(error) in str(caught.value)


def test_missing_damaged_and_mismatched_files_raise(vectors, tmp_path):
    index = FaissIndex("flat")
    with pytest.raises(KrisselError, match="K506"):
        index.from_disk(tmp_path, vectors)
    (tmp_path / "index.faiss").write_bytes(b"no index at all")
    with pytest.raises(KrisselError, match="K506"):
        index.from_disk(tmp_path, vectors)
    index.build(vectors[:100])
    index.to_disk(tmp_path)
    with pytest.raises(KrisselError, match="K506.*100 vectors.*3000"):
        FaissIndex("flat").from_disk(tmp_path, vectors)


def test_disk_errors_raise_coded_errors(vectors, tmp_path, monkeypatch):
    index = make_faiss_index("flat")()
    index.build(vectors)
    with pytest.raises(KrisselError, match="K026.*missing/index.faiss.*No such file"):
        index.to_disk(tmp_path / "missing")

    def full(index, path):
        raise RuntimeError(
            "Error: 'ret == size' failed: write error in index.faiss: No space left on device"
        )

    monkeypatch.setattr(faiss, "write_index", full)
    with pytest.raises(KrisselError, match="K026.*index.faiss.*No space left.*Free space"):
        index.to_disk(tmp_path)


@pytest.mark.parametrize("type_", ["ivf", "ivf_sq8"])
@pytest.mark.parametrize("wrong", [-7, 3000, 2**40])
def test_invalid_rows_of_a_damaged_file_raise(vectors, tmp_path, type_, wrong):
    index = FaissIndex(type_, nlist=4)
    index.build(vectors)
    index._index.reset()
    ids = np.arange(N)
    ids[5] = wrong
    index._index.add_with_ids(vectors, ids)
    index.to_disk(tmp_path)
    index.from_disk(tmp_path, vectors)
    with pytest.raises(KrisselError, match=f"K506.*{tmp_path.name}.*rows .*{wrong}"):
        index.search(vectors[5:6], 3)


@pytest.mark.parametrize("attribute", ["entry_point", "max_level"])
def test_a_graph_with_a_damaged_entry_point_raises(attribute, tmp_path):
    vectors = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    index = FaissIndex("hnsw", m=4, ef_search=4)
    index.build(vectors)
    graph = index._index.hnsw
    setattr(graph, attribute, getattr(graph, attribute) + 1)
    index.to_disk(tmp_path)
    with pytest.raises(KrisselError, match="K506.*entry point"):
        FaissIndex("hnsw", m=4, ef_search=4).from_disk(tmp_path, vectors)
