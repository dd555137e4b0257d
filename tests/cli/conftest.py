import json
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import invoke


@pytest.fixture(scope="session")
def run():
    """Runs a command; the exit code must be `code`, or 1 or 2 for None. RETURNS: what was printed,
    errors included."""

    def run(*args, code=0):
        result = invoke(*args)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == code if code is not None else result.exit_code in (1, 2), (
            result.output
        )
        return result.output

    return run


@pytest.fixture(scope="session")
def refuse(run):
    """Runs a command that must end with a coded error, its exit code for errors and no traceback.
    RETURNS: what was printed."""

    def refuse(*args):
        # `verify` ends with 1 if it has findings.
        output = run(*args, code=2 if args[0] == "verify" else 1)
        assert "✘ [K" in output and "Traceback" not in output
        return " ".join(output.split())

    return refuse


class Made(NamedTuple):
    """Files made by a chain of commands, and the printed output of each."""

    path: Path
    printed: dict


@pytest.fixture(scope="session")
def made(run, toy_files, configs, toy_overrides, make_once):
    """ontology → convert → mine → sample → spacy train → prototypes → evaluate → link, on the toy
    data."""

    def make(path):
        printed = run_chain(path, run, toy_files, configs, toy_overrides)
        (path / "printed.json").write_text(json.dumps(printed), encoding="utf8")

    path = make_once("commands", make)
    return Made(path, json.loads((path / "printed.json").read_text(encoding="utf8")))


def run_chain(path, run, toy_files, configs, toy_overrides):
    from spacy.cli.train import train

    said = {}
    said["ontology"] = run(
        "ontology",
        toy_files / "ontology.jsonl",
        "-o",
        path / "store",
        "--homonyms",
        path / "homonyms.json",
    )
    said["convert"] = run(
        "convert",
        toy_files / "gold.pubtator",
        "-o",
        path / "gold.spacy",
        "--ontology",
        path / "store",
    )
    said["mine"] = run(
        "mine", path / "store", toy_files / "texts.jsonl", "-o", path / "shards", "--cap", "0"
    )
    said["sample"] = run("sample", path / "shards", "--number", "5", "--ontology", path / "store")
    overrides = {"paths.ontology": str(path / "store"), "paths.mentions": str(path / "shards")}
    train(
        configs / "small.cfg", path / "training", overrides={**toy_overrides["small"], **overrides}
    )
    metrics = ("-o", path / "metrics", "--name", "toy")
    said["prototypes"] = run(
        "prototypes", path / "training" / "model-last", "-o", path / "linker",
        "--ontology", path / "store",
        "--mentions", path / "shards", "--components.krissel_linker.n_candidates", "3",
    )  # fmt: skip
    said["evaluate"] = run(
        "evaluate", path / "linker", path / "gold.spacy", "--ontology", path / "store", *metrics
    )
    said["link"] = run("link", path / "linker", path / "gold.spacy", "-o", path / "links.jsonl")
    return said
