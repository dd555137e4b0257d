"""`benchmarks/gpu.py`: its stages at toy size, its limits, and the files that it leaves."""

import importlib
import json
import os
from pathlib import Path

import pytest
import typer

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
# Stages of a module of their own, which the tests name in place of the real ones.
STAGES = """
import os, signal, subprocess, sys, time

def quick(report):
    with report.step("one") as row:
        row["per_second"] = 1
    with report.step("two"):
        pass

def wrong(report):
    with report.step("one"):
        raise ValueError("no such card")
    with report.step("two") as row:
        row["per_second"] = 2

def dies(report):
    with report.step("one") as row:
        row["per_second"] = 3
    print("the last words", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

def hangs(report):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with report.step("one", process=started.pid) as row:
        row["per_second"] = 4
    time.sleep(600)

def skipped(report):
    from gpu_stages.report import Skipped
    raise Skipped("FAISS is not installed")
"""


@pytest.fixture
def script(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("gpu")


@pytest.fixture
def stages(script, tmp_path, monkeypatch):
    """Replace the stages with those above, of so many seconds each."""
    (tmp_path / "made_stages.py").write_text(STAGES)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr(script, "GRACE", 0.5)

    def replace(**seconds):
        made = {name: script.Stage(f"made_stages:{name}", each) for name, each in seconds.items()}
        monkeypatch.setattr(script, "STAGES", made)

    return replace


def run(script, output, **settings):
    """Run stages, and return the exit status and the files by stage."""
    with pytest.raises(typer.Exit) as ended:
        script.main(output=output, **settings)
    files = {path.stem.partition("-")[2]: json.loads(path.read_text()) for path in output.glob("*")}
    return ended.value.exit_code, files


@pytest.mark.nightly
def test_toy_run_completes_every_stage(script, tmp_path, capsys):
    status, files = run(script, tmp_path / "gpu", toy=True, seconds=3000)
    assert set(files) == set(script.STAGES)
    assert {name: found["errors"] for name, found in files.items() if found["errors"]} == {}
    assert status == 0 and all(found["complete"] for found in files.values())
    for found in files.values():
        assert {"card", "cards", "driver", "versions", "settings", "seconds", "date"} <= set(found)
    assert {row["status"] for row in files["tests"]["rows"]} <= {"passed", "skipped"}
    assert "tests/index/test_exact.py" in {row["step"] for row in files["tests"]["rows"]}
    for name in ("training", "encoding", "exact"):
        rate = files[name]["bf16_flop_per_second"]
        for row in files[name]["rows"]:
            assert row["fraction_of_bf16"] == pytest.approx(row["per_second"] * row["flop"] / rate)
    chunks, plain = files["training"]["rows"]
    assert (chunks["chunk_size"], plain["chunk_size"]) == (4, None)
    assert chunks["windows_per_step"] == plain["windows_per_step"] == 12
    assert chunks["flop"] / plain["flop"] == 4 / 3 and plain["host_seconds_per_step"] > 0
    assert files["exact"]["rows"][0]["prototypes"] == 4000
    for found in (files["flat"], files["ivf_sq8"]):
        *_, row = (row for row in found["rows"] if "recall_1" in row)
        assert row["recall_1"] == 1 and row["recall_10"] > 0.98
    assert files["all_reduce"]["rows"][0]["gb_per_second"] > 0
    printed = capsys.readouterr().out
    assert "windows, chunks of 4" in printed and "mentions, by encoding and exact" in printed


@pytest.mark.nightly
def test_stage_that_dies_or_hangs_leaves_all_files_valid(script, stages, tmp_path, capsys):
    stages(quick=2, wrong=2, dies=2, hangs=6, skipped=2, late=100)
    status, files = run(script, tmp_path / "gpu", toy=True, seconds=30)
    assert status == 1
    assert {name: (found["status"], found["complete"]) for name, found in files.items()} == {
        "quick": ("done", True),
        "wrong": ("failed", False),
        "dies": ("died", False),
        "hangs": ("cut", False),
        "skipped": ("skipped", False),
        "late": ("left out", False),
    }
    assert "no such card" in files["wrong"]["errors"]["one"]
    assert files["wrong"]["rows"][1] == {"step": "two", "per_second": 2}
    assert files["dies"]["rows"] == [{"step": "one", "per_second": 3}]
    assert files["dies"]["returncode"] == -9 and "the last words" in files["dies"]["log"]
    assert files["hangs"]["rows"][0]["per_second"] == 4
    assert has_ended(files["hangs"]["rows"][0]["process"]), "a process that the stage started"
    printed = capsys.readouterr().out
    for text in ("FAISS is not installed", "ValueError: no such card", "the last words"):
        assert text in printed


def has_ended(number):
    try:
        return Path(f"/proc/{number}/stat").read_text().split(") ")[1].startswith("Z")
    except FileNotFoundError:
        return True


def test_repeated_stage_replaces_only_its_own_file(script, stages, tmp_path, capsys):
    stages(quick=5, skipped=5, late=5)
    output = tmp_path / "gpu"
    status, first = run(script, output, toy=True, skip=["late"])
    assert status == 0 and set(first) == {"quick", "skipped"}
    _, second = run(script, output, toy=True, stage=["quick"])
    assert second["quick"]["started"] > first["quick"]["started"]
    assert second["skipped"] == first["skipped"]
    # A stage that does not fit keeps its earlier result.
    status, third = run(script, output, toy=True, stage=["quick"], seconds=1)
    assert status == 1 and third == second
    capsys.readouterr()
    status, fourth = run(script, output, table=True)
    assert status == 0 and fourth == second and "quick" in capsys.readouterr().out


def test_unknown_stage_is_refused(script, tmp_path):
    with pytest.raises(typer.BadParameter, match="no stage all"):
        script.main(stage=["all"], output=tmp_path)


def test_stage_without_a_gpu_fails_with_a_message(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    status, files = run(script, tmp_path / "gpu", stage=["versions"], seconds=100)
    assert status == 1 and files["versions"]["status"] == "failed"
    assert "torch finds no CUDA device" in files["versions"]["errors"]["stage"]
    assert "torch finds no CUDA device" in capsys.readouterr().out


@pytest.fixture
def checks(script):
    return importlib.import_module("gpu_stages.checks")


@pytest.mark.nightly
def test_only_files_with_the_marker_are_collected(checks, tmp_path):
    """A folder also has files whose imports are missing where the extra `tests` is."""
    marked = "import pytest\n\n@pytest.mark." + "gpu\ndef test_it():\n    assert {}\n"
    (tmp_path / "index").mkdir()
    for name, code in {
        "test_other.py": "import no_such_module\n",
        "test_good.py": marked.format(True),
        "index/test_bad.py": "import no_such_module\n" + marked.format(True),
    }.items():
        (tmp_path / name).write_text(code)
    bad, good = checks.marked_files(tmp_path)
    assert (bad.name, good.name) == ("test_bad.py", "test_good.py")
    found = checks.run_file(good, tmp_path, 60)
    assert (found["status"], found["passed"], found["text"]) == ("passed", 1, "")
    found = checks.run_file(bad, tmp_path, 60)
    assert (found["status"], found["failed"]) == ("failed", 1) and "no_such_module" in found["text"]
    assert checks.run_file(good, tmp_path, 0.01)["status"] == "cut"


@pytest.fixture
def training(script):
    return importlib.import_module("gpu_stages.training")


def test_benchmark_pipeline_does_not_read_ahead(training, tmp_path, monkeypatch):
    monkeypatch.setattr(training, "init_nlp", lambda config: config)
    config, _ = training.make_pipeline(tmp_path, training.Size(layers=1, width=4, heads=1), False)
    assert config["corpora"]["train"]["read_ahead"] == 0
    encoder = config["components"]["krissel_linker"]["model"]["mention"]
    assert encoder["batch_pieces"] == 32_768 and encoder["window"] == training.PIECES


def test_flop_per_window_matches_torchs_count(training):
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import BertConfig, BertModel

    size = importlib.import_module("gpu_stages.report").TOY
    config = BertConfig(
        vocab_size=9,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=size.between,
        attn_implementation="eager",
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(torch.zeros(1, training.PIECES, dtype=torch.long))
    assert counter.get_total_flops() == training.flop_per_window(size)
