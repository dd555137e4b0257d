"""`krissel train` in one process."""

import errno
import os
import shutil

import pytest
import spacy
from spacy.cli.train import train as spacy_train
from spacy.language import Language
from spacy.tokens import Doc, DocBin, Span
from spacy.util import load_config
from spacy.vocab import Vocab

from spacy_krissel.commands.train_pipeline import RATE, fit_schedule, train
from spacy_krissel.errors import KrisselError


@pytest.fixture
def write_gold(tmp_path):
    """Writes documents, each of its mentions' ids, to a .spacy file."""

    def write(documents):
        docs = []
        for ids in documents:
            doc = Doc(Vocab(), words=["MS"] * len(ids))
            doc.ents = [Span(doc, i, i + 1, label="X", kb_id=kb_id) for i, kb_id in enumerate(ids)]
            docs.append(doc)
        DocBin(docs=docs).to_disk(tmp_path / "gold.spacy")
        return tmp_path / "gold.spacy"

    return write


def test_without_a_launcher_training_equals_spacy_train(run, configs, toy_overrides, tmp_path):
    """`spacy train`: the same files; of a stream it shows `initialize` the beginning alone."""
    overrides = {
        **toy_overrides["small"],
        "training.max_epochs": 0,
        "training.optimizer.learn_rate.total_steps": 50,
    }
    options = [part for key, value in overrides.items() for part in (f"--{key}", value)]
    printed = run("train", configs / "small.cfg", "--output", tmp_path / "out", *options)
    assert "Initializing pipeline in" not in printed
    spacy_train(configs / "small.cfg", tmp_path / "plain", overrides=overrides)
    models = [
        tmp_path / out / "model-last" / "krissel_linker" / "model" for out in ("out", "plain")
    ]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert spacy.load(tmp_path / "out" / "model-best").pipe_names == ["krissel_linker"]


@pytest.mark.parametrize(
    "settings, expected",
    [
        # Two epochs of two batches: six mentions, one of them of two entities.
        ({"training.max_epochs": 2}, (4, 1)),
        ({"training.max_epochs": 2, "training.max_steps": 3}, (3, 1)),
        ({"training.max_epochs": 0, "training.max_steps": 40}, (40, 10)),
        ({"training.max_epochs": 0, "training.max_steps": 40, f"{RATE}.warmup_steps": 7}, (40, 7)),
        ({"training.max_epochs": 2, f"{RATE}.total_steps": 90}, (90, 6685)),
        # Without an end.
        ({"training.max_epochs": 0}, (26740, 6685)),
    ],
)
def test_the_learning_rate_fits_the_training_length(
    configs, toy_store, write_gold, settings, expected
):
    path = write_gold([("T01", "T02", "T03"), ("T01", "T02"), ("T04", "T01|T02")])
    data = {
        "paths.gold": str(path),
        "paths.ontology": str(toy_store.path),
        "corpora.train.dev_share": 0.0,
    }
    nlp = spacy.blank("en")
    nlp.config = load_config(
        configs / "pel.cfg", {**data, "training.batcher.size": 4, **settings}, interpolate=False
    )
    fit_schedule(nlp, settings)
    rate = nlp.config["training"]["optimizer"]["learn_rate"]
    assert (rate["total_steps"], rate["warmup_steps"]) == expected


@pytest.mark.parametrize("frequency, expected", [(0, 2), (5, 5)])
def test_accuracy_is_measured_once_per_epoch(configs, toy_store, write_gold, frequency, expected):
    """Two batches of three mentions, whatever the number of epochs; at a constant rate too."""
    path = write_gold([("T01", "T02"), ("T04",)])
    for config, max_epochs in (("pel.cfg", 0), ("pel.cfg", 3), ("belhd.cfg", 3)):
        data = {
            "paths.gold": str(path),
            "paths.ontology": str(toy_store.path),
            "corpora.train.dev_share": 0.0,
        }
        size = {
            "training.batcher.size": 1 if config == "belhd.cfg" else 2,
            "training.max_epochs": max_epochs,
        }
        nlp = spacy.blank("en")
        settings = {**data, **size, "training.eval_frequency": frequency}
        nlp.config = load_config(configs / config, settings, interpolate=False)
        fit_schedule(nlp, {})
        assert nlp.config["training"]["eval_frequency"] == expected


