import numpy as np
import pytest
from spacy.vocab import Vocab

from spacy_krissel.building import tune as tune_module
from spacy_krissel.building.tune import Plan, Trial, Tuning, near_vectors, tune, tuning_lines
from spacy_krissel.errors import KrisselError
from spacy_krissel.index.exact import ExactIndex
from spacy_krissel.index.faiss_index import FaissIndex
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.kb.ranking import search_entities
from spacy_krissel.views import View

pytest.importorskip("faiss")
N, WIDTH = 1200, 8


@pytest.fixture(scope="module")
def vectors():
    """Unit vectors around as many centres as there are entities, every tenth a name that two
    entities share."""
    rng = np.random.default_rng(0)
    points = rng.standard_normal((N // 4, WIDTH))[np.arange(N) // 4] + 0.2 * rng.standard_normal(
        (N, WIDTH)
    )
    points[10::40] = points[0::40]
    return (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def kb(random_kb, vectors):
    return random_kb(np.arange(N) // 4, vectors)


@pytest.fixture
def queries(kb):
    return near_vectors(kb, 60)


@pytest.fixture(autouse=True)
def any_time_will_do(monkeypatch):
    """Replace measured times: 1 s for the exact index, less for indexes that read fewer rows."""
    measure = tune_module._Measure._time_search

    def searched(self, index):
        *found, _ = measure(self, index)
        settings = getattr(index, "settings", {})
        wide = settings.get("nprobe", settings.get("ef_search", 0)) * (
            1 + settings.get("refine", 0)
        )
        return (*found, wide / 1000 if wide else 1.0)

    monkeypatch.setattr(tune_module._Measure, "_time_search", searched)


def test_the_fastest_index_with_enough_recall_is_chosen(kb, queries, tmp_path):
    tuning, index = tune(kb, queries, tmp_path, recall=0.95, k=5)
    assert tuning.trials[0].kind == "exact" and tuning.trials[0].ratio == 1
    assert {trial.settings.get("type") for trial in tuning.trials} == {
        None,
        "ivf",
        "ivf_sq8",
        "ivf_pq",
        "hnsw",
    }
    good = [trial for trial in tuning.trials if min(trial.recall, trial.entities) >= 0.95]
    assert tuning.chosen.seconds == min(trial.seconds for trial in good) < 1
    assert tuning.chosen.ratio == pytest.approx(1 / tuning.chosen.seconds)
    assert {"kind": index.kind, "settings": index.settings} == {
        "kind": tuning.chosen.kind,
        "settings": tuning.chosen.settings,
    }
    # Other indexes are removed.
    assert [path.name for path in tmp_path.iterdir()] == [tuning.chosen.settings["type"]]
    found = search_entities(index, kb.prototypes, queries, 5, None).entities[:, 0]
    right = found == kb.search(queries, 5).entities[:, 0]
    assert right.mean() == pytest.approx(tuning.chosen.entities)


def test_each_index_is_built_once(kb, queries, tmp_path, monkeypatch):
    built = []
    build = FaissIndex.build
    monkeypatch.setattr(
        FaissIndex, "build", lambda self, *given: built.append(self.type) or build(self, *given)
    )
    tuning, _ = tune(kb, queries, tmp_path, recall=0.9, types=["ivf_pq", "ivf"])
    assert built == ["ivf", "ivf_pq"]
    assert len([trial for trial in tuning.trials if trial.settings.get("type") == "ivf_pq"]) > 1


def test_searches_widen_until_recall_is_reached(kb, queries, tmp_path):
    tuning, _ = tune(kb, queries, tmp_path, recall=1.0, types=["ivf"])
    widths = [trial.settings["nprobe"] for trial in tuning.trials[1:]]
    assert widths == [2**i for i in range(len(widths))]
    assert [trial.min_recall() == 1 for trial in tuning.trials[1:]] == [False] * (
        len(widths) - 1
    ) + [True]


def test_the_exact_index_is_chosen_if_no_other_is_good_enough(kb, queries, tmp_path, monkeypatch):
    monkeypatch.setitem(tune_module.PLANS, "ivf", Plan({"float16": True}, "nprobe", (1,)))
    tuning, index = tune(kb, queries, tmp_path, recall=1.0, types=["ivf"])
    assert tuning.chosen == tuning.trials[0] and isinstance(index, ExactIndex)
    assert len(tuning.trials) == 2 and not list(tmp_path.iterdir())
    np.testing.assert_array_equal(
        search_entities(index, kb.prototypes, queries, 3, None).entities,
        kb.search(queries, 3).entities,
    )


@pytest.mark.parametrize(
    "settings",
    [{"recall": 0}, {"types": ["flat"]}],
)
def test_invalid_settings_raise(kb, queries, tmp_path, settings):
    with pytest.raises(KrisselError, match="K006"):
        tune(kb, queries, tmp_path, **settings)


def test_the_chosen_index_and_its_measurements_are_saved(kb, queries, tmp_path):
    (tmp_path / "work").mkdir()
    tuning, index = tune(kb, queries, tmp_path / "work", types=["ivf_sq8"], recall=0.9)
    kb.set_index(index, tuning.summary(kb.n_prototypes))
    kb.to_disk(tmp_path / "kb")
    loaded = PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "kb")
    assert loaded.description() == kb.description()
    assert loaded.description()["index"] == {"kind": "faiss", "settings": tuning.chosen.settings}
    figures = loaded.description()["tuning"]
    assert (
        figures["recall"] == tuning.chosen.recall
        and figures["prototypes"] == N
        and figures["queries"] == 60
    )
    np.testing.assert_array_equal(
        loaded.search(queries, 3).entities,
        search_entities(index, kb.prototypes, queries, 3, None).entities,
    )
    # They are of this index alone.
    loaded.to_disk(tmp_path / "without", exclude=["index"])
    assert (
        PrototypeKB(Vocab(), WIDTH).from_disk(tmp_path / "without").description()["tuning"] is None
    )
    loaded.use_index(None)
    assert loaded.description()["tuning"] is None


def test_queries_are_as_far_from_prototypes_as_their_nearest_neighbours(kb, vectors):
    made = near_vectors(kb, 100, seed=3)
    assert made.shape == (100, WIDTH)
    np.testing.assert_array_equal(made, near_vectors(kb, 100, seed=3))
    assert not np.array_equal(made, near_vectors(kb, 100, seed=4))
    rows = np.sort(np.random.default_rng(3).choice(N, 100, replace=False))
    moved = np.linalg.norm(made - vectors[rows], axis=1)
    apart = np.linalg.norm(vectors[rows][:, None] - vectors[None], axis=2)
    nearest = np.where(apart > 0.02, apart, np.inf).min(axis=1)
    # By inner product the nearest of unit vectors are the same ones.
    np.testing.assert_allclose(moved, nearest, rtol=1e-3)
    assert near_vectors(kb, 10 * N).shape == (N, WIDTH)


def test_queries_are_made_around_prototypes_without_their_references(random_kb, vectors):
    """Around prototypes without their references, as far as others of any length are."""
    rng = np.random.default_rng(5)
    varied = vectors * rng.uniform(0.2, 1.8, (N, 1)).astype(np.float32)
    kb = random_kb(np.arange(N) // 4, varied)
    plain = near_vectors(kb, 100)
    rows = np.sort(np.random.default_rng(0).choice(N, 100, replace=False))
    apart = np.linalg.norm(varied[rows][:, None] - varied[None], axis=2)
    nearest = np.where(
        apart > 0.01 * np.linalg.norm(varied[rows], axis=1)[:, None], apart, np.inf
    ).min(axis=1)
    np.testing.assert_allclose(np.linalg.norm(plain - varied[rows], axis=1), nearest, rtol=1e-3)
    ids = list(kb.entity_ids)
    kb.set_references([(ids, 3 * rng.standard_normal((len(ids), WIDTH)))])
    kb.add_prototypes(
        [Prototype(ids[0], "reference", View("", "a", "", reference=True))], np.ones((1, WIDTH))
    )
    np.testing.assert_allclose(near_vectors(kb, 100), plain, atol=1e-2)


def test_the_query_for_a_single_prototype_is_its_vector(random_kb):
    kb = random_kb([0], np.eye(1, WIDTH, dtype=np.float32))
    np.testing.assert_array_equal(near_vectors(kb, 5), kb.vectors)


def test_the_table_has_a_row_per_trial():
    exact = Trial("exact", {}, 1.0, 1.0, 1.0, 1.0, 0.04, 1.0, 0.0, 0.0)
    settings = {"type": "ivf", "float16": True, "nlist": 0, "nprobe": 4}
    quick = Trial("faiss", settings, 0.995, 0.98, 1.0, 0.99, 0.001, 40.0, 12.3, 61.0)
    lines = list(tuning_lines(Tuning(k=8, queries=10, wanted=0.99, trials=[exact, quick])))
    assert lines[0].startswith("| index | search | prototypes R@1 | R@8 |")
    assert lines[2] == "| exact |  | 1.0000 | 1.0000 | 1.0000 | 1.0000 | 40.000 | 1.0 | 0 | 0 |"
    assert lines[3] == (
        "| **ivf float16** | nprobe 4 | 0.9950 | 0.9800 | 1.0000 | 0.9900 | 1.000 | 40.0 | 12 | 61 "
        "|"
    )


def test_indexes_are_built_and_measured_on_the_gpu(kb, queries, tmp_path, monkeypatch):
    made = []

    class OnCard(FaissIndex):
        """Notes the device, and works on the CPU."""

        def __init__(self, type, device="cpu", **settings):
            made.append((type, device))
            super().__init__(type, **settings)

    class ExactOnCard(ExactIndex):
        def __init__(self, device):
            made.append((self.kind, device))
            super().__init__()

    monkeypatch.setattr(tune_module, "FaissIndex", OnCard)
    monkeypatch.setattr(tune_module, "ExactIndex", ExactOnCard)
    tuning, _ = tune(kb, queries, tmp_path, index_device="cuda:0")
    assert {type_ for type_, _ in made} == {"exact", "ivf", "ivf_sq8", "ivf_pq"}, (
        "a graph is searched on CPUs alone"
    )
    assert {device for _, device in made} == {"cuda:0"}
    assert len(tuning.trials) > 3


def test_hnsw_on_a_gpu_raises_before_any_index_is_built(kb, queries, tmp_path):
    with pytest.raises(KrisselError, match="K006.*hnsw"):
        tune(kb, queries, tmp_path, types=["ivf", "hnsw"], index_device="cuda:0")
    assert not any(tmp_path.iterdir())
