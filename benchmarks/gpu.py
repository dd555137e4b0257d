"""Measure one card in stages, without a network and with random weights.

    python benchmarks/gpu.py                                  # all stages, under four minutes
    python benchmarks/gpu.py --stage training --seconds 120   # one, in at most two minutes
    python benchmarks/gpu.py --toy                            # tiny sizes on a CPU
    python benchmarks/gpu.py --table                          # earlier results

- versions: of everything; the card's rate in bfloat16, to which others are compared; FAISS.
- tests: those marked `gpu`, file by file.
- training: steps of configs/krissbert.cfg with encoders of PubMedBERT's size: 512 mentions and 256
  references of 64 pieces, with cached gradients in chunks of 64 and of 256, and without.
- encoding: views of 64 pieces.
- exact, flat, ivf_sq8: 4,096 queries at a time among 10 million prototypes of width 768, made on
  the card, by torch and by FAISS.
- all_reduce: of a gradient of PubMedBERT's size, between two cards.

Each stage is a process with a limit of its own. It writes `OUTPUT/gpu-STAGE.json` after each step,
so a stage that is cut leaves the steps before. The exit status is 1 if any stage is not complete.

FLOP of a window in one forward pass: `layers * pieces * (8 d² + 4 d f + 4 d pieces)`, f the width
between. A training step runs one forward pass, with cached gradients two, and a backward pass,
which counts as two. FLOP of a search: 2 d for each prototype.
"""

import csv
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Annotated, Any, NamedTuple

import typer
from gpu_stages.report import MAX_TEXT, write_json
from wasabi import msg

ROOT = Path(__file__).parent
RESULTS = ROOT / "results"
PACKAGES = (
    "spacy-krissel",
    "spacy",
    "thinc",
    "torch",
    "transformers",
    "cupy-cuda12x",
    "cupy-cuda13x",
    "faiss-gpu",
    "faiss-cpu",
    "numpy",
    "numba",
    "pyarrow",
)
# Seconds between the signal that asks a stage to end and the one that ends it.
GRACE = 3.0
OUTPUT_HELP = "Folder of the JSON files; default: benchmarks/results/gpu, or toy-gpu in a toy run"
SECONDS_HELP = "Limit of the whole; by default the sum of the stages' limits"
# A stage that has less than this fraction of its limit left is not started.
MIN_FRACTION = 1 / 3


class Stage(NamedTuple):
    """call: module and function. seconds: its limit. cards: how many it needs."""

    call: str
    seconds: float
    cards: int = 1


STAGES = {
    "versions": Stage("gpu_stages.checks:versions", 25),
    "tests": Stage("gpu_stages.checks:tests", 40),
    "training": Stage("gpu_stages.training:training", 60),
    "encoding": Stage("gpu_stages.training:encoding", 20),
    "exact": Stage("gpu_stages.search:exact", 20),
    "flat": Stage("gpu_stages.search:flat", 25),
    "ivf_sq8": Stage("gpu_stages.search:ivf_sq8", 35),
    "all_reduce": Stage("gpu_stages.checks:all_reduce", 15, cards=2),
}


def main(
    stage: Annotated[
        list[str] | None, typer.Option(help=f"Stages to run: {', '.join(STAGES)}")
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(help="Skip these stages")] = None,
    seconds: Annotated[float | None, typer.Option(help=SECONDS_HELP, min=1)] = None,
    toy: Annotated[bool, typer.Option(help="Tiny sizes, on a CPU")] = False,
    compile: Annotated[bool, typer.Option(help="Compile the encoder with torch.compile")] = False,
    output: Annotated[Path | None, typer.Option(help=OUTPUT_HELP)] = None,
    table: Annotated[bool, typer.Option(help="Show earlier results without a run")] = False,
) -> None:
    """Run the stages in order of importance, and show a table of all results."""
    if unknown := {*(stage or ()), *(skip or ())} - set(STAGES):
        raise typer.BadParameter(f"no stage {', '.join(sorted(unknown))} ({', '.join(STAGES)})")
    output = output or RESULTS / ("toy-gpu" if toy else "gpu")
    complete = True
    if not table:
        head = machine(toy, compile)
        cards = 2 if toy else head["cards"] or 1
        chosen = stage or [name for name in STAGES if STAGES[name].cards <= cards]
        chosen = [name for name in STAGES if name in chosen and name not in (skip or ())]
        complete = run_stages(chosen, seconds, head, output)
    show(output)
    raise typer.Exit(0 if complete else 1)


def machine(toy: bool, compile: bool) -> dict[str, Any]:
    """Return the facts that every file contains, without importing a GPU library."""
    cards = [] if toy else nvidia_smi()
    versions = {}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            versions[package] = version(package)
    return {
        "card": cards[0][0] if cards else "CPU, toy sizes" if toy else None,
        "cards": 0 if toy else len(cards) or None,
        "driver": cards[0][1] if cards else None,
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
        "settings": {"toy": toy, "compile": compile},
    }


def nvidia_smi() -> list[list[str]]:
    """Return the name and driver of each card; none if the driver's tool is missing."""
    command = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return list(csv.reader(found.stdout.splitlines(), skipinitialspace=True))


