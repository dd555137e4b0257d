"""An ablation from its file to its table, on the toy data."""

import copy
import json
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
import spacy
from lab.ablation import runner as module
from lab.ablation import train as training
from lab.ablation.runner import AblationRun
from lab.ablation.settings import read_ablation
from lab.data.out_of_kb import out_of_kb
from spacy.util import load_config, registry

from spacy_krissel.errors import KrisselError
from spacy_krissel.evaluation.baselines import BASELINES
from spacy_krissel.evaluation.evaluate import evaluate
from spacy_krissel.evaluation.metrics import is_strict
from spacy_krissel.evaluation.records import read_records
from spacy_krissel.ontology.store import write_store
from spacy_krissel.pipeline.pipeline_io import find_linker

pytestmark = pytest.mark.slow

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
BASELINE_TITLES = [f"{name}{more}" for name in BASELINES for more in ("", " + abbreviations")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("ablation")


@pytest.fixture
def run(toy_ablation, write_ablation, folder, recwarn):
    """Runs the toy ablation with overrides. RETURNS: what ablation.json holds, and what was
    said."""

    def run(*rows, overrides=None, output=folder, content=toy_ablation):
        said = []
        found = AblationRun(
            read_ablation(write_ablation(content), overrides), output, say=said.append
        )(rows)
        return found, said

    return run


@pytest.fixture
def done(run, folder):
    """The whole ablation, made by the first test that asks for it, and found again by the
    others."""
    return run()[0]


@pytest.fixture
def no_training(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("trained again")

    monkeypatch.setattr(training, "train", refuse)


@pytest.fixture
def no_evaluation(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("measured again")

    monkeypatch.setattr(module, "evaluate", refuse)
    monkeypatch.setattr(module, "few_shot", refuse)


@pytest.mark.nightly
def test_results_of_rows_sets_and_curves_agree(done, folder):
    assert [row["name"] for row in done["rows"]] == ["full", "re-ranking", "aliases", "lazy"]
    assert [list(row["sets"]) for row in done["rows"]] == [["with", "without"]] * 3 + [["with"]]
    assert [row["seeds"] for row in done["rows"]] == [[0], [0], [3], [0]]
    for row in done["rows"]:
        seed = row["seeds"][0]
        for gold, figures in row["sets"].items():
            report = json.loads(
                (folder / row["name"] / f"seed-{seed}" / "sets" / gold / "report.json").read_text()
            )
            assert figures["n"] == report["n"] == 11 and figures["strict"] == report["strict"]
    assert set(done["top_k"]["with"]) == {"full", "lazy"} and set(done["top_k"]["without"]) == {
        "full"
    }
    assert all(len(curve) == 8 for curves in done["top_k"].values() for curve in curves.values())
    assert [shot["shots"] for shot in done["few_shot"]["with"]] == [0, 1, "all"] and len(
        done["few_shot"]
    ) == 1
    # What the curves begin with is what the table says.
    (full, *_, lazy) = done["rows"]
    assert done["few_shot"]["with"][0]["strict"] == [full["sets"]["with"]["strict"]]
    assert done["few_shot"]["with"][-1]["strict"] == [lazy["sets"]["with"]["strict"]]


@pytest.mark.nightly
def test_only_reports_and_needed_files_are_kept(done, folder):
    # An interval is a tuple until it was in a file.
    assert json.loads((folder / "ablation.json").read_text(encoding="utf8")) == json.loads(
        json.dumps(done)
    )
    report = (folder / "ablation.md").read_text(encoding="utf8")
    assert (
        "| − re-ranking |" in report
        and "## Few-shot: with" in report
        and "| with, + gold |" in report
    )
    # What trains has folders of its own; knowledge bases stay where another row or a curve needs
    # them.
    assert {path.name for path in (folder / "full" / "seed-0").iterdir()} == {
        "linker",
        "reranked",
        "sets",
    }
    assert {path.name for path in (folder / "re-ranking" / "seed-0").iterdir()} == {"sets"}
    kept = {path.parent.relative_to(folder).as_posix() for path in folder.glob("*/*/sets/*/kb")}
    assert kept == {"full/seed-0/sets/with", "full/seed-0/sets/without"}
    assert list(folder.rglob(".*")) == [], "nothing unfinished is left"


@pytest.mark.nightly
def test_overrides_are_applied_to_the_training(done, folder, toy_shards, toy_preferred):
    full, aliases = (
        load_config(folder / name / "reranked" / "pipeline" / "config.cfg", interpolate=True)
        for name in ("full/seed-0", "aliases/seed-3")
    )
    reranker = full["components"]["krissel_reranker"]
    assert (reranker["max_names"], aliases["components"]["krissel_reranker"]["max_names"]) == (8, 1)
    assert (
        reranker["objective"]["seed"] == 0
        and aliases["components"]["krissel_reranker"]["objective"]["seed"] == 3
    )
    full, aliases = (
        load_config(folder / name / "linker" / "pipeline" / "config.cfg", interpolate=True)
        for name in ("full/seed-0", "aliases/seed-3")
    )
    assert full["training"]["seed"] == 0 and aliases["training"]["seed"] == 3
    assert full["training"]["max_steps"] == aliases["training"]["max_steps"] == 4
    objectives = [
        config["components"]["krissel_linker"]["objective"]["p_replace"]
        for config in (full, aliases)
    ]
    assert objectives == [0.2, 0.0]
    assert full["corpora"]["train"]["mentions"] == str(toy_shards)
    assert aliases["corpora"]["train"]["mentions"] == str(toy_preferred)
    # Held-out names are aliases, so development needs them.
    assert aliases["corpora"]["dev"]["mentions"] == str(toy_shards)
    assert aliases["corpora"]["train"]["names_per_entity"] == 1


@pytest.mark.nightly
def test_a_row_without_reranking_equals_the_linker_alone(done, folder, toy_gold, toy_store):
    base = folder / "full" / "seed-0"
    kb_path = {"components.krissel_linker.kb_path": str(base / "sets" / "with" / "kb")}
    nlp = spacy.load(base / "reranked" / "pipeline", config=kb_path)
    with nlp.select_pipes(disable=["krissel_reranker"]):
        expected = evaluate(nlp, toy_gold[0], toy_store, baselines=False).records
    found = read_records(folder / "re-ranking" / "seed-0" / "sets" / "with" / "report.links.jsonl")
    full = read_records(base / "sets" / "with" / "report.links.jsonl")
    scores = [
        [pytest.approx(record.scores, abs=1e-5) for record in records]
        for records in (expected, found)
    ]
    assert [record.scores for record in found] == scores[0]
    assert [record.scores for record in full] != scores[1]


@pytest.mark.nightly
def test_a_reranker_can_be_limited_to_one_row(done, run, folder, tmp_path, toy_ablation):
    """Results equal those of an ablation in which only this row has no re-ranker."""
    content = {key: value for key, value in toy_ablation.items() if key != "curves"}
    content["reranker"]["rows"] = ["re-ranking"]
    content["rows"] = {
        "full": {"title": "full"},
        "re-ranking": {"title": "+ re-ranking", "of": "full"},
    }
    _found, said = run(output=tmp_path, content=content)
    assert [line.split(": ")[1] for line in said if "training" in line] == [
        "training the linker",
        "training the re-ranker",
    ]
    alone, reranked = (
        [
            read_records(path / name / "seed-0" / "sets" / "with" / "report.links.jsonl")
            for name in ("full", "re-ranking")
        ]
        for path in (tmp_path, folder)
    )
    assert [record.scores for record in alone[0]] == [record.scores for record in reranked[1]]
    scores = [pytest.approx(record.scores, abs=1e-5) for record in reranked[0]]
    assert [record.scores for record in alone[1]] == scores


@pytest.mark.nightly
def test_a_kb_without_aliases_is_smaller(done, folder, toy_ablation, write_ablation, toy_names):
    ablation = AblationRun(read_ablation(write_ablation(toy_ablation)), folder)
    full, without = (
        find_linker(
            ablation._with_kb(ablation.pipeline(name, seed), name, seed, "with")
        ).kb.description()
        for name, seed in (("full", 0), ("aliases", 3))
    )
    assert without["prototype_kinds"]["name"] == len(toy_names) < full["prototype_kinds"]["name"]
    assert without["prototype_kinds"]["mention"] < full["prototype_kinds"]["mention"]


@pytest.mark.nightly
def test_a_row_can_use_another_ontology(run, write_ablation, tmp_path, toy_ablation, toy_store):
    """Its training and its knowledge base are of that one; links are measured as everywhere."""
    plainer = (replace(entity, aliases=()) for entity in toy_store)
    other = write_store(plainer, tmp_path / "plainer")
    content = {
        key: value for key, value in toy_ablation.items() if key not in ("reranker", "curves")
    }
    content["rows"] = {
        "full": {"title": "full"},
        "plainer": {"title": "plainer", "ontology": str(other.path)},
    }
    content["rows"]["same"] = {"title": "same", "of": "full", "ontology": str(other.path)}
    del content["sets"]["without"]
    run(output=tmp_path / "out", content=content)
    ablation = AblationRun(read_ablation(write_ablation(content)), tmp_path / "out")
    names = {}
    for row in content["rows"]:
        nlp = ablation._with_kb(ablation.pipeline(row, 0), row, 0, "with")
        names[row] = find_linker(nlp).kb.description()["prototype_kinds"]["name"]
    assert names["plainer"] == names["same"] < names["full"]
    configs = {
        row: load_config(
            tmp_path / "out" / row / "seed-0" / "linker" / module.PIPELINE / "config.cfg"
        )
        for row in ("full", "plainer")
    }
    assert (
        configs["plainer"]["paths"]["ontology"]
        == str(other.path)
        != configs["full"]["paths"]["ontology"]
    )
    assert not (tmp_path / "out" / "same" / "seed-0" / "linker").exists()


@pytest.mark.nightly
def test_a_second_run_repeats_nothing(done, run, no_training, no_evaluation):
    again, said = run()
    assert json.dumps(again) == json.dumps(done) and said == []


@pytest.mark.nightly
def test_adding_a_row_retrains_nothing(done, run, folder, toy_ablation, no_training):
    toy_ablation["rows"]["weight"] = {
        "title": "half",
        "of": "full",
        "pipeline": {"components.krissel_reranker.weight": 0.5},
    }
    found, said = run("weight", content=toy_ablation)
    assert [row["name"] for row in found["rows"]] == ["full", "weight"]
    assert said == ["half (seed 0): linking with", "half (seed 0): linking without"]


@pytest.mark.nightly
@pytest.mark.parametrize(
    "change, place, key",
    [
        ({"train.overrides": {"training.max_steps": 2}}, "linker", "data"),
        ({"reranker.held_out": 0.2}, "reranked", "training"),
        (
            {"rows.full.pipeline": {"components.krissel_linker.n_candidates": 3}},
            "sets/with",
            "pipeline",
        ),
        ({"curves.draws": [5]}, "few-shot/with", "curve"),
    ],
)
def test_changed_settings_raise(done, run, no_training, no_evaluation, change, place, key):
    with pytest.raises(KrisselError, match=rf"K903.*{place}'.*{key} changed"):
        run(overrides=change)


@pytest.mark.nightly
@pytest.mark.parametrize(
    "remade, place",
    [
        ("train.ontology", "full/seed-0/linker"),
        ("train.mentions", "full/seed-0/linker"),
        ("train.mentions_without_aliases", "aliases/seed-3/linker"),
        ("sets.without.ontology", "full/seed-0/sets/without"),
        ("sets.without.mentions", "full/seed-0/sets/without"),
        ("sets.with.gold", "full/seed-0/sets/with"),
        ("sets.with.examples", "lazy/seed-0/sets/with"),
    ],
)
def test_changed_input_files_raise(
    done, run, no_training, no_evaluation, toy_ablation, remade, place
):
    """At the same path, so that the ablation file says what it said."""
    path = Path(reduce(getitem, remade.split("."), toy_ablation))
    path = path / "manifest.json" if path.is_dir() else path
    before = path.read_bytes()
    try:
        path.write_bytes(before + b"\n")
        with pytest.raises(KrisselError, match=rf"K903.*{place}'.*: files changed"):
            run()
    finally:
        path.write_bytes(before)


def test_interrupted_training_is_not_kept(run, tmp_path, toy_ablation, monkeypatch, no_evaluation):
    """spaCy saves `model-last` of a training that was stopped, too."""
    whole = training.train

    def stopped(config, output, **kwargs):
        whole(config, output, **kwargs)
        raise KeyboardInterrupt

    content = copy.deepcopy({**toy_ablation, "curves": {}})
    for row in ("re-ranking", "aliases", "lazy"):
        del content["rows"][row]
    monkeypatch.setattr(training, "train", stopped)
    with pytest.raises(KeyboardInterrupt):
        run(output=tmp_path / "out", content=content)
    assert [path.name for path in (tmp_path / "out" / "full" / "seed-0").iterdir()] == []
    # The linker is whole, the re-ranker is not.
    monkeypatch.setattr(
        training, "train", lambda config, *args, **kwargs: whole(config, *args, **kwargs)
    )
    monkeypatch.setattr(
        module, "train_reranker", lambda *args, **kwargs: (_ for _ in ()).throw(KeyboardInterrupt())
    )
    with pytest.raises(KeyboardInterrupt):
        run(output=tmp_path / "out", content=content)
    assert [path.name for path in (tmp_path / "out" / "full" / "seed-0").iterdir()] == ["linker"]


def test_results_of_linkers_alone_are_means_over_seeds(run, tmp_path, toy_ablation):
    """Without a re-ranker; each figure is the mean of the seeds. The config logs its steps."""
    content = {
        key: value for key, value in toy_ablation.items() if key not in ("reranker", "curves")
    }
    config = Path(content["train"]["config"]).read_text()
    content["train"]["config"] = str(tmp_path / "logged.cfg")
    logger = '[training.logger]\n@loggers = "spacy-krissel.StepLogger.v1"\npath = null\n\n'
    (tmp_path / "logged.cfg").write_text(
        config.replace("[training.batcher]", f"{logger}[training.batcher]")
    )
    content["rows"] = {
        "full": {"title": "full"},
        "names": {"title": "names", "of": "full", "prototypes": {}},
    }
    content["rows"]["names"]["prototypes"] = {
        "mentions_per_entity": 0,
        "contexts_per_shared_name": 0,
    }
    del content["sets"]["without"]
    found, said = run(output=tmp_path, content=content, overrides={"seeds": [0, 1]})
    assert [line.split(": ")[1] for line in said] == ["training the linker", "linking with"] * 2 + [
        "linking with"
    ] * 2
    figures = found["rows"][0]["sets"]["with"]
    assert set(figures["by_seed"]) == {"0", "1"}
    assert figures["strict"] == pytest.approx(sum(figures["by_seed"].values()) / 2)
    assert found["top_k"] == found["few_shot"] == {}
    norms = found["gradient_norms"]
    # four steps, and one before them
    assert norms.keys() == {"full"} and len(norms["full"]["smoothed"]) == 5
    assert "## Gradient norms" in (tmp_path / "ablation.md").read_text()
    # Its knowledge base is another one, so that none was kept.
    assert not list(tmp_path.rglob("kb"))


@pytest.mark.nightly
def test_sapberts_table_6_trains_with_every_loss(
    configs, toy_overrides, toy_store, toy_gold, tmp_path
):
    """Every loss of the shipped file trains, without a mined mention, and to an encoder of its
    own."""
    few_steps = {
        key: value
        for key, value in toy_overrides["sapbert-small"].items()
        if not key.startswith("paths.")
    }
    few_steps.update({"training.max_steps": 3, "training.eval_frequency": 3})
    few_steps["training.optimizer.learn_rate.warmup_steps"] = 0
    overrides = {
        "train.config": str(EXPERIMENTS / "sapbert" / "configs" / "small.cfg"),
        "train.ontology": str(toy_store.path),
        "train.overrides": few_steps,
        "sets": {"toy": {"gold": str(toy_gold[0]), "ontology": str(toy_store.path)}},
    }
    ablation = read_ablation(EXPERIMENTS / "sapbert" / "configs" / "losses.yml", overrides)
    assert len(ablation.rows) == 10
    found = AblationRun(ablation, tmp_path / "out", say=lambda text: None)()
    assert [row["name"] for row in found["rows"]] == list(ablation.rows)
    encoders = {
        name: (
            tmp_path
            / "out"
            / name
            / "seed-0"
            / "linker"
            / module.PIPELINE
            / "krissel_linker"
            / "model"
        ).read_bytes()
        for name in ablation.rows
    }
    assert len(set(encoders.values())) == 10


@pytest.mark.nightly
def test_seen_entities_and_nil_are_reported(run, tmp_path, toy_ablation, toy_gold, toy_store):
    """A set that says what was trained on, and what its threshold is fitted to."""
    examples = str(toy_gold[1])
    output = out_of_kb(
        toy_store, {"train": examples, "dev": str(toy_gold[0])}, tmp_path / "okb", types=["T184"]
    )
    assert output["removed"]["entities"]
    rest = {"ontology": str(tmp_path / "okb" / "ontology")}
    gold = {
        "gold": str(tmp_path / "okb" / "dev.spacy"),
        "calibration": str(tmp_path / "okb" / "train.spacy"),
        **rest,
    }
    content = {
        **toy_ablation,
        "sets": {"nil": {**gold, "seen": gold["calibration"], "baselines": gold["ontology"]}},
        "curves": {},
    }
    del content["reranker"]
    content["rows"] = {"full": toy_ablation["rows"]["full"]}
    found, _ = run(output=tmp_path / "out", content=content)
    nil, seen = found["nil"]["nil"]["None"]["full"], found["seen"]["nil"]["full"]
    assert nil["aupr"] is not None and len(nil["thresholds"]) == 1
    assert (
        seen["all"]["n"]
        == seen["seen"]["n"]
        + seen["unseen"]["n"]
        + json.loads(
            (tmp_path / "out" / "full" / "seed-0" / "sets" / "nil" / "report.json").read_text()
        )["nil"]["n_gold"]
    )
    assert [row["title"] for row in found["rows"]] == ["full", *BASELINE_TITLES, "memorisation"]
    # The documents that were trained on say the same; NIL is nothing to look up.
    assert 0 < found["rows"][-1]["sets"]["nil"]["strict"] < 1
    curve = found["nil_curves"]["nil"]["full"]
    assert curve["recall"][-1] == 1.0
    assert "of the mentions: nil" in (tmp_path / "out" / "ablation.md").read_text()


@pytest.mark.parametrize("file", ["losses", "nil"])
def test_the_shipped_rows_of_pel_are_valid_and_distinct(configs, file):
    """Every row's overrides fit the config, and no two rows train alike."""
    ablation = read_ablation(EXPERIMENTS / "pel" / "configs" / f"{file}.yml")
    trained = []
    for row in ablation.rows.values():
        config = load_config(
            configs / "pel.cfg", overrides={**ablation.train.overrides, **row.train}
        )
        linker = config["components"]["krissel_linker"]
        registry.resolve({"loss": linker["objective"]["loss"]})
        steps = config["training"]["max_steps"]
        trained.append(json.dumps([linker["objective"], linker["model"], steps], sort_keys=True))
        prototypes = row.prototypes
        assert prototypes.reference_prototypes and not (
            prototypes.names or prototypes.use_references
        )
    assert len(set(trained)) == len(ablation.rows)


def test_the_shipped_rows_of_belhd_are_valid_and_distinct(configs):
    """Every row's overrides fit the config, and no two rows are alike."""
    ablation = read_ablation(EXPERIMENTS / "belhd" / "configs" / "ablation.yml")
    made = []
    for row in ablation.rows.values():
        overrides = {**ablation.train.overrides, **row.train, "paths.encoder": "none"}
        config = load_config(configs / "belhd.cfg", overrides=overrides).interpolate()
        nlp = spacy.blank("en")
        linker = nlp.add_pipe(
            "krissel_linker", config=without_factory(config["components"]["krissel_linker"])
        )
        switches = (str(row.ontology), linker.cfg["context"], row.train.get("training.max_steps"))
        made.append((*switches, vars(linker.objective)["n_shared"], linker.model.name))
        assert (linker.objective.context or "none") == linker.cfg["context"]
    assert len(set(made)) == len(ablation.rows) == 7


def without_factory(config):
    return {key: value for key, value in config.items() if key != "factory"}


@pytest.mark.nightly
def test_baselines_are_added_as_rows(done, run, no_training, no_evaluation, folder, toy_store):
    found, _ = run(overrides={"sets.without.baselines": str(toy_store.path)})
    assert found["rows"][:-4] == done["rows"]
    assert [row["title"] for row in found["rows"][-4:]] == BASELINE_TITLES
    records = read_records(folder / "full" / "seed-0" / "sets" / "without" / "report.links.jsonl")
    for row in found["rows"][-4::2]:
        assert list(row["sets"]) == ["without"] and row["mean"] is None
        right = [is_strict(record) for record in BASELINES[row["name"]](records, toy_store)]
        assert row["sets"]["without"]["strict"] == sum(right) / len(right) > 0
        assert "difference" in row["sets"]["without"]
