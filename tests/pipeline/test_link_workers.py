"""Linking of a corpus by processes and by Ray, whose workers are lost: the parts stay the same."""

import importlib
import json
import os
import time
from pathlib import Path

import pytest
from ray_machines import two_machines

from spacy_krissel.commands.link_texts import link
from spacy_krissel.commands.linking_work import LinkingWork
from spacy_krissel.mining import reading

pytestmark = pytest.mark.slow
BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SETTINGS = {"format": "parquet", "part_chars": 400}
N_FILES = 12


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """A linker that finds names."""
    from spacy_krissel import Entity, build
    from spacy_krissel.ontology.store import write_store

    folder = tmp_path_factory.mktemp("corpus_linker")
    names = ("heart failure", "liver failure", "skin cancer", "lung disease", "common cold")
    write_store(
        (Entity(f"D{i}", name, (f"{name} {i}",)) for i, name in enumerate(names)), folder / "store"
    )
    build(folder / "store", folder / "linker")
    return folder / "linker"


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """Files of 30 texts, each a unit of several parts."""
    monkeypatch.setattr(reading, "UNIT_BYTES", 1)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(N_FILES):
        lines = [
            json.dumps({"id": f"{number}-{i}", "text": f"Case {i} of heart failure and a cold."})
            for i in range(30)
        ]
        (folder / f"{number:02}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def contents(folder):
    return {each.name: each.read_bytes() for each in folder.iterdir()}


@pytest.fixture
def expected(pipeline, corpus, tmp_path):
    link(pipeline, corpus, tmp_path / "expected", **SETTINGS)
    return contents(tmp_path / "expected")


# Units that the processes read, and units that this one reads for them.
@pytest.mark.nightly
@pytest.mark.parametrize("unit_bytes", [1, 10**6])
def test_processes_write_the_bytes_of_one(
    pipeline, corpus, expected, tmp_path, monkeypatch, unit_bytes
):
    link(pipeline, corpus, tmp_path / "two", n_process=2, **SETTINGS)
    assert contents(tmp_path / "two") == expected
    monkeypatch.setattr(reading, "UNIT_BYTES", unit_bytes)
    link(pipeline, corpus, tmp_path / "one", **SETTINGS)
    link(pipeline, corpus, tmp_path / "again", n_process=2, **SETTINGS)
    assert contents(tmp_path / "again") == contents(tmp_path / "one")


def test_killed_runs_write_the_same_parts(pipeline, corpus, tmp_path, monkeypatch):
    """A worker, then the driver is killed while they write; `kill` in benchmarks/link_corpus.py
    does so at random."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    script = importlib.import_module("link_corpus")
    for path in corpus.iterdir():
        path.write_text(path.read_text() * 30)
    sizes = {"part_chars": 4_000, "unit_bytes": 1}
    output = tmp_path / "killed"
    run = script.Run(pipeline, corpus, output, 2, None, **sizes)

    def wait_for_parts(n):
        until = time.monotonic() + 120
        while len([*tmp_path.glob(".killed.partial/part-*")]) < n and time.monotonic() < until:
            time.sleep(0.01)
        assert run.is_running(), "it ended early"

    try:
        wait_for_parts(2)
        script.end(run.pids("worker")[0])
        wait_for_parts(6)
    finally:
        script.end(run.process.pid)
    run.process.wait()
    until = time.monotonic() + 60
    while run.pids() and time.monotonic() < until:
        time.sleep(0.05)
    assert not output.exists()
    assert script.Run(pipeline, corpus, output, 2, None, **sizes).process.wait() == 0
    link(pipeline, corpus, tmp_path / "whole", **{**SETTINGS, "part_chars": 4_000})
    assert contents(output) == contents(tmp_path / "whole")


@pytest.mark.nightly
def test_ray_writes_the_bytes_of_one_process_and_loses_a_machine(
    pipeline, corpus, expected, tmp_path, monkeypatch
):
    pytest.importorskip("ray").shutdown()
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "300")
    add, lost = LinkingWork.add, []
    with two_machines() as (_, lose_second):

        def losing(self, *args):
            if len(self.records) == 20:
                lose_second()
                lost.append(os.getpid())
            add(self, *args)

        monkeypatch.setattr(LinkingWork, "add", losing)
        link(pipeline, corpus, tmp_path / "ray", ray="local", **SETTINGS)
    assert contents(tmp_path / "ray") == expected and len(lost) == 1