def test_a_stream_needs_an_eval_frequency(configs):
    nlp = spacy.blank("en")
    nlp.config = load_config(configs / "pel.cfg", {"training.max_epochs": -1}, interpolate=False)
    with pytest.raises(KrisselError, match=r"K006.*'training.eval_frequency'"):
        fit_schedule(nlp, {})


def test_a_constant_learning_rate_is_left_unchanged(configs):
    nlp = spacy.blank("en")
    nlp.config = load_config(configs / "sapbert.cfg", {"training.max_steps": 7}, interpolate=False)
    before = nlp.config.to_str()
    fit_schedule(nlp, {})
    assert nlp.config.to_str() == before


def test_a_missing_config_is_refused(refuse, tmp_path):
    assert "none.cfg" in refuse("train", tmp_path / "none.cfg")


def test_an_incomplete_launcher_environment_is_refused(refuse, configs, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert "K022" in refuse("train", configs / "small.cfg")


def test_failed_training_keeps_earlier_models(
    refuse, configs, toy_overrides, trained, tmp_path, monkeypatch
):
    """Neither before its first checkpoint nor in the middle of one."""
    out = tmp_path / "out"
    for name in ("model-best", "model-last"):
        shutil.copytree(trained, out / name)

    def contents():
        return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    before = contents()
    options = [
        part for key, value in toy_overrides["small"].items() for part in (f"--{key}", value)
    ]

    def failing(*args, **settings):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(Language, "to_disk", failing)
        said = refuse("train", configs / "small.cfg", "--output", out, *options)
        assert "K026" in said and "model-last" in said and "Input/output error" in said
        assert contents() == before
    with monkeypatch.context() as patch:
        patch.setattr(Language, "to_disk", failing)
        patch.setattr(Language, "update", failing)
        with pytest.raises(KrisselError, match="K026.*Input/output error"):
            train(configs / "small.cfg", out, overrides=toy_overrides["small"])
        assert contents() == before
    with monkeypatch.context() as patch:
        patch.setattr(Language, "initialize", failing)
        with pytest.raises(KrisselError, match="K026.*small.cfg.*Input/output error"):
            train(configs / "small.cfg", out, overrides=toy_overrides["small"])
    assert contents() == before


@pytest.mark.parametrize("own", [False, True])
def test_training_shows_exactly_one_progress_bar(configs, toy_overrides, terminal, own):
    more = (
        {"training.logger": {"@loggers": "spacy.ConsoleLogger.v3", "progress_bar": "train"}}
        if own
        else {}
    )
    steps = {"training.max_steps": 4, "training.eval_frequency": 2}
    train(
        configs / "small.cfg", overrides={**toy_overrides["small"], **steps, **more}, progress=True
    )
    shown = terminal.readouterr().err
    assert ("Training: 100%" in shown and "4/4" in shown and "Evaluating" in shown) is not own
    train(configs / "small.cfg", overrides={**toy_overrides["small"], **steps})
    assert "Training" not in terminal.readouterr().err


def test_a_training_that_never_began_leaves_no_model(refuse, configs, toy_store, tmp_path):
    said = refuse(
        "train", configs / "small.cfg", "-o", tmp_path / "out", "--paths.ontology", toy_store.path
    )
    assert "K608" in said and "--paths.mentions" in said
    assert not list((tmp_path / "out").iterdir())


def test_a_folder_that_is_no_model_is_not_replaced(refuse, configs, tmp_path):
    (tmp_path / "model-best").mkdir()
    (tmp_path / "model-best" / "thesis.doc").write_text("years of work")
    assert "K005" in refuse("train", configs / "small.cfg", "--output", tmp_path)
    assert (tmp_path / "model-best" / "thesis.doc").exists()
