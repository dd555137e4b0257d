"""IVF with coded vectors, and the second look at what it finds."""

import pickle

import numpy as np
import pytest

from spacy_krissel.errors import KrisselError
from spacy_krissel.index import exact as exact_module
from spacy_krissel.index import faiss_index
from spacy_krissel.index.exact import ExactIndex, rescored, vectors_at
from spacy_krissel.index.faiss_index import (
    FaissIndex,
    factory_string,
    make_faiss_index,
    training_rows,
)
from spacy_krissel.index.kinds import make_index

faiss = pytest.importorskip("faiss")
N, WIDTH = 2000, 16
TYPES = [("ivf_sq8", {}), ("ivf_pq", {"pq_bytes": 4})]


@pytest.fixture(scope="module")
def vectors(clustered):
    """Stored in half the space."""
    return clustered(N, WIDTH).astype(np.float16)


@pytest.fixture(scope="module")
def queries(vectors):
    return vectors[:100] + 0.02 * np.random.default_rng(1).standard_normal((100, WIDTH)).astype(
        np.float32
    )


@pytest.fixture(autouse=True)
def few_codes(monkeypatch):
    """Product quantisation even of so few vectors."""
    monkeypatch.setattr(faiss_index, "CODES", 20)


@pytest.fixture
def exact(vectors):
    index = ExactIndex()
    index.build(vectors)
    return index


def made(type_, vectors, **settings):
    index = make_faiss_index(type_, nlist=20, **settings)()
    index.build(vectors)
    return index


def first_right(found, expected):
    return (found[1][:, 0] == expected[1][:, 0]).mean()


@pytest.mark.parametrize("type_,settings", TYPES)
def test_rescoring_finds_vectors_that_codes_miss(vectors, queries, exact, type_, settings):
    expected = exact.search(queries, 10)
    index = made(type_, vectors, nprobe=20, refine=0, **settings)
    by_codes = index.search(queries, 10)
    assert (by_codes[1] != expected[1]).any()
    index.set_search(refine=20)
    again = index.search(queries, 10)
    assert (again[1] == expected[1]).mean() > max(0.99, (by_codes[1] == expected[1]).mean())
    # Of the vectors themselves, not of codes.
    right = again[1] == expected[1]
    np.testing.assert_allclose(again[0][right], expected[0][right], atol=1e-6)
    assert (np.diff(again[0], axis=1) <= 0).all()


@pytest.mark.parametrize("type_,settings", TYPES)
def test_rescoring_survives_loading_and_growing(vectors, queries, exact, type_, settings, tmp_path):
    index = made(type_, vectors[:1500], nprobe=20, refine=20, **settings)
    index.to_disk(tmp_path)
    loaded = make_index(index.kind, index.settings)
    loaded.from_disk(tmp_path, vectors[:1500])
    np.testing.assert_array_equal(loaded.search(queries, 5)[1], index.search(queries, 5)[1])
    loaded.add(vectors[1500:])
    assert len(loaded) == N
    copied = pickle.loads(pickle.dumps(loaded))
    expected = exact.search(queries, 5)
    for each in (loaded, copied):
        assert first_right(each.search(queries, 5), expected) > 0.99


@pytest.mark.parametrize("compares_few", [False, True])
@pytest.mark.parametrize("type_,settings", TYPES)
def test_only_allowed_rows_are_found(
    vectors, queries, exact, type_, settings, compares_few, monkeypatch
):
    for cost in () if compares_few else ("PER_WIDTH", "PER_LISTED"):
        monkeypatch.setattr(faiss_index, cost, 0)
    allowed = np.random.default_rng(2).random(N) < 0.4
    index = made(type_, vectors, nprobe=20, refine=20, **settings)
    found = index.search(queries, 5, allowed)
    assert allowed[found[1]].all()
    assert first_right(found, exact.search(queries, 5, allowed)) > 0.99


@pytest.mark.parametrize("type_,settings", TYPES)
def test_missing_results_are_padded(vectors, type_, settings):
    index = made(type_, vectors[:900], nprobe=1, refine=4, **settings)
    scores, rows = index.search(vectors[:3].astype(np.float32), 1000)
    assert scores.shape == rows.shape == (3, 1000)
    assert np.array_equal(rows < 0, np.isneginf(scores)) and (rows[:, 0] >= 0).all()
    # One vector is little to learn codes from.
    index.build(vectors[:1])
    assert index.search(vectors[:1].astype(np.float32), 2)[1].tolist() == [[0, -1]]


def test_only_search_settings_can_be_changed(vectors):
    index = made("ivf_pq", vectors, pq_bytes=4)
    index.set_search(nprobe=3, refine=7)
    assert index.settings == {
        "type": "ivf_pq", "float16": False, "nlist": 20, "nprobe": 3, "pq_bytes": 4, "refine": 7
    }  # fmt: skip
    assert index._index.nprobe == 3
    assert index.can_read({**index.settings, "nprobe": 5, "refine": 0})
    assert not index.can_read({**index.settings, "pq_bytes": 8})
    for wrong in ({"nlist": 5}, {"ef_search": 5}, {"nprobe": 0}, {"refine": -1}):
        with pytest.raises(KrisselError, match="K006"):
            index.set_search(**wrong)
    assert index.settings["nprobe"] == 3


