"""The campaign: packed, run, cut off, brought home and put together again."""

import json
import os
import re
import signal
import sys
import tarfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import spacy
import srsly
from command_line import invoke
from lab.campaign import run as campaign_run
from lab.campaign.archive import pack, unpack
from lab.campaign.gpu_use import GpuUse
from lab.campaign.parts import assemble_parts, write_parts
from lab.campaign.run import CUT, DONE, FAILED, LEFT_OUT, LOG, REPORT, given_values, run_stages
from lab.campaign.stages import Table, read_stages, words_of
from lab.campaign.timed_rate import timed_rate
from lab.campaign.weights import grow, shrink
from lab.errors import KrisselError
from project_files import ROOT
from thinc.api import get_current_ops, set_current_ops

from spacy_krissel.mining.shards import MentionShards
from spacy_krissel.ontology.store import OntologyStore

STAGES = ROOT / "experiments" / "campaign" / "configs" / "stages.yml"
FEW = "--training.batcher.pairs 4 --corpora.train.held_out 0.3"
LINKER = "components.krissel_linker"
TOY = {
    "steps": "2",
    "align": f"{FEW} --{LINKER}.model.pooling mean --{LINKER}.objective.miner null",
    "contrast": f"{FEW} --{LINKER}.model.mention.window 32 --{LINKER}.model.reference.window 32",
}


@pytest.fixture(scope="module")
def toy_archive(toy_store, toy_shards, toy_gold, tiny_bert, tmp_path_factory):
    """The toy data as an archive, with the names that the table of stages has."""
    folder = tmp_path_factory.mktemp("campaign")
    for name in ("ontology", "medic", "chemicals"):
        (folder / name).symlink_to(toy_store.path)
    gold = [folder / f"{name}-dev.spacy" for name in ("ncbi", "bc5cdr", "chemicals")]
    for path in gold:
        path.symlink_to(toy_gold[0])
    given = [each for path in gold for each in ("--gold", path)]
    stores = ("--store", folder / "medic", "--store", folder / "chemicals")
    output = folder / "campaign.tar.xz"
    packed = invoke(
        "campaign-pack",
        folder / "ontology",
        toy_shards,
        *stores,
        *given,
        "--encoder",
        tiny_bert,
        "-o",
        output,
    )
    assert packed.exit_code == 0, packed.output
    return output


class InProcess:
    """A command line run in this process, as the runner sees a process."""

    def __init__(self, words, log):
        root = Path(words[1]).name == "lab"
        if root:
            result = invoke(*words[2:])
        elif words[2:4] == ["spacy", "krissel"]:
            result = invoke(*words[4:])
        else:
            from spacy.cli._util import app
            from typer.testing import CliRunner

            result = CliRunner().invoke(app, words[3:])
        log.write_text(result.output + repr(result.exception))
        self.returncode = result.exit_code

    def poll(self):
        return self.returncode


