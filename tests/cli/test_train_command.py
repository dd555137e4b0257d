"""`krissel train` in one process."""

import errno
import os
import shutil

import pytest
import spacy
from spacy.cli.train import train as spacy_train
from spacy.language import Language

from spacy_krissel.commands.train_pipeline import train
from spacy_krissel.errors import KrisselError


def test_without_a_launcher(run, configs, toy_overrides, tmp_path):
    """`spacy train`: the same files; of a stream it shows `initialize` the beginning alone."""
    overrides = {**toy_overrides["small"], "training.max_epochs": 0}
    options = [part for key, value in overrides.items() for part in (f"--{key}", value)]
    printed = run("train", configs / "small.cfg", "--output", tmp_path / "out", *options)
    assert "Initializing pipeline in" not in printed
    spacy_train(configs / "small.cfg", tmp_path / "plain", overrides=overrides)
    models = [tmp_path / out / "model-last" / "krissel_linker" / "model" for out in ("out", "plain")]
    assert models[0].read_bytes() == models[1].read_bytes()
    assert spacy.load(tmp_path / "out" / "model-best").pipe_names == ["krissel_linker"]


def test_missing_config_is_not_refused(refuse, tmp_path):
    assert "none.cfg" in refuse("train", tmp_path / "none.cfg")


def test_a_launcher_that_says_too_little(refuse, configs, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert "K022" in refuse("train", configs / "small.cfg")


def test_a_training_that_fails_loses_earlier_models(refuse, configs, toy_overrides, trained, tmp_path, monkeypatch):
    """Neither before its first checkpoint nor in the middle of one."""
    out = tmp_path / "out"
    for name in ("model-best", "model-last"):
        shutil.copytree(trained, out / name)

    def contents():
        return {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}

    before = contents()
    options = [part for key, value in toy_overrides["small"].items() for part in (f"--{key}", value)]

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


def test_another_folder_is_replaced_by_a_model(refuse, configs, tmp_path):
    (tmp_path / "model-best").mkdir()
    (tmp_path / "model-best" / "thesis.doc").write_text("years of work")
    assert "K005" in refuse("train", configs / "small.cfg", "--output", tmp_path)
    assert (tmp_path / "model-best" / "thesis.doc").exists()