@pytest.mark.parametrize(
    "settings,message",
    [
        ({"type": "ivf_sq8", "float16": True}, "'float16' is True"),
        ({"type": "ivf_sq8", "pq_bytes": 8}, "not a setting of a 'ivf_sq8' index"),
        ({"type": "ivf", "refine": 2}, "not a setting of a 'ivf' index"),
        ({"type": "pq"}, "hnsw, ivf, ivf_sq8, ivf_pq"),
    ],
)
def test_invalid_settings_raise(settings, message):
    with pytest.raises(KrisselError, match="K006") as error:
        make_faiss_index(**settings)()
    assert message in str(error.value)


def test_the_code_size_must_divide_the_width(vectors):
    with pytest.raises(KrisselError, match="K006.*pq_bytes.*1, 2, 4, 8, 16"):
        made("ivf_pq", vectors, pq_bytes=5)
    settings = {"nlist": 0, "pq_bytes": 0}
    assert factory_string("ivf_pq", False, settings, 10**6, 128) == "IVF4000,PQ64np"
    assert factory_string("ivf_pq", False, settings, 10**6, 7) == "IVF4000,PQ1np"
    assert factory_string("ivf_pq", False, settings, 50, 128) == "IVF1,SQ8", "too few for codes"


def test_the_number_of_training_rows_is_limited():
    assert training_rows(10) == 2560
    assert training_rows(12_649) == 64 * 12_649
    assert training_rows(4000) == 2**18


def test_centroids_can_be_reused(vectors, queries):
    first = made("ivf_sq8", vectors)
    second = FaissIndex("ivf", nlist=20)
    second.build(vectors, first.centroids())
    np.testing.assert_array_equal(second.centroids(), first.centroids())
    alone = FaissIndex("ivf", nlist=20)
    alone.build(vectors)
    np.testing.assert_array_equal(alone.search(queries, 5)[1], second.search(queries, 5)[1])
    assert made("ivf_sq8", vectors[:900]).centroids().shape == (20, WIDTH)
    assert FaissIndex("hnsw").centroids() is None


@pytest.mark.parametrize("type_,settings", [("ivf", {}), *TYPES])
def test_vectors_are_listed_with_their_nearest_centroid(
    vectors, queries, tmp_path, type_, settings
):
    """By inner product the lists of long vectors would take those of others, whatever was loaded or
    added."""
    rng = np.random.default_rng(3)
    varied = vectors.astype(np.float32) * np.maximum(0.1, 1 + 0.4 * rng.standard_normal((N, 1)))
    varied = varied.astype(np.float32)
    index = made(type_, varied[:1500], nprobe=8, **settings)
    index.to_disk(tmp_path)
    loaded = make_index(index.kind, index.settings)
    loaded.from_disk(tmp_path, varied[:1500])
    loaded.add(varied[1500:])
    distances = np.linalg.norm(varied[:, None] - loaded.centroids()[None], axis=2)
    for number, line in enumerate(distances.T):
        lists = loaded._index.invlists
        rows = faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number))
        assert (line[rows] <= distances[rows].min(axis=1) + 1e-4).all()
    exact = ExactIndex()
    exact.build(varied)
    assert first_right(loaded.search(queries, 16), exact.search(queries, 16)) > 0.98


def test_adding_reports_progress_and_can_be_interrupted(vectors, monkeypatch):
    monkeypatch.setattr(faiss_index, "ADD_ROWS", 800)
    index, added = FaissIndex("ivf_sq8", nlist=20), []
    index.on_added = added.append
    index.build(vectors)
    assert added == [800, 800, 400]
    assert pickle.loads(pickle.dumps(index)).on_added is None

    def end(number):
        raise TimeoutError

    index.on_added = end
    with pytest.raises(TimeoutError):
        index.build(vectors)


def test_stored_vectors_may_be_in_several_arrays(vectors, queries, exact, monkeypatch):
    monkeypatch.setattr(exact_module, "BLOCK_VALUES", 300)
    stored = [vectors[:700], vectors[700:701], vectors[701:]]
    rows = np.array([1999, 0, 699, 700, 701, 700])
    np.testing.assert_array_equal(vectors_at(stored, rows), vectors[rows].astype(np.float32))
    expected = exact.search(queries, 30)
    shuffled = np.random.default_rng(0).permuted(expected[1], axis=1)
    shuffled = np.concatenate([np.full((len(queries), 2), -1), shuffled], axis=1)
    scores, best = rescored(stored, queries.astype(np.float32), shuffled, 30)
    np.testing.assert_array_equal(best, expected[1])
    np.testing.assert_allclose(scores, expected[0], atol=1e-6)
