"""`spacy train` with the configs that the project ships, on the toy data."""

import inspect
import json
import shutil
from importlib import import_module

import numpy as np
import pytest
import spacy
from project_files import ROOT, rows_in, settings_of
from spacy.cli.train import train
from spacy.tokens import Doc, DocBin
from spacy.util import load_config
from tiers import nightly

from spacy_krissel.commands.build_prototypes import prototypes
from spacy_krissel.commands.export_encoder import export_encoder
from spacy_krissel.commands.train_pipeline import train as train_whole
from spacy_krissel.corpora.convert import read_docs
from spacy_krissel.errors import KrisselError, KrisselWarning
from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.views import ReferenceParts, View, reference_view

SMALL_NAMES = ROOT / "experiments" / "sapbert" / "configs" / "small.cfg"
ENTITIES = ROOT / "experiments" / "belhd" / "configs" / "entities.cfg"
VIEWS = [View("relapses point to ", "MS", " in this woman"), View("", "lung cancer", "")]


def rows_of(log):
    """The rows of spaCy's table: epoch, step, loss, accuracy in percent."""
    rows = []
    for line in log.splitlines():
        columns = line.split()
        if len(columns) >= 4 and columns[0].isdigit() and columns[1].isdigit():
            rows.append((int(columns[0]), int(columns[1]), float(columns[2]), float(columns[3])))
    return rows


def files(path):
    return {
        file_.relative_to(path).as_posix(): file_.read_bytes()
        for file_ in path.rglob("*")
        if file_.is_file()
    }


@pytest.fixture
def run(configs, toy_overrides, tmp_path, capsys):
    """Trains with a config and overrides. RETURNS: the rows of the table and the output folder."""

    def run(config="small", **overrides):
        changes = {key.replace("__", "."): value for key, value in overrides.items()}
        common = toy_overrides[config if config in toy_overrides else "small"]
        capsys.readouterr()
        path = SMALL_NAMES if config == "sapbert-small" else configs / f"{config}.cfg"
        train(path, tmp_path / "out", overrides={**common, **changes})
        return rows_of(capsys.readouterr().out), tmp_path / "out"

    return run


def test_table_has_loss_and_dev_accuracy(run):
    rows, path = run(training__max_steps=60, training__eval_frequency=20)
    assert [step for _, step, *_ in rows] == [0, 20, 40, 60]
    assert rows[0][2] > 0
    # The loss of a row is the sum over the steps since the last one.
    assert 0 < rows[-1][2] < rows[1][2]
    assert rows[-1][3] > rows[0][3]
    meta = json.loads((path / "model-best" / "meta.json").read_text())
    # model-best is the one that links best.
    assert meta["performance"]["krissel_acc"] == pytest.approx(
        max(accuracy for *_, accuracy in rows) / 100, abs=0.01
    )


def test_no_knowledge_base_is_saved(trained):
    for name in ("model-last", "model-best"):
        linker = trained.parent / name / "krissel_linker"
        assert sorted(path.name for path in linker.iterdir()) == ["cfg", "checksums.json", "model"]
    with pytest.raises(KrisselError, match="K603"):
        nlp = spacy.load(trained)
        doc = nlp.make_doc("a case of flu")
        doc.ents = [doc.char_span(10, 13, label="Disease")]
        nlp(doc)


def test_two_runs_give_the_same_files(run, trained):
    _, path = run()
    again, expected = files(path / "model-last"), files(trained)
    assert again.keys() == expected.keys()
    assert all(again[name] == expected[name] for name in expected if name != "meta.json")
    speedless = [json.loads(found["meta.json"]) for found in (again, expected)]
    for meta in speedless:
        meta["performance"].pop("speed", None)
    assert speedless[0] == speedless[1]


def test_another_seed_gives_another_model(run, trained):
    _, path = run(system__seed=1)
    assert (
        files(path / "model-last")["krissel_linker/model"] != files(trained)["krissel_linker/model"]
    )


@pytest.mark.slow
def test_training_works_with_dropout_and_cached_gradients(run, trained):
    rows, path = run(training__dropout=0.2, components__krissel_linker__objective__chunk_size=3)
    assert rows[-1][2] > 0
    assert (
        files(path / "model-last")["krissel_linker/model"] != files(trained)["krissel_linker/model"]
    )


@pytest.mark.slow
def test_cached_gradients_equal_plain_gradients(run, trained):
    _, path = run(components__krissel_linker__objective__chunk_size=3)
    plain, cached = (
        find_linker(spacy.load(each)).encode(VIEWS) for each in (trained, path / "model-last")
    )
    np.testing.assert_allclose(plain, cached, atol=1e-2)


def test_mentions_in_a_span_group_train_the_same_model(run, trained):
    """Trained on `doc.spans`, and measured on them, as on `doc.ents`."""
    rows, path = run(corpora__train__spans_key="sc")
    assert rows[-1][3] > 0
    assert (
        files(path / "model-last")["krissel_linker/model"] == files(trained)["krissel_linker/model"]
    )


