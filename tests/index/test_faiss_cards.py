"""FAISS's indexes on cards: on a stand-in for GPU FAISS, and marked `gpu` on a card itself."""

import pickle
import warnings

import numpy as np
import pytest
from faiss_standin import install

from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.index import devices, faiss_cards, faiss_index
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.index.faiss_index import factory_string, make_faiss_index

# Before FAISS: both bring libraries of CUDA, and those of torch serve both.
torch = pytest.importorskip("torch")
faiss = pytest.importorskip("faiss")
N, WIDTH = 2000, 32
IVF = [("ivf", {}), ("ivf", {"float16": True}), ("ivf_sq8", {}), ("ivf_pq", {"pq_bytes": 8})]
DEVICES = ["cuda", "cuda:1", "cuda:all"]


@pytest.fixture(scope="module")
def vectors(clustered):
    """Vectors of various lengths: the nearest centroid is not that of the highest inner product."""
    lengths = np.random.default_rng(2).uniform(0.4, 1.6, (N, 1)).astype(np.float32)
    return lengths * clustered(N, WIDTH)


@pytest.fixture(scope="module")
def queries(vectors):
    noise = 0.02 * np.random.default_rng(1).standard_normal((200, WIDTH)).astype(np.float32)
    return vectors[:200] + noise


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Several blocks of few vectors, and product quantization of few, too."""
    monkeypatch.setattr(faiss_index, "ADD_ROWS", 500)
    monkeypatch.setattr(faiss_cards, "ADD_ROWS", 500)
    monkeypatch.setattr(faiss_index, "CODES", 20)
    monkeypatch.setattr(devices, "_warned", set())


@pytest.fixture
def moved(monkeypatch):
    return install(monkeypatch, faiss)


def made(type_, vectors, device="cpu", **settings):
    index = make_faiss_index(type_, device=device, **settings)()
    index.build(vectors)
    return index


def ivf_settings(settings):
    return {"nlist": 20, "nprobe": 5, **settings}


def lists_of(index):
    """The rows in each list of the CPU form."""
    lists = index._index.invlists
    return [
        sorted(faiss.rev_swig_ptr(lists.get_ids(number), lists.list_size(number)).tolist())
        for number in range(lists.nlist)
    ]


def recall(found, vectors, queries, k):
    exact = ExactIndex()
    exact.build(vectors)
    pairs = zip(found[1].tolist(), exact.search(queries, k)[1].tolist(), strict=True)
    return np.mean([len(set(a) & set(b)) / k for a, b in pairs])


@pytest.mark.parametrize("device", DEVICES)
def test_flat_float16_is_copied_to_gpus_in_blocks(vectors, queries, moved, device, tmp_path):
    index = made("flat", vectors, device, float16=True)
    on_cpu = made("flat", vectors, float16=True)
    for _ in range(2):
        scores, rows = index.search(queries, 5)
        expected_scores, expected_rows = on_cpu.search(queries, 5)
        np.testing.assert_allclose(scores, expected_scores, atol=0.005)
        assert (rows == expected_rows).mean() > 0.97
    # All vectors once, never more than a block of float32 at a time.
    assert not moved.clones
    assert sum(moved.blocks) == vectors.nbytes and max(moved.blocks) == 500 * WIDTH * 4
    index.to_disk(tmp_path)
    loaded = make_faiss_index("flat", device=device, float16=True)()
    loaded.from_disk(tmp_path, vectors)
    np.testing.assert_array_equal(loaded.search(queries, 5)[1], rows)


@pytest.mark.parametrize("device", DEVICES)
def test_a_flat_index_is_copied_to_gpus_once_until_it_grows(vectors, queries, moved, device):
    index = made("flat", vectors[:1500], device)
    index.search(queries, 5)
    index.search(queries, 5)
    assert moved.clones == [("IndexFlat", 1500)]
    index.add(vectors[1500:])
    expected = made("flat", vectors).search(queries, 5)[1]
    np.testing.assert_array_equal(index.search(queries, 5)[1], expected)
    assert moved.clones[1:] == [("IndexFlat", N)]


@pytest.mark.parametrize("device", ["cuda:1", "cuda:all"])
@pytest.mark.parametrize("type_,settings", IVF)
def test_ivf_is_filled_on_gpus_like_on_the_cpu(
    vectors,
    queries,
    moved,
    type_,
    settings,
    device,
    tmp_path,
):
    settings = ivf_settings(settings)
    on_cpu = made(type_, vectors, **settings)
    index = make_faiss_index(type_, device=device, **settings)()
    # The same centroids, so that the lists can be compared.
    index.build(vectors, on_cpu.centroids())
    # An index without vectors went to the cards, and the vectors by blocks; the whole came back.
    assert moved.clones[1:] == [(type(index._index).__name__, 0)]
    assert max(moved.blocks) <= 500 * WIDTH * 4 and sum(moved.blocks) == vectors.nbytes
    assert moved.fetched == [N]
    assert lists_of(index) == lists_of(on_cpu)
    np.testing.assert_array_equal(index.centroids(), on_cpu.centroids())
    expected = on_cpu.search(queries, 5)
    found = index.search(queries, 5)
    np.testing.assert_allclose(found[0], expected[0], atol=1e-5)
    # What was filled is searched: nothing went to the cards again.
    assert len(moved.clones) == 2 and moved.searches >= 1
    loaded = saved_and_loaded(index, type_, settings, vectors, tmp_path)
    for copied in (pickle.loads(pickle.dumps(index)), loaded):
        np.testing.assert_allclose(copied.search(queries, 5)[0], expected[0], atol=1e-5)


def saved_and_loaded(index, type_, settings, vectors, path):
    """The index as a process without a card reads it."""
    index.to_disk(path)
    loaded = make_faiss_index(type_, **settings)()
    loaded.from_disk(path, vectors)
    return loaded


@pytest.mark.parametrize("device", ["cuda", "cuda:all"])
@pytest.mark.parametrize("type_,settings", IVF)
def test_ivf_on_gpus_grows_like_on_the_cpu(vectors, moved, type_, settings, device, tmp_path):
    """By many vectors on the cards, by few on both sides."""
    settings = ivf_settings(settings)
    on_cpu = made(type_, vectors[:1000], **settings)
    index = make_faiss_index(type_, device=device, **settings)()
    index.build(vectors[:1000], on_cpu.centroids())
    index.to_disk(tmp_path)
    index = make_faiss_index(type_, device=device, **settings)()
    # Mapped, where FAISS can.
    index.from_disk(tmp_path, vectors[:1000])
    moved.fetched.clear()
    for first, last, fetched in ((1000, 1900, [1900]), (1900, N, [1900])):
        index.add(vectors[first:last])
        on_cpu.add(vectors[first:last])
        assert moved.fetched == fetched
        assert len(index) == last
        assert lists_of(index) == lists_of(on_cpu)
        queries = vectors[first:last]
        found, expected = index.search(queries, 5), on_cpu.search(queries, 5)
        np.testing.assert_allclose(found[0], expected[0], atol=1e-5)


def test_an_interrupted_addition_on_the_gpu_leaves_the_index_unchanged(vectors, queries, moved):
    index = made("ivf", vectors[:1000], "cuda", nlist=20, nprobe=20)
    expected = index.search(queries, 5)
    added = []

    def end_at_second(count):
        added.append(count)
        if len(added) == 2:
            raise TimeoutError

    index.on_added = end_at_second
    with pytest.raises(TimeoutError):
        index.add(vectors[1000:])
    assert len(index) == 1000
    np.testing.assert_array_equal(index.search(queries, 5)[1], expected[1])


def test_search_settings_change_on_the_gpu_without_a_copy(vectors, queries, moved):
    index = made("ivf", vectors, "cuda:all", nlist=20, nprobe=1)
    index.search(queries, 5)
    clones = len(moved.clones)
    index.set_search(nprobe=20)
    assert recall(index.search(queries, 5), vectors, queries, 5) == 1
    assert len(moved.clones) == clones
    with pytest.raises(KrisselError, match="K006.*'nprobe'.*2048 or less.*'cuda:all'"):
        index.set_search(nprobe=2049)


def test_more_results_than_the_gpu_limit_are_searched_on_the_cpu(vectors, queries, moved):
    many = np.concatenate([vectors, vectors[:200]])
    index = made("ivf_sq8", many, "cuda", nlist=4, nprobe=4, refine=2)
    assert (index.search(queries[:3], 1500)[1] >= 0).all()
    assert moved.searches == 0
    index.search(queries[:3], 1024)
    assert moved.searches == 1


@pytest.mark.parametrize(
    "settings,expected",
    [
        ({"type": "ivf", "nprobe": 2049}, "'nprobe'.*2048 or less"),
        ({"type": "ivf_pq", "pq_bytes": 384}, "'pq_bytes'.*40, 48, 56, 64, 96"),
        ({"type": "ivf_pq", "pq_bytes": 6}, "'pq_bytes'.*1, 2, 3, 4, 8"),
        ({"type": "hnsw"}, "'device'"),
    ],
)
def test_settings_unsupported_on_gpus_raise_at_construction(settings, expected):
    make_faiss_index(**settings)()
    with pytest.raises(KrisselError, match=f"K006.*{expected}"):
        make_faiss_index(device="cuda:0", **settings)()


CODES = [(768, 48), (1024, 32), (384, 48), (100, 20), (32, 16), (7, 1), (1, 1)]


@pytest.mark.parametrize("width,size", CODES)
def test_default_code_sizes_are_supported_on_gpus(width, size):
    settings = {"nlist": 0, "pq_bytes": 0}
    assert factory_string("ivf_pq", False, settings, 10**6, width, True) == f"IVF4000,PQ{size}np"


@pytest.mark.parametrize("size", [48, 96])
def test_supported_code_sizes_are_searched_on_the_gpu(moved, clustered, size):
    vectors = clustered(1000, 96)
    index = made("ivf_pq", vectors, "cuda", nlist=5, nprobe=5, pq_bytes=size)
    assert recall(index.search(vectors[:50], 1), vectors, vectors[:50], 1) > 0.95
    assert moved.searches == 1


def test_unsupported_saved_code_sizes_are_searched_on_the_cpu(moved, clustered, tmp_path):
    vectors = clustered(1000, 36)
    on_cpu = made("ivf_pq", vectors, nlist=5, nprobe=5)
    on_cpu.to_disk(tmp_path)
    index = make_faiss_index("ivf_pq", device="cuda", nlist=5, nprobe=5)()
    index.from_disk(tmp_path, vectors)
    reason = "codes of this index have 18 bytes and cards take 1, 2, .*, 96"
    with pytest.warns(KrisselWarning, match=f"KW503.*{reason}.*on the CPU"):
        found = index.search(vectors[:50], 3)
    np.testing.assert_array_equal(found[1], on_cpu.search(vectors[:50], 3)[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        index.search(vectors[:50], 3)
        index.add(vectors[:50])
    # Built for the card, it has codes that the card takes.
    index.build(vectors)
    index.search(vectors[:50], 3)
    assert (index._index.pq.M, moved.searches) == (12, 1)


@pytest.mark.parametrize("type_,settings", [("flat", {"float16": True}), *IVF])
@pytest.mark.parametrize("lacks", ["card", "GPU FAISS"])
def test_a_saved_gpu_index_is_searched_on_the_cpu_without_a_gpu(
    vectors,
    queries,
    type_,
    settings,
    lacks,
    tmp_path,
    monkeypatch,
):
    settings = ivf_settings(settings) if type_ != "flat" else settings
    with monkeypatch.context() as patch:
        install(patch, faiss)
        made(type_, vectors, "cuda:0", **settings).to_disk(tmp_path)
    if hasattr(faiss, "StandardGpuResources"):
        pytest.skip("this FAISS is built for GPUs")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: int(lacks != "card"))
    index = make_faiss_index(type_, device="cuda:0", **settings)()
    index.from_disk(tmp_path, vectors)
    reason = "torch finds no CUDA device" if lacks == "card" else "FAISS is built for the CPU"
    with pytest.warns(KrisselWarning, match=f"KW503.*'cuda:0'.*{reason}.*on the CPU"):
        found = index.search(queries, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = make_faiss_index(type_, **settings)()
        second.from_disk(tmp_path, vectors)
        np.testing.assert_array_equal(found[1], second.search(queries, 5)[1])
        index.add(vectors[:5])
        index.build(vectors)
        index.search(queries, 5)


def test_a_gpu_unknown_to_faiss_is_replaced_by_the_cpu(vectors, queries, moved, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 8)
    with pytest.warns(KrisselWarning, match="KW503.*'cuda:5'.*FAISS finds is 2"):
        assert recall(made("flat", vectors, "cuda:5").search(queries, 5), vectors, queries, 5) == 1


@pytest.fixture
def gpu_faiss():
    if not hasattr(faiss, "StandardGpuResources") or not faiss.get_num_gpus():
        pytest.skip("this FAISS finds no GPU")


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0", "cuda:all"])
@pytest.mark.parametrize("type_,settings", [("flat", {}), ("flat", {"float16": True})])
def test_flat_search_on_gpus_agrees_with_cpu(vectors, queries, gpu_faiss, type_, settings, device):
    scores, rows = made(type_, vectors, device, **settings).search(queries, 10)
    expected_scores, expected_rows = made(type_, vectors, **settings).search(queries, 10)
    np.testing.assert_allclose(scores, expected_scores, atol=0.01)
    assert (rows == expected_rows).mean() > 0.9


@pytest.mark.gpu
@pytest.mark.parametrize("device", ["cuda:0", "cuda:all"])
@pytest.mark.parametrize("type_,settings", IVF)
def test_ivf_search_on_gpus_agrees_with_cpu(vectors, queries, gpu_faiss, type_, settings, device):
    settings = ivf_settings(settings)
    on_cpu = made(type_, vectors[:1200], **settings)
    index = make_faiss_index(type_, device=device, **settings)()
    index.build(vectors[:1200], on_cpu.centroids())
    on_cpu.add(vectors[1200:])
    index.add(vectors[1200:])
    # Rounding decides on vectors between two centroids.
    same = [len(set(a) & set(b)) for a, b in zip(lists_of(index), lists_of(on_cpu), strict=True)]
    assert sum(same) > 0.995 * N
    scores, rows = index.search(queries, 10)
    expected_scores, expected_rows = on_cpu.search(queries, 10)
    assert (rows == expected_rows).mean() > 0.95
    np.testing.assert_allclose(scores[:, 0], expected_scores[:, 0], atol=0.01)
    assert index._gpu_index is not None


@pytest.mark.gpu
def test_training_on_a_gpu_costs_no_recall(vectors, queries, gpu_faiss):
    on_card, on_cpu = (
        recall(
            made("ivf", vectors, device, **ivf_settings({})).search(queries, 10),
            vectors,
            queries,
            10,
        )
        for device in ("cuda:0", "cpu")
    )
    assert on_card > on_cpu - 0.03
