import json

import pytest
import spacy
from spacy.tokens import DocBin
from spacy.vocab import Vocab

from spacy_krissel.building.tune import PLANS, Trial, Tuning
from spacy_krissel.commands import tune_pipeline as tune_module
from spacy_krissel.commands.build_prototypes import prototypes
from spacy_krissel.commands.tune_pipeline import tune_index
from spacy_krissel.errors import KrisselError
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.pipeline.pipeline_io import find_linker

pytestmark = pytest.mark.slow

pytest.importorskip("faiss")
KB = "krissel_linker/kb"


@pytest.fixture
def make_pipeline(make_linker, toy_store, toy_shards, tmp_path):
    """Saves a pipeline with a knowledge base: `make_pipeline(**settings of prototypes)`."""

    def make(**settings):
        make_linker().to_disk(tmp_path / "trained")
        path = tmp_path / "pipeline"
        prototypes(
            tmp_path / "trained", path, toy_store.path, toy_shards, progress=False, **settings
        )
        return path

    return make


@pytest.fixture(autouse=True)
def ivf_is_chosen(monkeypatch):
    """Choose the last index, with all lists searched: links stay the same."""
    monkeypatch.setattr(Tuning, "chosen", property(lambda tuning: tuning.trials[-1]))
    for type_ in ("ivf", "ivf_sq8"):
        monkeypatch.setitem(PLANS, type_, PLANS[type_]._replace(widths=(512,)))


def index_of(path):
    return json.loads((path / "manifest.json").read_text())


def linked(path, make_docs):
    nlp = spacy.load(path)
    return [[ent.kb_id_ for ent in doc.ents] for doc in nlp.pipe(make_docs(nlp))]


def test_the_choice_is_written_into_the_pipeline(make_pipeline, make_docs):
    path = make_pipeline()
    before, expected = index_of(path / KB), linked(path, make_docs)
    model = (path / "krissel_linker" / "model").read_bytes()
    tuning = tune_index(path, types=["ivf"], n_queries=20)
    found = index_of(path / KB)
    assert before["index"]["kind"] == "exact" and before["tuning"] is None
    assert found["index"] == {"kind": "faiss", "settings": tuning.chosen.settings}
    assert (
        found["tuning"]["queries"] == 20 and found["tuning"]["prototypes"] == before["prototypes"]
    )
    assert linked(path, make_docs) == expected
    assert find_linker(spacy.load(path)).kb.build_index().settings == tuning.chosen.settings
    assert (path / "krissel_linker" / "model").read_bytes() == model
    assert not list(path.parent.rglob(".*")), "nothing is left of the work"


def test_tuned_index_replaces_that_of_the_config(make_pipeline, make_docs):
    index = {"@misc": "spacy-krissel.FaissIndex.v1", "type": "hnsw"}
    path = make_pipeline(overrides={"components.krissel_linker.generate_empty_kb.index": index})
    assert index_of(path / KB)["index"]["settings"]["type"] == "hnsw"
    expected = linked(path, make_docs)
    tune_index(path, types=["ivf"])
    nlp = spacy.load(path)
    assert nlp.config["components"]["krissel_linker"]["generate_empty_kb"]["index"] is None
    assert find_linker(nlp).kb.description()["index"]["settings"]["type"] == "ivf"
    assert linked(path, make_docs) == expected


def test_tuned_pipeline_can_be_saved_elsewhere(make_pipeline, make_docs, tmp_path):
    path = make_pipeline(kb_path=tmp_path / "kb")
    before = (tmp_path / "kb" / "manifest.json").read_bytes()
    tune_index(path, tmp_path / "new" / "tuned", types=["ivf"])
    assert (tmp_path / "kb" / "manifest.json").read_bytes() == before
    assert index_of(tmp_path / "new" / "tuned" / KB)["index"]["kind"] == "faiss"
    assert linked(tmp_path / "new" / "tuned", make_docs) == linked(path, make_docs)
    # A knowledge base beside its pipeline stays there.
    tune_index(path, types=["ivf_sq8"])
    assert (
        index_of(tmp_path / "kb")["index"]["settings"]["type"] == "ivf_sq8"
        and not (path / KB).exists()
    )