@pytest.fixture(scope="module")
def campaign(toy_archive, tmp_path_factory):
    """A run of all stages but the package, in this process: its folder, what comes home, and its
    reports."""
    folder = tmp_path_factory.mktemp("run")
    table = read_stages(STAGES, TOY)
    table.variables.update(gpu="--gpu-id -1", index="")
    table.stages = [stage for stage in table.stages if stage.name != "package"]
    ops = get_current_ops()
    values = given_values(toy_archive, folder, folder / "home")
    reports = run_stages(
        table, values, folder, seconds=600, collected=folder / "home", start=InProcess
    )
    set_current_ops(ops)
    return folder, folder / "home", {report["stage"]: report for report in reports}


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*KW")
def test_all_stages_finish_and_report(campaign):
    folder, home, reports = campaign
    failed = {name: report for name, report in reports.items() if report["status"] != DONE}
    assert not failed, failed
    for name, report in reports.items():
        assert json.loads((folder / f"{name}.json").read_text()) == report
        assert report["device"] == "cpu" and report["versions"]["spacy-krissel"]
    for name in ("untrained", "evaluate"):
        assert {each["n"] for each in reports[name]["results"].values()} == {11}
    assert len((home / LOG).read_text().splitlines()) == len(reports)
    assert len(json.loads((home / REPORT).read_text())["stages"]) == len(reports)
    assert all(re.fullmatch(r"[\w.-]+", path.name) and path.is_file() for path in home.iterdir())
    assert len(list(home.iterdir())) <= 8


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*KW")
def test_compared_linkers_differ_in_weights_only(campaign):
    """Only weights differ between the linkers that are compared."""
    folder, _, reports = campaign
    before, after = (
        spacy.load(folder / name).config["components"]["krissel_linker"]
        for name in ("untrained", "diseases")
    )
    ignored = ("model", "kb_path")
    assert {key: value for key, value in before.items() if key not in ignored} == {
        key: value for key, value in after.items() if key not in ignored
    }
    assert "--compare untrained=" in reports["evaluate"]["lines"][0]["line"]


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*KW")
def test_the_trained_pipeline_is_assembled_from_its_parts(campaign, tmp_path):
    """The encoder of mentions to float16's precision, that of references to 8 bits."""
    folder, home, _ = campaign
    assemble_parts(home, tmp_path / "linker")
    encoders = []
    for path in (folder / "contrast" / "model-last", tmp_path / "linker"):
        model = spacy.load(path).get_pipe("krissel_linker").model
        shims = [shim for node in model.walk() for shim in node.shims]
        encoders.append([dict(shim.transformer.named_parameters()) for shim in shims])
    assert len(encoders[0]) == 2
    for number, tolerance in ((0, 1e-3), (1, 1e-2)):
        for name, values in encoders[0][number].items():
            difference = (values - encoders[1][number][name]).norm() / (values.norm() + 1e-9)
            assert difference <= tolerance, (number, name, difference)
    assert any(
        not np.array_equal(values.detach(), encoders[1][1][name].detach())
        for name, values in encoders[0][1].items()
    )


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*KW")
def test_parts_are_small_replace_earlier_ones_and_are_checked(campaign, tmp_path):
    folder, _, _ = campaign
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "log.jsonl").write_text("{}\n")
    (tmp_path / "home" / "weights-77.part").write_text("of an earlier run")
    manifest = write_parts(folder / "contrast" / "model-last", tmp_path / "home", part_bytes=20_000)
    parts = sorted((tmp_path / "home").glob("*.part"))
    assert len(parts) == len(manifest["parts"]) > 1
    assert max(path.stat().st_size for path in parts) <= 20_000
    assert (tmp_path / "home" / "log.jsonl").exists()
    with pytest.raises(KrisselError, match="K293"):
        write_parts(folder / "contrast" / "model-last", tmp_path / "home", max_bytes=100)
    parts[0].write_bytes(parts[0].read_bytes()[:-1] + b"!")
    with pytest.raises(KrisselError, match="K294.*damaged"):
        assemble_parts(tmp_path / "home", tmp_path / "linker")


def test_the_archive_preserves_its_contents(
    toy_archive, toy_store, toy_shards, tiny_bert, tmp_path
):
    manifest = unpack(toy_archive, tmp_path / "data")
    store = OntologyStore(tmp_path / "data" / "ontology")
    assert list(store) == list(toy_store)
    assert store.manifest["files"] == toy_store.manifest["files"]
    before = sorted(MentionShards(toy_shards))
    for name in ("mentions", "medic-mentions"):
        after = MentionShards(tmp_path / "data" / name)
        assert {mention[:5] for mention in after} <= {mention[:5] for mention in before}
        assert max(map(len, after.by_entity().values())) == 8
        contexts = {mention[2:5]: mention for mention in before}
        for mention in after:
            full = contexts[mention[2:5]]
            assert mention.mention == full.mention
            assert full.left.endswith(mention.left) and full.right.startswith(mention.right)
    encoder = tmp_path / "data" / "encoder"
    assert {path.name for path in encoder.iterdir()} >= {
        "config.json",
        "tokenizer.json",
        "model.safetensors",
    }
    assert manifest["counts"]["ontology"]["entities"] == len(toy_store)


def test_archives_are_reproducible(
    toy_archive, toy_store, toy_shards, toy_gold, tiny_bert, tmp_path
):
    (tmp_path / "ontology").symlink_to(toy_store.path)
    settings = {"cap": 8, "context_chars": 128, "max_mib": 40}
    found = []
    for name in ("one.tar.xz", "two.tar.xz"):
        given = {"stores": [tmp_path / "ontology"], "gold": [toy_gold[0]], "encoder": tiny_bert}
        pack(tmp_path / "ontology", toy_shards, tmp_path / name, **given, **settings)
        found.append((tmp_path / name).read_bytes())
    assert found[0] == found[1]


def test_a_too_large_archive_is_not_written(toy_store, toy_shards, toy_gold, tiny_bert, tmp_path):
    output = tmp_path / "campaign.tar.xz"
    with pytest.raises(KrisselError, match="K291.*cap, now 3"):
        pack(
            toy_store.path,
            toy_shards,
            output,
            encoder=tiny_bert,
            gold=[toy_gold[0]],
            cap=3,
            context_chars=9,
            max_mib=0.01,
        )
    assert not list(tmp_path.iterdir())