def run_stages(names: list[str], seconds: float | None, head: dict[str, Any], output: Path) -> bool:
    """Run stages one after another. RETURNS: all are complete, or cannot run on this machine."""
    remaining = sum(STAGES[name].seconds for name in names)
    end = time.monotonic() + (seconds or remaining)
    statuses = []
    for name in names:
        stage, left = STAGES[name], end - time.monotonic()
        # The later stages share the time that earlier ones did not use.
        limit = min(left, max(stage.seconds, left * stage.seconds / remaining))
        remaining -= stage.seconds
        path = output / f"gpu-{name}.json"
        found = {"stage": name, "status": "running", "complete": False, **head}
        found["date"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
        found.update(started=time.time(), limit=round(limit, 1))
        if limit >= stage.seconds * MIN_FRACTION:
            found = run_stage(stage, found, path, limit)
        else:
            found["status"] = "left out"
            # An earlier result is worth more than none.
            if not path.exists():
                write_json(path, found)
        statuses.append(found["status"])
        print(f"{name}: {found['status']}", flush=True)
    return all(status in ("done", "skipped") for status in statuses)


def run_stage(stage: Stage, head: dict[str, Any], path: Path, limit: float) -> dict[str, Any]:
    """Run a stage in its own process, and end it at its limit. RETURNS: the content of its file."""
    write_json(path, head)
    arguments = [stage.call, str(path.absolute()), json.dumps(head)]
    python_path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(python_path), "HF_HUB_OFFLINE": "1"}
    if head["settings"]["toy"]:
        # Threads cost more than they save at these sizes.
        environment["OMP_NUM_THREADS"] = "1"
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder, TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpu_stages.run", *arguments],
            # Its temporary files go with this folder, even if it is killed.
            env={**environment, "TMPDIR": folder},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # A group of its own: the processes that it starts end with it.
            start_new_session=True,
        )
        status = "cut"
        try:
            process.wait(max(0.0, limit - GRACE))
            status = "died"
        except subprocess.TimeoutExpired:
            kill(process, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE)
        finally:
            kill(process, signal.SIGKILL)
            process.wait()
            log.seek(0)
            text = log.read().decode(errors="replace")[-MAX_TEXT:]
            found = close_file(path, status=status, returncode=process.returncode, log=text)
    return found


def close_file(path: Path, **ended: Any) -> dict[str, Any]:
    """Record the end of a stage that did not record it itself. RETURNS: the content of its file."""
    found = json.loads(path.read_text(encoding="utf8"))
    if found["status"] == "running":
        found.update(ended, seconds=round(time.time() - found["started"], 3))
        write_json(path, found)
    return found


def kill(process: subprocess.Popen, number: int) -> None:
    """Send a signal to the process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def show(output: Path) -> None:
    """Print the results in the folder."""
    paths = {name: output / f"gpu-{name}.json" for name in STAGES}
    texts = {name: path.read_text(encoding="utf8") for name, path in paths.items() if path.exists()}
    results = {name: json.loads(text) for name, text in texts.items()}
    rows = [row for found in results.values() for row in stage_rows(found)]
    header = ("stage", "card", "step", "per second", "of bf16", "notes")
    msg.table([*rows, *linking_row(results)], header=header, divider=True, max_col=80)


def linking_row(results: dict[str, dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Yield the rate of linking, if it is known: views are encoded, then searched exactly."""
    parts = [results[name] for name in ("encoding", "exact") if name in results]
    steps = [row for found in parts for row in found.get("rows", ())]
    rates = [row["per_second"] for row in steps if "per_second" in row]
    if len(rates) == 2 and parts[0]["card"] == parts[1]["card"]:
        rate = 1 / sum(1 / each for each in rates)
        yield "linking", parts[0]["card"], "mentions, by encoding and exact", f"{rate:,.0f}", "", ""


def stage_rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the lines of one stage: its status, and each step."""
    errors = found.get("errors", {})
    problem = errors.get("stage", found.get("log", "")).strip().splitlines()[-1:]
    notes = [f"{found['seconds']:.0f} s"] if "seconds" in found else []
    status = found.get("reason", found["status"])
    yield found["stage"], found["card"] or "", status, "", "", ", ".join([*notes, *problem])
    for row in found.get("rows", ()):
        rate, fraction = row.get("per_second") or 0, row.get("fraction_of_bf16")
        yield (
            "",
            "",
            row["step"],
            "" if not rate else f"{rate:,.0f}" if rate < 1e9 else f"{rate:.3g}",
            f"{fraction:.1%}" if fraction else "",
            ", ".join(step_notes(row, errors.get(row["step"], ""))),
        )


def step_notes(row: dict[str, Any], error: str) -> Iterator[str]:
    """Yield the other measures of a step, its counts of tests, and the last line of its error."""
    for name, value in row.items():
        if value and name.startswith(("recall", "peak", "host")):
            yield f"{name} {value:.3g}"
        elif value and name in ("passed", "failed", "skipped"):
            yield f"{value} {name}"
        elif name == "note":
            yield value
    yield from error.strip().splitlines()[-1:]


if __name__ == "__main__":
    # A signal ends the run by an exception, which ends its stage.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    typer.run(main)
