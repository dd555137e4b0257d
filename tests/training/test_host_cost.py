"""The benchmark of what a trained view costs the host, and what it counts."""

import gzip
import importlib
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("training_host")


def test_pieces_are_made_once_for_two_forward_passes(
    script, tiny_bert, tmp_path, capsys, monkeypatch
):
    words = (
        "the patient had acute lung injury and cold with fever, in (of) a discharge was ms".split()
    )
    with gzip.open(tmp_path / "texts.jsonl.gz", "wt") as file:
        for i in range(12):
            file.write(json.dumps({"text": " ".join(f"{word} {i}" for word in words * 14)}) + "\n")
    monkeypatch.setattr(script, "REFERENCE_WINDOW", 64)
    script.main(
        tiny_bert, tmp_path / "texts.jsonl.gz", pairs=4, chunk_size=4, warm_up=1, steps=2, layers=2
    )
    found = json.loads(capsys.readouterr().out)
    calls = found["calls per step"]
    assert calls["forward"] == 2 * calls["pad_pieces"] == 2 * calls["backward"] > 4
    assert (
        found["microseconds per view"]["pieces"] > 0
        and found["microseconds per view"]["python"] > 0
    )