def test_a_damaged_archive_is_refused(toy_archive, tmp_path):
    with tarfile.open(toy_archive) as archive:
        archive.extractall(tmp_path / "raw", filter="data")
    (tmp_path / "raw" / "ontology.jsonl").write_text("")
    with tarfile.open(tmp_path / "other.tar.xz", "w:xz") as archive:
        archive.add(tmp_path / "raw", ".")
        archive.add(tmp_path / "raw" / "manifest.json", "manifest.json")
        for path in (tmp_path / "raw").rglob("*.*"):
            archive.add(path, path.relative_to(tmp_path / "raw"))
    with pytest.raises(KrisselError, match="K292.*is not as its manifest"):
        unpack(tmp_path / "other.tar.xz", tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("bits, tolerance", [(16, 1e-3), (8, 0.02)])
def test_shrunk_weights_are_restored_within_tolerance(bits, tolerance):
    generator = np.random.default_rng(0)
    weights = {
        "matrix": generator.normal(size=(7, 40)).astype(np.float32),
        "zeros": np.zeros((3, 4), dtype=np.float32),
        "vector": generator.normal(size=9).astype(np.float32),
        "ids": np.arange(5)[None],
    }
    stored = shrink(weights, bits)
    grown = grow(stored)
    assert grown.keys() == weights.keys()
    assert (
        sum(each.nbytes for name, each in stored.items() if "matrix" in name)
        <= 7 * 40 * bits / 8 + 14
    )
    for name in ("zeros", "vector", "ids"):
        assert (
            np.array_equal(grown[name], weights[name]) and grown[name].dtype == weights[name].dtype
        )
    assert (
        np.abs(grown["matrix"] - weights["matrix"]).max()
        < tolerance * np.abs(weights["matrix"]).max()
    )


# Scripts of stages: one that ends by SIGINT as a training does, one that has to be killed.
SAVES = """
import pathlib, sys, time
pathlib.Path(sys.argv[1] + '.begun').touch()
try:
    time.sleep(60)
finally:
    pathlib.Path(sys.argv[1]).write_text('saved')
"""
STUBBORN = (
    "import signal, time; [signal.signal(n, signal.SIG_IGN) for n in (2, 15)]; time.sleep(60)"
)


def table_of(*stages):
    return Table.model_validate({"stages": [{"seconds": 1, **stage} for stage in stages]})


def python(code, *words):
    return f"python -c {json.dumps(code)} {' '.join(map(str, words))}"


@pytest.fixture
def fast(monkeypatch, tmp_path):
    """No wait before SIGTERM and SIGKILL, and no search for a card."""
    monkeypatch.setattr(campaign_run, "GRACE", 2.0)
    monkeypatch.setattr(campaign_run, "TERM_SECONDS", 0.2)
    monkeypatch.setattr(
        campaign_run, "describe_machine", lambda gpu_id: {"device": "cpu", "versions": {}}
    )
    for name, script in (("saves", SAVES), ("stubborn", STUBBORN)):
        (tmp_path / f"{name}.py").write_text(script)
    return tmp_path


@pytest.mark.nightly
def test_a_cut_stage_passes_its_saved_output_to_the_next(fast):
    saved = fast / "saved"
    table = table_of(
        {
            "name": "train",
            "script": [f"python {fast}/saves.py {saved}", "python -c 1"],
            "seconds": 3,
            "saves": True,
        },
        {
            "name": "use",
            "inputs": {"it": [f"{fast}/none", str(saved)]},
            "script": ["python -c 1 {it}"],
            "seconds": 9,
        },
        {"name": "other", "inputs": {"it": [f"{fast}/none"]}, "script": ["python -c 1"]},
    )
    first, second, third = run_stages(table, {}, fast / "out", seconds=20)
    assert (first["status"], len(first["lines"])) == (CUT, 1), "a line after a cut one is not run"
    assert saved.read_text() == "saved"
    assert second["status"] == DONE and second["lines"][0]["line"].endswith(str(saved))
    assert third["status"] == LEFT_OUT and str(fast / "none") in third["reason"]


@pytest.mark.slow
def test_a_stage_that_does_not_end_is_killed_and_the_rest_left_out(fast):
    table = table_of(
        {
            "name": "stuck",
            "script": [[f"python {fast}/stubborn.py", f"python {fast}/stubborn.py"]],
            "seconds": 99,
        },
        {"name": "late", "script": ["python -c 1"]},
    )
    stuck, late = run_stages(table, {}, fast / "out", seconds=1.5, collected=fast / "home")
    assert (
        stuck["status"] == CUT
        and [line["returncode"] for line in stuck["lines"]] == [-signal.SIGKILL] * 2
    )
    assert (late["status"], late["reason"]) == (LEFT_OUT, "no time was left")
    for folder in (fast / "out", fast / "home"):
        lines = [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
        assert [line["status"] for line in lines] == [CUT, LEFT_OUT]
        assert json.loads((folder / REPORT).read_text())["stages"] == [stuck, late]


def test_a_failed_stage_states_its_reason_and_others_run(fast):
    table = table_of(
        {"name": "bad", "script": [python("raise SystemExit('no such thing')"), "python -c 1"]},
        {"name": "good", "script": ["python -c 1"]},
    )
    bad, good = run_stages(table, {}, fast / "out", seconds=60)
    assert bad["status"] == FAILED and bad["reason"] == "no such thing" and len(bad["lines"]) == 1
    assert good["status"] == DONE


def test_a_stopped_run_saves_its_stage_and_leaves_the_rest_out(fast):
    saved = fast / "saved"
    table = table_of(
        {"name": "train", "script": [f"python {fast}/saves.py {saved}"]},
        {"name": "use", "script": ["python -c 1"]},
    )

    def stop():
        while not Path(f"{saved}.begun").exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=stop, daemon=True).start()
    first, second = run_stages(table, {}, fast / "out", seconds=500)
    assert first["status"] == CUT and saved.read_text() == "saved"
    assert second["status"] == LEFT_OUT and "SIGTERM" in second["reason"]


def test_unused_time_goes_to_later_stages(fast):
    table = table_of(*({"name": name, "script": ["python -c 1"]} for name in ("one", "two")))
    one, two = run_stages(table, {}, fast / "out", seconds=100)
    assert one["limit"] == 50 and two["limit"] > 60


def test_an_invalid_stage_table_is_refused(tmp_path):
    path = tmp_path / "stages.yml"
    for content, problem in (
        ({"stages": []}, "stages"),
        ({"stages": [{"name": "One"}]}, "stages.0.name"),
    ):
        srsly.write_yaml(path, content)
        with pytest.raises(KrisselError, match=rf"K295.*{problem}"):
            read_stages(path)
    with pytest.raises(KrisselError, match="K295.*no variable 'step'"):
        read_stages(STAGES, {"step": "1"})


def test_lines_use_the_gpu_where_they_encode_or_search():
    """On a card each line that encodes has the GPU, and each that searches the device of the
    index."""
    table = read_stages(STAGES)
    table.variables.update(gpu="--gpu-id 0", index="--index-device cuda:0")
    values = {
        **given_values(Path("a.tar.xz"), Path("a work"), Path("home")),
        "until": "9.5",
        "start": "x",
    }
    lines = [
        words_of(line, {**table.variables, **dict.fromkeys(stage.options, "")}, values)
        for stage in table.stages
        for group in stage.groups()
        for line in group
    ]
    named = {line[4]: line for line in lines if line[2:4] == ["spacy", "krissel"]}
    for name, line in named.items():
        assert ("--gpu-id" in line) == (name != "encoder")
        assert ("--index-device" in line) == (name in ("prototypes", "evaluate", "link"))
    rate = json.loads(named["train"][named["train"].index("--training.optimizer.learn_rate") + 1])
    assert rate["until"] == 9.5
    assert all(line[0] == sys.executable for line in lines)
    assert any(word == f"{Path('a work').absolute()}/diseases" for line in lines for word in line)


def test_the_learning_rate_rises_by_steps_and_falls_by_time(monkeypatch):
    clock = iter([0.0, 0.0, 0.0, 50.0, 75.0, 100.0, 130.0])
    monkeypatch.setattr(time, "time", lambda: next(clock))
    rates = timed_rate(2.0, 2, 100.0)
    assert [next(rates) for _ in range(6)] == [1.0, 2.0, 1.0, 0.5, 0.0, 0.0]


def test_gpu_use_is_sampled(tmp_path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '80, 1024, 350.5'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    began = time.monotonic()
    with GpuUse(0.01) as use:
        while len(use.samples()) < 2 and time.monotonic() < began + 30:
            time.sleep(0.02)
    assert use.samples()[0].keys() == {"seconds", "percent", "mib", "watts"}
    summary = use.summary(began)
    assert (summary["percent"], summary["mib"], summary["watts"]) == (80, 1024, 350.5)
    assert use.summary(time.monotonic() + 1) == {}


def test_without_a_gpu_there_are_no_samples(monkeypatch):
    monkeypatch.setenv("PATH", "")
    with GpuUse(0.01) as use:
        assert (use.samples(), use.summary(0.0)) == ([], {})