@pytest.mark.slow
def test_demo_config_trains(run, toy_overrides):
    settings = settings_of(".", "demo-train")
    toy = {key: settings[key] for key in settings if key not in toy_overrides["small"]}
    assert len(toy) > 3
    rows, path = run(
        "small",
        training__dropout=0.3,
        **{key.replace(".", "__"): value for key, value in toy.items()},
    )
    assert rows[-1][:2] >= (0, 20) and rows[-1][2] > 0
    assert find_linker(spacy.load(path / "model-last")).encode(VIEWS).shape == (2, 16)


def test_transformer_config_trains(run, tiny_bert):
    pytest.importorskip("torch")
    settings = {
        "training__max_steps": 6,
        "training__eval_frequency": 3,
        "training__optimizer__learn_rate": 0.01,
    }
    rows, path = run("transformer", paths__encoder=str(tiny_bert), **settings)
    assert [step for _, step, *_ in rows] == [0, 3, 6]
    assert all(loss > 0 for _, _, loss, _ in rows)
    linker = find_linker(spacy.load(path / "model-last"))
    trained = linker.encode(VIEWS)
    assert not (path / "model-last" / "krissel_linker" / "kb").exists()
    np.testing.assert_allclose(np.linalg.norm(trained, axis=1), 1, atol=1e-3)
    from spacy_krissel.layers.hf.transformer import TransformerEncoder

    fresh = TransformerEncoder(str(tiny_bert), window=64, pooling="mean", normalize=True)
    fresh.initialize()
    assert not np.allclose(fresh.predict(VIEWS), trained, atol=1e-2)


@pytest.mark.slow
def test_small_references_config_trains_and_links(run, toy_store, toy_shards, tmp_path):
    """From training to a linked doc: both encoders learn, and the knowledge base has a reference
    for every entity."""
    parts = {
        f"components.krissel_linker.model.{part}.{name}": value
        for part in ("mention", "reference")
        for name, value in {"width": 16, "rows": 2048, "context_rows": 1024, "hidden": 8}.items()
    }
    rows, path = run(
        "small-references", training__max_steps=60, training__eval_frequency=20, **parts
    )
    assert 0 < rows[-1][2] < rows[1][2] and rows[-1][3] > 0
    described = prototypes(
        path / "model-last",
        tmp_path / "pipeline",
        toy_store.path,
        toy_shards,
        reference_prototypes=True,
        progress=False,
    )
    assert described["references"] == {"entities": 12, "weight": 0.1}
    assert described["prototype_kinds"]["reference"] == 12
    nlp = spacy.load(tmp_path / "pipeline")
    linker = find_linker(nlp)
    expected = linker.encode([reference_view(toy_store.get("T01"))])[0]
    np.testing.assert_allclose(linker.kb.prototypes.references.vectors[0], expected, atol=1e-6)
    # Never mined: known by its name and its reference alone.
    doc = nlp.make_doc("A child with rickets was seen.")
    doc.ents = [doc.char_span(13, 20, label="Disease")]
    assert nlp(doc).ents[0].kb_id_ == "T12"
    # Other parts than in training are other references.
    override = {"components.krissel_linker.model.types": False}
    with pytest.raises(KrisselError, match="K522"):
        spacy.load(tmp_path / "pipeline", config=override)


@pytest.mark.nightly
def test_krissbert_config_trains_both_encoders(run, tiny_bert):
    """`krissbert.cfg` with a tiny encoder: two steps, in each of which both encoders move."""
    model = "components__krissel_linker__model"
    rows, path = run(
        "krissbert",
        paths__encoder=str(tiny_bert),
        training__max_steps=2,
        training__eval_frequency=1,
        training__optimizer__learn_rate__initial_rate=0.01,
        training__optimizer__learn_rate__warmup_steps=0,
        **{f"{model}__reference__window": 64},
    )
    assert [step for _, step, *_ in rows] == [0, 1, 2] and all(loss > 0 for _, _, loss, _ in rows)
    linker = find_linker(spacy.load(path / "model-last"))
    assert linker.reference_parts() == ReferenceParts()
    from spacy_krissel.layers.hf.transformer import TransformerEncoder

    fresh = TransformerEncoder(str(tiny_bert), window=64)
    fresh.initialize()
    reference = View("T047", "multiple sclerosis; ms", "", reference=True)
    for view in (VIEWS[0], reference):
        assert not np.allclose(fresh.predict([view]), linker.encode([view]), atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "cpu, rate", [({}, ""), (settings_of("experiments/sapbert", "align"), "__initial_rate")]
)
def test_self_alignment_trains_on_synonym_pairs(run, tiny_bert, cpu, rate):
    """With a tiny encoder: two steps on pairs of synonyms."""
    settings = {
        "training__max_steps": 2,
        "training__eval_frequency": 1,
        f"training__optimizer__learn_rate{rate}": 0.01,
    }
    kept = {
        key.replace(".", "__"): value
        for key, value in cpu.items()
        if not key.startswith("training.")
    }
    if rate:
        schedule = {**cpu["training.optimizer.learn_rate"], "initial_rate": 0.01, "warmup_steps": 0}
        settings = {**settings, **kept, "training__optimizer__learn_rate": schedule}
        del settings[f"training__optimizer__learn_rate{rate}"]
    rows, path = run("sapbert", paths__encoder=str(tiny_bert), **settings)
    assert [step for _, step, *_ in rows] == [0, 1, 2] and all(loss > 0 for _, _, loss, _ in rows)
    linker = find_linker(spacy.load(path / "model-last"))
    from spacy_krissel.layers.hf.transformer import TransformerEncoder

    fresh = TransformerEncoder(str(tiny_bert), window=25, normalize=True, markers=False)
    fresh.initialize()
    assert not np.allclose(fresh.predict(VIEWS), linker.encode(VIEWS), atol=1e-2)
    np.testing.assert_allclose(np.linalg.norm(linker.encode(VIEWS), axis=1), 1, atol=1e-3)
    # The names that it learned from are not kept in the pipeline.
    assert "multiple sclerosis" not in json.loads(
        (path / "model-last" / "vocab" / "strings.json").read_text()
    )


