"""The demo of README's first command at toy size: its commands as they stand, with few steps of
training."""

import json

import spacy
from command_line import invoke, run_commands
from project_files import ROOT

FEW = "--training.max_steps 20 --training.eval_frequency 20 --corpora.train.limit 2000"


def test_the_demo_is_built_trained_evaluated_and_links(tmp_path, monkeypatch):
    for folder in ("assets", "configs"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    run_commands(ROOT, "demo-data", "demo-train", "demo-evaluate", extras=["", "", "", FEW, "", ""])
    pipeline = tmp_path / "training" / "demo" / "pipeline"
    found = json.loads((tmp_path / "metrics" / "demo.json").read_text(encoding="utf8"))
    assert found["n"] >= 400 and 0 < found["strict"] < 1
    assert (
        spacy.load(pipeline)
        .get_pipe("krissel_linker")
        .kb.description()["prototype_kinds"]["mention"]
        > 1000
    )
    linked = invoke("link", pipeline, "corpus/demo/gold.spacy", "-o", "links.jsonl")
    assert linked.exit_code == 0, linked.output
    lines = (tmp_path / "links.jsonl").read_text(encoding="utf8").splitlines()
    mentions = [mention for line in lines for mention in json.loads(line)["mentions"]]
    assert len(mentions) >= found["n"] and any(mention["kb_id"] for mention in mentions)
