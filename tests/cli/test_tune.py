"""`krissel tune`."""

import json

import pytest

pytest.importorskip("faiss")


def test_tune_measures_and_saves_the_chosen_index(made, run, refuse, tmp_path):
    pipeline, metrics = made.path / "linker", tmp_path / "reports" / "tune.json"
    manifest = pipeline / "krissel_linker" / "kb" / "manifest.json"
    before = manifest.read_bytes()
    said = run(
        "tune", pipeline, "--dry-run", "--index", "ivf", "--n-queries", "9", "--metrics", metrics,
        "--queries", made.path / "gold.spacy",
    )  # fmt: skip
    assert (
        "entities R@1" in said
        and "| ivf float16 | nprobe 1 |" in said.replace("**", "")
        and "Nothing was saved" in said
    )
    found = json.loads(metrics.read_text())
    assert found["queries"] == 9 and found["chosen"] in found["trials"] and found["command"]
    assert manifest.read_bytes() == before
    said = run("tune", manifest.parent, "-o", tmp_path / "kb", "--index", "ivf")
    assert f"Saved: {tmp_path / 'kb'}" in said
    assert json.loads((tmp_path / "kb" / "manifest.json").read_text())["tuning"]["ratio"] > 0
    assert "recall" in run("tune", pipeline, "--recall", "2", code=None)
    assert "[K611]" in refuse("tune", tmp_path / "missing")