@pytest.mark.slow
def test_small_encoder_learns_by_self_alignment(run):
    rows, path = run("sapbert-small", training__max_steps=60, training__eval_frequency=20)
    assert [step for _, step, *_ in rows] == [0, 20, 40, 60]
    assert 0 < rows[-1][2] < rows[1][2]
    linker = find_linker(spacy.load(path / "model-last"))
    name, synonym, other = linker.encode(
        [View("", name, "") for name in ("acute coryza", "viral rhinitis", "megrim")]
    )
    assert name @ synonym > name @ other


@pytest.mark.nightly
def test_krissbert_starts_from_an_aligned_encoder(configs, toy_overrides, tiny_bert, tmp_path):
    """`sapbert.cfg`, its encoder written out, and `krissbert.cfg` from there: both of its encoders
    begin with it."""
    settings = {"training.max_steps": 2, "training.eval_frequency": 1}
    aligned = {**settings, "paths.encoder": str(tiny_bert), "training.optimizer.learn_rate": 0.01}
    train(
        configs / "sapbert.cfg",
        tmp_path / "sapbert",
        overrides={**toy_overrides["sapbert"], **aligned},
    )
    export_encoder(tmp_path / "sapbert" / "model-last", tmp_path / "encoder")
    still = {
        **settings,
        "paths.encoder": str(tmp_path / "encoder"),
        "training.optimizer.learn_rate.initial_rate": 0.0,
        "components.krissel_linker.model.reference.window": 64,
    }
    train(
        configs / "krissbert.cfg",
        tmp_path / "krissbert",
        overrides={**toy_overrides["krissbert"], **still},
    )
    linker = find_linker(spacy.load(tmp_path / "krissbert" / "model-last"))
    from spacy_krissel.layers.hf.transformer import TransformerEncoder

    aligned_encoder, plain = (
        TransformerEncoder(str(path), window=64) for path in (tmp_path / "encoder", tiny_bert)
    )
    for encoder in (aligned_encoder, plain):
        encoder.initialize()
    for view in (VIEWS[0], View("T047", "multiple sclerosis; ms", "", reference=True)):
        np.testing.assert_allclose(
            linker.encode([view]), aligned_encoder.predict([view]), atol=0.02
        )
        assert not np.allclose(linker.encode([view]), plain.predict([view]), atol=0.1)


@pytest.mark.slow
def test_fine_tuning_runs_its_epochs(configs, toy_files, toy_store, tiny_bert, tmp_path, capsys):
    """`sapbert-fine-tune.cfg` on the toy gold corpus: as many epochs as it says, over pairs that
    are shuffled."""
    gold = DocBin(store_user_data=True)
    for doc in read_docs(toy_files / "gold.pubtator", spacy.blank("en")):
        gold.add(doc)
    gold.to_disk(tmp_path / "gold.spacy")
    overrides = {
        "paths.encoder": str(tiny_bert),
        "paths.ontology": str(toy_store.path),
        "paths.gold": str(tmp_path / "gold.spacy"),
        "corpora.train.dev_share": 0.4,
        "training.batcher.pairs": 8,
        "training.eval_frequency": 1,
        "training.optimizer.learn_rate": 0.01,
    }
    train(configs / "sapbert-fine-tune.cfg", tmp_path / "out", overrides=overrides)
    rows = rows_of(capsys.readouterr().out)
    assert {epoch for epoch, *_ in rows} == {0, 1, 2} and all(loss > 0 for _, _, loss, _ in rows)
    sizes = [len([row for row in rows if row[0] == epoch]) for epoch in range(3)]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.slow
