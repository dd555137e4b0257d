"""`krissel train` in one process."""

import spacy


def test_without_a_launcher(run, configs, toy_overrides, tmp_path, trained):
    """`spacy train`: the same files."""
    options = [part for key, value in toy_overrides["small"].items() for part in (f"--{key}", value)]
    printed = run("train", configs / "small.cfg", "--output", tmp_path / "out", *options)
    assert "Initializing pipeline in" not in printed
    model = (tmp_path / "out" / "model-last" / "krissel_linker" / "model").read_bytes()
    assert model == (trained / "krissel_linker" / "model").read_bytes()
    assert spacy.load(tmp_path / "out" / "model-best").pipe_names == ["krissel_linker"]


def test_no_config(run, tmp_path):
    assert "does not exist" in " ".join(run("train", tmp_path / "none.cfg", code=2).replace("│", " ").split())


def test_a_launcher_that_says_too_little(refuse, configs, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    assert "K022" in refuse("train", configs / "small.cfg")