def test_knowledge_base_can_be_tuned_alone(make_pipeline, tmp_path):
    path = make_pipeline() / KB
    before = (path / "manifest.json").read_bytes()
    tuning = tune_index(path, dry_run=True, types=["ivf"])
    assert len(tuning.trials) > 1 and (path / "manifest.json").read_bytes() == before
    tune_index(path, tmp_path / "tuned", types=["ivf"])
    assert (path / "manifest.json").read_bytes() == before
    kb = PrototypeKB(Vocab(), 0).from_disk(tmp_path / "tuned")
    assert kb.description()["index"]["settings"]["type"] == "ivf"
    again = tune_index(path, dry_run=True, types=["ivf"])

    def figures(trial):
        return trial.recall, trial.recall_k, trial.entities, trial.entities_k, trial.settings

    assert figures(again.trials[1]) == figures(tuning.trials[1])


def test_failure_leaves_the_pipeline_unchanged(make_pipeline, monkeypatch):
    path = make_pipeline()
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}

    def fail(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr("spacy_krissel.kb.prototype_table.write_array", fail)
    with pytest.raises(KrisselError, match="K026.*no space"):
        tune_index(path, types=["ivf"])
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_docs_provide_the_queries(make_pipeline, make_docs, tmp_path, monkeypatch):
    path, asked = make_pipeline(), []

    def note(kb, queries, folder, **settings):
        asked.append(queries)
        exact = Trial("exact", {}, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0)
        return Tuning(16, len(queries), 0.99, [exact]), kb.build_index()

    monkeypatch.setattr(tune_module, "tune", note)
    nlp = spacy.load(path)
    docs = make_docs(nlp)
    DocBin(docs=docs).to_disk(tmp_path / "docs.spacy")
    linker = find_linker(nlp)
    views = [view for doc in docs for view in linker.views(doc, doc.ents)]
    tune_index(path, queries=tmp_path / "docs.spacy", dry_run=True)
    tune_index(path, queries=tmp_path / "docs.spacy", n_queries=3, dry_run=True)
    assert asked[0] == pytest.approx(linker.encode(views), abs=1e-5)
    assert asked[1].shape[0] == 3 and len(views) > 3
    assert all((abs(asked[0] - row).max(axis=1) < 1e-5).any() for row in asked[1])
    DocBin(docs=[nlp.make_doc("nothing")]).to_disk(tmp_path / "empty.spacy")
    for queries, of, code in (
        ("empty", path, "K006"),
        ("missing", path, "K201"),
        ("docs", path / KB, "K006"),
    ):
        with pytest.raises(KrisselError, match=code):
            tune_index(of, queries=tmp_path / f"{queries}.spacy")


def test_untunable_inputs_raise(make_linker, tmp_path):
    make_linker().to_disk(tmp_path / "trained")
    with pytest.raises(KrisselError, match="K520"):
        tune_index(tmp_path / "trained", tmp_path / "out")
    with pytest.raises(KrisselError, match="K006.*output"):
        tune_index(tmp_path / "trained")
    with pytest.raises(KrisselError, match="K610"):
        tune_index(tmp_path / "trained", name="other")
    with pytest.raises(KrisselError, match="K611"):
        tune_index(tmp_path / "missing")
    with pytest.raises(KrisselError, match="K006.*n_queries"):
        tune_index(tmp_path / "trained", n_queries=0)


@pytest.mark.parametrize("apart", [False, True])
def test_tuning_killed_between_renames_can_be_rerun(make_pipeline, make_docs, tmp_path, apart):
    path = make_pipeline(kb_path=tmp_path / "kb" if apart else None)
    expected = linked(path, make_docs)
    kb = tmp_path / "kb" if apart else path / KB
    kb.rename(kb.parent / f".{kb.name}.12345678.old")
    with pytest.raises(
        KrisselError, match="K001" if apart else "K642.*being replaced.*12345678.old"
    ):
        spacy.load(path)
    tune_index(path, types=["ivf"], n_queries=20)
    assert linked(path, make_docs) == expected
    assert not list(tmp_path.rglob("*.old"))


@pytest.mark.parametrize("elsewhere", [False, True])
def test_pipeline_keeps_the_device_of_the_chosen_index(
    make_pipeline, tmp_path, monkeypatch, elsewhere
):
    made = []

    def on_cpu(*args, index_device, **settings):
        made.append(index_device)
        return tune(*args, **settings)

    tune = tune_module.tune
    monkeypatch.setattr(tune_module, "tune", on_cpu)
    path = make_pipeline(index="hnsw")
    output = tmp_path / "tuned" if elsewhere else None
    tune_index(path, output, types=["ivf"], index_device="cuda:0")
    kb = find_linker(spacy.load(output or path)).kb
    assert made == ["cuda:0"] and kb.index_device == kb.build_index().device == "cuda:0"
    assert kb.build_index().type == "ivf"