def test_small_encoder_starts_from_an_aligned_one(configs, toy_overrides, tmp_path):
    train(SMALL_NAMES, tmp_path / "names", overrides=toy_overrides["sapbert-small"])
    config = load_config(configs / "small.cfg", overrides=toy_overrides["small"], interpolate=False)
    config["initialize"]["components"]["krissel_linker"]["encoder"] = {
        "@misc": "spacy-krissel.EncoderFromPipeline.v1",
        "path": str(tmp_path / "names" / "model-last"),
    }
    config["training"].update(max_steps=1, eval_frequency=1)
    config["training"]["optimizer"]["learn_rate"] = 0.0
    config.to_disk(tmp_path / "small.cfg")
    train(tmp_path / "small.cfg", tmp_path / "out")
    aligned, started = (
        find_linker(spacy.load(tmp_path / folder / "model-last")).encode(
            [View("", "lung cancer", "")]
        )
        for folder in ("names", "out")
    )
    np.testing.assert_allclose(aligned, started, atol=1e-6)


MINER = {"@misc": "spacy-krissel.HardPairMiner.v1", "margin": -0.2}
# All losses, those of SapBERT's Table 6 by `--code` too.
LOSSES = (
    "FocalLoss", "ProxyLoss", "SoftmaxLoss", "MultiSimilarity",
    "CosinePairs", "MaxMarginTriplet", "NCA", "LiftedStructure", "Circle",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("miner", [MINER, None])
def test_config_selects_any_loss(configs, toy_overrides, tmp_path, capsys, loss, miner):
    """The loss is a block of the config, and its settings are those of Table 9 where none are
    given."""
    config = load_config(SMALL_NAMES, overrides=toy_overrides["sapbert-small"], interpolate=False)
    import_module("lab.losses")
    objective = config["components"]["krissel_linker"]["objective"]
    objective.update(loss={"@losses": f"spacy-krissel.{loss}.v1"}, miner=miner)
    config["training"].update(max_steps=2, eval_frequency=1)
    config.to_disk(tmp_path / "loss.cfg")
    train(tmp_path / "loss.cfg", tmp_path / "out")
    rows = rows_of(capsys.readouterr().out)
    assert [step for _, step, *_ in rows] == [0, 1, 2] and rows[0][2] > 0


def test_sapbert_config_has_the_papers_values(configs):
    config = load_config(configs / "sapbert.cfg", interpolate=False)
    linker = config["components"]["krissel_linker"]
    assert {name: linker["model"][name] for name in ("window", "pooling", "mixed_precision")} == {
        "window": 25,
        "pooling": "cls",
        "mixed_precision": True,
    }
    loss = linker["objective"]["loss"]
    assert (loss["alpha"], loss["beta"], loss["epsilon"]) == (2, 50, 0.5)
    assert linker["objective"]["miner"]["margin"] == -0.2
    assert (
        config["corpora"]["train"]["pairs_per_entity"] == 50
        and config["corpora"]["train"]["lowercase"]
    )
    assert 2 * config["training"]["batcher"]["pairs"] == 512
    optimizer = config["training"]["optimizer"]
    assert (optimizer["learn_rate"], optimizer["L2"], optimizer["L2_is_weight_decay"]) == (
        2e-5,
        1e-2,
        True,
    )
    # Both configs train by one objective, about another cosine.
    small = load_config(SMALL_NAMES, interpolate=False)["components"]["krissel_linker"]
    assert small["objective"]["loss"] == {**loss, "epsilon": 0.2}
    assert small["objective"]["miner"] == linker["objective"]["miner"]


def test_krissbert_config_has_the_papers_values(configs):
    config = load_config(configs / "krissbert.cfg", interpolate=False)
    linker = config["components"]["krissel_linker"]
    assert {
        name: linker["objective"][name] for name in ("p_mask", "p_replace", "alpha", "beta")
    } == {
        "p_mask": 0.2,
        "p_replace": 0.2,
        "alpha": 0.5,
        "beta": 0.5,
    }
    assert (
        linker["objective"]["loss"]["temperature"]
        == linker["objective"]["reference_loss"]["temperature"]
        == 1.0
    )
    mention = linker["model"]["mention"]
    assert (mention["window"], mention["pooling"], mention["normalize"]) == (64, "cls", False)
    assert mention["transformer_config"]["hidden_dropout_prob"] == 0.1
    assert config["paths"]["encoder"] == "microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract"
    assert config["corpora"]["train"]["mentions_per_entity"] == 3
    assert 2 * config["training"]["batcher"]["pairs"] == 512
    assert config["training"]["optimizer"]["@optimizers"] == "Adam.v1"
    assert config["training"]["optimizer"]["learn_rate"]["initial_rate"] == 1e-5
    assert inspect.signature(prototypes).parameters["mentions_per_entity"].default == 16


@pytest.mark.slow
def test_reranker_trains_and_keeps_the_linker(
    configs, toy_overrides, toy_store, toy_shards, trained, tmp_path, capsys
):
    """Over a linker that is sourced, frozen and annotating, and comes out as it went in."""
    linker = tmp_path / "linker"
    prototypes(trained, linker, toy_store.path, toy_shards, progress=False)
    changes = {
        "paths.linker": str(linker),
        "paths.ontology": str(toy_store.path),
        "paths.mentions": str(toy_shards),
        "components.krissel_reranker.model.encoder.rows": 2048,
        "components.krissel_reranker.model.encoder.context_rows": 1024,
        "components.krissel_reranker.objective.n_candidates": 8,
        "components.krissel_reranker.temperature": 1.0,
        "corpora.train.held_out": 0.3,
        "training.batcher.size": 16,
        "training.max_steps": 20,
        "training.eval_frequency": 10,
    }
    capsys.readouterr()
    train(configs / "reranker.cfg", tmp_path / "out", overrides=changes)
    rows = rows_of(capsys.readouterr().out)
    assert [step for _, step, *_ in rows] == [0, 10, 20]
    assert 0 < rows[-1][2] < rows[1][2]
    before, after = files(linker), files(tmp_path / "out" / "model-last")
    assert all(
        after[name] == data for name, data in before.items() if name.startswith("krissel_linker/")
    )
    assert {"krissel_reranker/model", "krissel_reranker/entities/manifest.json"} <= set(after)
    assert not any(name.startswith("krissel_reranker/kb") for name in after)


@pytest.fixture
def pairs_overrides(toy_store, toy_shards, trained, tiny_bert, tmp_path):
    """The overrides that train `reranker-pairs.cfg` for two steps over a linker at
    `tmp_path / "linker"`."""
    prototypes(trained, tmp_path / "linker", toy_store.path, toy_shards, progress=False)
    return {
        "paths.linker": str(tmp_path / "linker"),
        "paths.ontology": str(toy_store.path),
        "paths.mentions": str(toy_shards),
        "paths.encoder": str(tiny_bert),
        "components.krissel_reranker.model.window": 24,
        "components.krissel_reranker.model.candidate_window": 24,
        "components.krissel_reranker.objective.n_candidates": 4,
        "corpora.train.held_out": 0.3,
        "training.max_steps": 2,
        "training.eval_frequency": 1,
    }


@pytest.mark.nightly
@pytest.mark.parametrize("can_link", [True, False])
def test_saved_rerankers_link_or_copy_the_linkers_knowledge_base(
    configs, pairs_overrides, tmp_path, monkeypatch, can_link
):
    """Saved rerankers share files through links, and are complete without the linker."""
    if not can_link:
        monkeypatch.setattr("os.link", lambda *_: (_ for _ in ()).throw(OSError("another disk")))
    train_whole(configs / "reranker-pairs.cfg", tmp_path / "out", overrides=pairs_overrides)
    linker = tmp_path / "linker" / "krissel_linker" / "kb"
    for name in ("model-last", "model-best"):
        kb = tmp_path / "out" / name / "krissel_linker" / "kb"
        for file_ in ("vectors.npy", "prototypes.arrow", "entities.arrow"):
            assert (kb / file_).samefile(linker / file_) is can_link
        assert files(kb) == files(linker)
    shutil.rmtree(tmp_path / "linker")
    nlp = spacy.load(tmp_path / "out" / "model-last")
    assert (
        len(find_linker(nlp).kb)
        and nlp.get_pipe("krissel_reranker").cfg["top_k"]
        == find_linker(nlp).n_candidates_kept()
        == 100
    )
    # A package copies it whole.
    shutil.copytree(tmp_path / "out" / "model-last", tmp_path / "package")
    assert not (tmp_path / "package" / "krissel_linker" / "kb" / "vectors.npy").samefile(
        tmp_path / "out" / "model-last" / "krissel_linker" / "kb" / "vectors.npy"
    )


def test_reranker_config_has_krissberts_values(configs):
    config = load_config(configs / "reranker-pairs.cfg", interpolate=False)
    reranker = config["components"]["krissel_reranker"]
    assert reranker["top_k"] == 100
    model = reranker["model"]
    assert (
        model["window"],
        model["bound"],
        model["transformer_config"]["hidden_dropout_prob"],
    ) == (64, None, 0.1)
    assert config["paths"]["encoder"] == "microsoft/BiomedNLP-BiomedBERT-base-uncased-abstract"
    assert (
        config["corpora"]["train"]["mentions_per_entity"] == 1
        and config["corpora"]["train"]["names_per_entity"] == 0
    )
    assert config["training"]["max_epochs"] == -1
    assert config["training"]["optimizer"]["learn_rate"]["initial_rate"] == 1e-5


def pels_table_6(training):
    """Epochs, batch size, learning rate, its share of warm-up, clipping and eps."""
    optimizer, rate = training["optimizer"], training["optimizer"]["learn_rate"]
    size = training["batcher"]["size"] * training["accumulate_gradient"]
    warmup = rate["warmup_steps"] / rate["total_steps"]
    return (
        training["max_epochs"],
        size,
        rate["initial_rate"],
        warmup,
        optimizer["clip_norm"],
        optimizer["eps"],
    )


def test_pel_config_has_the_papers_values(configs):
    """Table 6 and appendix A."""
    config = load_config(configs / "pel.cfg", interpolate=False)
    linker, training = config["components"]["krissel_linker"], config["training"]
    model, objective = linker["model"], linker["objective"]
    assert [model[side]["window"] for side in ("mention", "reference")] == [128, 128]
    parts = ("title_first", "aliases", "tree_numbers", "types", "definition")
    assert [model[part] for part in parts] == [True, False, False, True, True]
    assert (objective["loss"]["alpha"], objective["loss"]["delta"]) == (32, 0)
    assert (objective["fgsm_weight"], objective["fgsm_epsilon"]) == (1, 0.01)
    assert (objective["n_negatives"], objective["share_negatives"], objective["hard_share"]) == (
        32,
        False,
        0.5,
    )
    assert pels_table_6(training) == (7, 32, 1e-5, 0.25, 1, 1e-6)


def test_pel_ranker_config_has_the_papers_values(configs):
    """Table 6 and appendices A and B."""
    config = load_config(configs / "pel-ranker.cfg", interpolate=False)
    ranker, training = config["components"]["krissel_reranker"], config["training"]
    assert (ranker["top_k"], ranker["max_names"], ranker["tree_numbers"]) == (16, 1, False)
    model, objective = ranker["model"], ranker["objective"]
    assert model["window"] + model["candidate_window"] == 256
    assert (model["pooling"], model["bound"]) == ("mean", None)
    assert (objective["n_candidates"], objective["fgsm_weight"], objective["fgsm_epsilon"]) == (
        16,
        1,
        0.01,
    )
    assert pels_table_6(training) == (5, 4, 2e-5, 0.2, 1, 1e-6)


def test_belhd_config_has_the_papers_values(configs):
    """Section 4.2 and appendix E; where these say nothing, the released code."""
    config = load_config(configs / "belhd.cfg", interpolate=False)
    linker, training = config["components"]["krissel_linker"], config["training"]
    objective = linker["objective"]
    assert (linker["context"], linker["model"]["width"]) == ("sentence", 128)
    assert (objective["n_candidates"], objective["n_shared"], objective["refresh_every"]) == (
        16,
        16,
        "epoch",
    )
    assert (objective["loss"]["positives"], objective["loss"]["temperature"]) == ("sum", 1)
    assert (training["max_epochs"], training["accumulate_gradient"]) == (20, 8)
    assert training["optimizer"]["learn_rate"] == 1e-5


def test_oslat_configs_have_the_papers_values(configs):
    """Appendix B; widths, scale and schedule are those of the released code."""
    names = ("oslat-alignment", "oslat", "oslat-classifier")
    stages = [load_config(configs / f"{name}.cfg", interpolate=False) for name in names]
    pipes = [next(iter(stage["components"].values())) for stage in stages]
    assert [pipe["objective"]["n_negatives"] for pipe in pipes] == [50, 100, 100]
    assert [stage["training"]["max_epochs"] for stage in stages] == [20, 10, 10]
    rates = [stage["training"]["optimizer"]["learn_rate"] for stage in stages]
    assert [(rate["factor"], rate["warmup_steps"]) for rate in rates] == [
        (2e-3, 100),
        (2e-4, 100),
        (2e-4, 100),
    ]
    assert [pipe["objective"]["loss"]["temperature"] for pipe in pipes[:2]] == [0.07, 0.07]
    batchers = [stage["training"]["batcher"] for stage in stages]
    assert (batchers[0]["pairs"], batchers[1]["size"], batchers[2]["size"]) == (32, 32, 32)
    assert (pipes[0]["model"]["hidden"], pipes[0]["model"]["width"]) == (128, 128)
    assert all(pipe["model"]["scale"] == pytest.approx(768**-0.5, abs=1e-4) for pipe in pipes[1:])
    focal = pipes[2]["objective"]["presence_loss"]
    assert (pipes[2]["model"]["hidden"], focal["alpha"], focal["gamma"]) == (128, 0.25, 2)


def test_gradient_accumulation_keeps_pairs_together(run, recwarn):
    """spaCy takes a batch apart by length."""
    rows, _ = run(training__accumulate_gradient=4)
    assert rows[-1][1] == 20
    assert not [warning for warning in recwarn if issubclass(warning.category, KrisselWarning)]


def test_replacement_without_an_ontology_warns(configs, toy_overrides, tmp_path):
    from spacy.training.initialize import init_nlp
    from spacy.training.loop import train as train_loop

    config = load_config(configs / "small.cfg", overrides=toy_overrides["small"], interpolate=False)
    del config["initialize"]["components"]["krissel_linker"]["ontology"]
    config["components"]["krissel_linker"]["objective"].update(p_mask=0.0, p_replace=1.0)
    with pytest.warns(KrisselWarning, match="KW626"):
        nlp = init_nlp(config, use_gpu=-1)
    train_loop(nlp, tmp_path)


@pytest.mark.parametrize(
    "setting, value, message",
    [
        ("corpora.train.held_out", 1.5, "K006.*held_out"),
        ("paths.mentions", "missing", "K001.*krissel mine"),
        ("paths.ontology", "missing", "K001.*krissel ontology"),
    ],
)
def test_invalid_settings_raise(configs, toy_overrides, tmp_path, setting, value, message):
    with pytest.raises(KrisselError, match=message):
        train(configs / "small.cfg", tmp_path, overrides={**toy_overrides["small"], setting: value})


@pytest.fixture
def pel_overrides(tiny_bert, toy_store, toy_files, tmp_path):
    """Overrides of `pel.cfg` for the toy gold corpus."""
    gold = DocBin(store_user_data=True)
    for doc in read_docs(toy_files / "gold.pubtator", spacy.blank("en")):
        gold.add(doc)
    gold.to_disk(tmp_path / "gold.spacy")
    encoders = ("mention", "reference")
    return {
        "paths.encoder": str(tiny_bert),
        "paths.ontology": str(toy_store.path),
        "paths.gold": str(tmp_path / "gold.spacy"),
        **{f"components.krissel_linker.model.{encoder}.window": 32 for encoder in encoders},
        "components.krissel_linker.objective.n_negatives": 4,
        "components.krissel_linker.objective.refresh_every": 2,
        "components.krissel_linker.objective.fgsm_weight": 1.0,
        "corpora.train.dev_share": 0.4,
        "training.max_epochs": 0,
        "training.max_steps": 6,
        "training.eval_frequency": 3,
        "training.batcher.size": 4,
        "training.optimizer.learn_rate": 0.01,
        "training.logger.path": str(tmp_path / "log" / "steps.jsonl"),
    }


SMALL_PEL = rows_in("pel/configs/losses.yml")


@pytest.mark.slow
@pytest.mark.parametrize(
    "config, cpu", [("pel.cfg", {}), nightly("pel.cfg", SMALL_PEL), (ENTITIES, {})]
)
def test_retrieval_configs_train(config, cpu, configs, pel_overrides, toy_store, tmp_path, capsys):
    """Trained with hard negatives and adversarial examples; the knowledge base has references
    alone."""
    if "training.optimizer.learn_rate" in cpu:
        cpu = {key: value for key, value in cpu.items() if key != "training.optimizer.learn_rate"}
    train(configs / config, tmp_path / "out", overrides={**cpu, **pel_overrides})
    rows = rows_of(capsys.readouterr().out)
    assert [step for _, step, *_ in rows] == [0, 3, 6] and all(loss > 0 for _, _, loss, _ in rows)
    steps = [
        json.loads(line) for line in (tmp_path / "log" / "steps.jsonl").read_text().splitlines()
    ]
    assert [step["step"] for step in steps] == list(range(7))
    assert all(step["krissel_linker"].keys() == {"loss", "gradient_norm"} for step in steps)
    assert all(step["krissel_linker"]["gradient_norm"] > 0 for step in steps)
    # The loss of a row is the sum over the steps since the last one.
    losses = [step["krissel_linker"]["loss"] for step in steps]
    assert rows[1][2] == pytest.approx(sum(losses[1:4]), abs=0.01)
    described = prototypes(
        tmp_path / "out" / "model-last", tmp_path / "linker", toy_store.path, names=False,
        mentions_per_entity=0,
        use_references=False, reference_prototypes=True, progress=False,
    )  # fmt: skip
    assert described["prototype_kinds"] == {"reference": len(toy_store)}
    doc = spacy.load(tmp_path / "linker").make_doc("relapses point to MS in this woman")
    doc.ents = [doc.char_span(18, 20, label="Disease")]
    linker = find_linker(spacy.load(tmp_path / "linker"))
    assert linker(doc).ents[0].kb_id_ in toy_store
    view = reference_view(toy_store.get("T01"), linker.reference_parts())
    assert view.left == "" and view.mention.split(";")[0] == "multiple sclerosis"


@pytest.mark.slow
@pytest.mark.parametrize("cpu", [{}, nightly(settings_of("experiments/pel", "nil-candidate", 3))])
def test_pel_ranker_trains_and_keeps_the_linker(cpu, configs, pel_overrides, toy_store, tmp_path):
    """Over a trained bi-encoder, which stays as it is, with NIL as a candidate."""
    train(
        configs / "pel.cfg", tmp_path / "out", overrides={**pel_overrides, "training.max_steps": 2}
    )
    prototypes(
        tmp_path / "out" / "model-last", tmp_path / "linker", toy_store.path, names=False,
        mentions_per_entity=0,
        use_references=False, reference_prototypes=True, progress=False,
    )  # fmt: skip
    overrides = {
        key: value for key, value in pel_overrides.items() if not key.startswith("components.")
    }
    del overrides["training.logger.path"]
    overrides.update(
        {
            "paths.linker": str(tmp_path / "linker"),
            "components.krissel_reranker.model.window": 32,
            "components.krissel_reranker.model.candidate_window": 32,
            "components.krissel_reranker.objective.p_nil": 0.4,
        }
    )
    components = {key: value for key, value in cpu.items() if key.startswith("components.")}
    train(configs / "pel-ranker.cfg", tmp_path / "ranked", overrides={**components, **overrides})
    linker, nlp = spacy.load(tmp_path / "linker"), spacy.load(tmp_path / "ranked" / "model-last")
    assert nlp.get_pipe("krissel_linker").to_bytes() == linker.get_pipe("krissel_linker").to_bytes()
    assert nlp.get_pipe("krissel_reranker").cfg["nil_score"] is not None

    def scores(nlp):
        doc = nlp.make_doc("relapses point to MS in this woman")
        doc.ents = [doc.char_span(18, 20, label="Disease")]
        for _, pipe in nlp.pipeline:
            doc = pipe(doc)
        return {each["id"]: each["score"] for each in doc.ents[0]._.krissel_candidates}

    before, after = scores(linker), scores(nlp)
    # The linker keeps as many candidates as the re-ranker reads.
    assert len(before) == 5 < len(after) and before.keys() < after.keys()
    assert before != {id_: after[id_] for id_ in before}


@pytest.mark.slow
@pytest.mark.parametrize("cpu", [{}, nightly(rows_in("belhd/configs/ablation.yml"))])
def test_belhd_config_trains_and_links(cpu, configs, pel_overrides, toy_store, tmp_path, capsys):
    """Trained on documents; the knowledge base has names alone, at the projection's width."""
    kept = {key: value for key, value in pel_overrides.items() if not key.startswith("components.")}
    del kept["training.optimizer.learn_rate"]
    overrides = {
        **kept,
        "components.krissel_linker.model.width": 16,
        "components.krissel_linker.model.encoder.window": 32,
        "components.krissel_linker.objective.n_candidates": 4,
        "components.krissel_linker.objective.refresh_every": 2,
        "training.accumulate_gradient": 2,
    }
    train(configs / "belhd.cfg", tmp_path / "out", overrides={**cpu, **overrides})
    rows = rows_of(capsys.readouterr().out)
    assert [step for _, step, *_ in rows] == [0, 3, 6] and all(loss > 0 for _, _, loss, _ in rows)
    described = prototypes(
        tmp_path / "out" / "model-last", tmp_path / "linker", toy_store.path, mentions_per_entity=0,
        class_names=False,
        progress=False,
    )  # fmt: skip
    assert described["prototype_kinds"].keys() == {"name"}
    nlp = spacy.load(tmp_path / "linker")
    linker = find_linker(nlp)
    assert linker.kb.entity_vector_length == 16 and linker.cfg["context"] == "sentence"
    doc = nlp.make_doc("relapses point to MS and a cold")
    doc.ents = [doc.char_span(18, 20, label="Disease"), doc.char_span(27, 31, label="Disease")]
    assert all(ent.kb_id_ in toy_store for ent in linker(doc).ents)


@pytest.mark.slow
def test_supervised_config_trains_on_gold_alone(
    configs, toy_overrides, toy_files, toy_store, tmp_path
):
    """Trained on gold documents of several mentions, which are its only prototypes."""
    nlp = spacy.blank("en")
    gold = DocBin(store_user_data=True)
    docs = list(read_docs(toy_files / "gold.pubtator", nlp))
    for doc in docs:
        doc.user_data.clear()
    for copy in range(8):
        joined = Doc.from_docs([doc for i, doc in enumerate(docs) if (i + copy) % 2])
        joined.user_data["krissel_id"] = f"doc {copy}"
        gold.add(joined)
    gold.to_disk(tmp_path / "gold.spacy")
    few_steps = {
        key: value
        for key, value in toy_overrides["small"].items()
        if key
        not in (
            "paths.mentions",
            "corpora.train.held_out",
            "components.krissel_linker.objective.p_replace",
        )
    }
    overrides = {
        **few_steps,
        "paths.gold": str(tmp_path / "gold.spacy"),
        "corpora.train.dev_share": 0.4,
    }
    train(configs / "supervised.cfg", tmp_path / "out", overrides=overrides)
    described = prototypes(
        tmp_path / "out" / "model-best", tmp_path / "linker", toy_store.path,
        gold=[tmp_path / "gold.spacy"],
        names=False, mentions_per_entity=0, progress=False,
    )  # fmt: skip
    assert set(described["prototype_kinds"]) == {"gold"} and described["entities"] == len(toy_store)
