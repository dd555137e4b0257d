"""Run the stages of a table under their limits; whatever is cut off leaves valid files and is used
by what follows."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

from pydantic import Field

from spacy_krissel.util.atomic import write_text
from spacy_krissel.util.settings import NotNegative

from ..named_paths import named_paths
from .gpu_use import GpuUse
from .stages import Stage, Table, filled, find_inputs, read_stages, words_of

LAB = Path(__file__).resolve().parents[1]
DONE, CUT, FAILED, LEFT_OUT = "done", "cut", "failed", "left out"
LOG, REPORT = "log.jsonl", "campaign.json"
# Of a stage's limit: after SIGINT a training has this long to save; SIGTERM and SIGKILL follow.
GRACE, GRACE_SHARE, TERM_SECONDS = 15.0, 0.25, 3.0
# A stage with less would only start Python.
MIN_SECONDS = 1.0
POLL_SECONDS = 0.05
# Characters at the end of a stage's output that its report keeps.
TAIL = 2000
MACHINE = """
import json, sys
import torch
gpu = int(sys.argv[1])
found = {"device": torch.cuda.get_device_name(gpu) if gpu >= 0 else "cpu", "cuda": torch.version.cuda}
from lab.campaign.archive import versions
print(json.dumps({**found, "python": sys.version.split()[0], "versions": versions()}))
"""  # noqa: E501
# Starts a command line; tests give another one.
Start = Callable[[Sequence[str], Path], subprocess.Popen]


def run_campaign(
    archive: Path,
    stages: Path,
    work: Path,
    output: Path,
    *,
    seconds: NotNegative = 400.0,
    changed: Sequence[str] = (),
    device: str = "cpu",
    gpu_id: Annotated[int, Field(ge=-1)] = -1,
) -> list[dict[str, Any]]:
    """Train, link, evaluate and package with the product's own commands, each stage under its own
    limit.

    archive: archive by `campaign-pack`
    stages: table of stages (.yml)
    work: folder for data, pipelines and reports: gigabytes
    output: folder for what comes home: weights, metrics, the log
    seconds: time limit of all stages in seconds
    changed: name=value of a variable of the table
    device: device of the index: cpu, cuda:0 or cuda:all
    gpu_id: GPU, or -1 for the CPU

    RETURNS: a report of each stage. Raises KrisselError K006 (`changed`) and those of
    `read_stages`.
    """
    table = read_stages(stages, named_paths("set", changed))
    table.variables["gpu"] = f"--gpu-id {gpu_id}"
    table.variables["index"] = "" if device == "cpu" else f"--index-device {device}"
    values = given_values(archive, work, output)
    return run_stages(table, values, work, seconds=seconds, gpu_id=gpu_id, collected=output)


def show_run_campaign(reports: list[dict[str, Any]]) -> str:
    return "\n".join(
        f"{report['stage']}: {report['status']} in {report['seconds']:.1f} s "
        f"{report.get('reason', '')}"
        for report in reports
    )


def run_stages(
    table: Table,
    values: Mapping[str, str],
    output: Path,
    *,
    seconds: float,
    gpu_id: int = -1,
    collected: Path | None = None,
    start: Start | None = None,
) -> list[dict[str, Any]]:
    """Run the stages in order, each for its share of the time that is left. RETURNS: a report of
    each.

    A stage ends when its lines have ended, or at its limit: SIGINT, on which `krissel train` saves
    what it has, then SIGTERM, then SIGKILL. One that fails or is cut stops none that finds its
    inputs. SIGINT or SIGTERM to this process ends the stage that runs; the others are left out.

    values: what placeholders of the table stand for. output: folder of a STAGE.json for each stage,
    a log, and the output of each line. seconds: for all stages. collected: folder to which the log
    and all reports are copied, too.
    """
    output.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + seconds
    reports: list[dict[str, Any]] = []
    with GpuUse() as use, _signals() as signals, ThreadPoolExecutor(1) as threads:
        machine = threads.submit(describe_machine, gpu_id)
        for number, stage in enumerate(table.stages):
            limit = _limit(table.stages[number:], end - time.monotonic())
            report: dict[str, Any] = {
                "stage": stage.name,
                "status": LEFT_OUT,
                "limit": round(limit, 1),
                "lines": [],
            }
            found, options, missing = find_inputs(stage, values)
            began = time.monotonic()
            if signals:
                report["reason"] = f"the run was stopped by {signals[0]}"
            elif missing:
                paths = [filled(path, values) for path in stage.inputs[missing]]
                report["reason"] = f"none of its inputs '{missing}' is there: {', '.join(paths)}"
            elif limit < MIN_SECONDS:
                report["reason"] = "no time was left"
            else:
                texts = {**table.variables, **options}
                _run_stage(
                    stage, texts, found, report, limit, output, signals, start or start_process
                )
            report["seconds"] = round(time.monotonic() - began, 2)
            report["gpu"] = use.summary(began)
            report["results"] = read_results(stage, values)
            report.update(_result(machine))
            reports.append(report)
            _write(reports, output, collected)
        report = {"stages": reports, "gpu": use.samples()}
        for folder in filter(None, (output, collected)):
            write_text(folder / REPORT, json.dumps(report, indent=2) + "\n")
    return reports


def given_values(archive: Path, work: Path, output: Path) -> dict[str, str]:
    """Return the paths that placeholders of a table stand for."""
    paths = {
        "archive": archive,
        "work": work,
        "data": work / "data",
        "metrics": work / "metrics",
        "parts": output,
        "root": LAB.parents[1],
        "lab": LAB,
    }
    return {name: str(path.absolute()) for name, path in paths.items()}


def describe_machine(gpu_id: int) -> dict[str, Any]:
    """Return the card's name, or "cpu", and the versions of libraries; found by a process of its
    own, without which this one would take memory of the card."""
    path = os.pathsep.join(sys.path)
    found = subprocess.run(
        [sys.executable, "-c", MACHINE, str(gpu_id)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        return dict(json.loads(found.stdout.splitlines()[-1]))
    except (ValueError, IndexError):
        return {"device": f"unknown: {found.stderr[-TAIL:]}", "versions": {}}


def start_process(words: Sequence[str], log: Path) -> subprocess.Popen:
    """Start a command line in a group of its own, with its output in a file."""
    with log.open("ab") as file_:
        return subprocess.Popen(
            words, stdout=file_, stderr=file_, stdin=subprocess.DEVNULL, start_new_session=True
        )


def read_results(stage: Stage, values: Mapping[str, str]) -> dict[str, Any]:
    """Return the numbers at the top of each JSON file of the stage's results that is there."""
    found = {}
    for name, path in stage.results.items():
        with suppress(OSError, ValueError, AttributeError):
            content = json.loads(Path(filled(path, values)).read_text(encoding="utf8"))
            found[name] = {
                key: value for key, value in content.items() if isinstance(value, (int, float))
            }
    return found


def _limit(stages: Sequence[Stage], left: float) -> float:
    return left * stages[0].seconds / sum(stage.seconds for stage in stages)


def _run_stage(
    stage: Stage,
    texts: Mapping[str, str],
    values: Mapping[str, str],
    report: dict[str, Any],
    limit: float,
    output: Path,
    signals: Sequence[str],
    start: Start,
) -> None:
    log = output / f"{stage.name}.log"
    log.write_bytes(b"")
    grace = min(GRACE, limit * GRACE_SHARE) if stage.saves else 0.0
    cut_at = time.monotonic() + limit - grace
    # The time of day, for the schedule of a training's learning rate.
    values = {**values, "until": f"{time.time() + cut_at - time.monotonic():.1f}"}
    report["status"] = DONE
    for group in stage.groups():
        if report["status"] != DONE:
            break
        began = time.monotonic()
        lines = [words_of(line, texts, values) for line in group]
        processes = [start(words, log) for words in lines]
        was_cut = _wait(processes, cut_at, signals)
        for words, process in zip(lines, processes, strict=True):
            code = process.returncode
            report["lines"].append(
                {
                    "line": shlex.join(words),
                    "seconds": round(time.monotonic() - began, 2),
                    "returncode": code,
                }
            )
            if was_cut:
                report["status"] = CUT
            elif code and report["status"] == DONE:
                report["status"] = FAILED
                report["reason"] = _tail(log).rpartition("\n")[2]
    report["output"] = _tail(log)


def _tail(log: Path) -> str:
    return log.read_text(encoding="utf8", errors="replace")[-TAIL:].strip()


def _wait(processes: Sequence[subprocess.Popen], cut_at: float, signals: Sequence[str]) -> bool:
    """Wait for all to end; at `cut_at`, or when this process is told to end, make them. RETURNS:
    whether it did."""
    ends = [
        (cut_at, signal.SIGINT),
        (cut_at + GRACE, signal.SIGTERM),
        (cut_at + GRACE + TERM_SECONDS, signal.SIGKILL),
    ]
    was_cut = False
    while running := [process for process in processes if process.poll() is None]:
        now = time.monotonic()
        if signals and not was_cut:
            ends = [(now + at - cut_at, each) for at, each in ends]
        if ends and now >= ends[0][0]:
            was_cut = True
            for process in running:
                _signal(process, ends[0][1])
            ends.pop(0)
        time.sleep(POLL_SECONDS)
    return was_cut


def _signal(process: subprocess.Popen, number: int) -> None:
    with suppress(ProcessLookupError):
        if number == signal.SIGKILL:
            # Also the processes that it started.
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)


@contextmanager
def _signals() -> Iterator[list[str]]:
    """Names of the signals to end that this process got. Processes that it starts react to them as
    by default."""
    got: list[str] = []

    def note(number: int, _: FrameType | None) -> None:
        got.append(signal.Signals(number).name)

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield got
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _result(machine: Future) -> dict[str, Any]:
    found: dict[str, Any] = machine.result()
    return found


def _write(reports: Sequence[dict[str, Any]], output: Path, collected: Path | None) -> None:
    """Write the last report to its own file, and a line for each to the log, which is short."""
    latest = reports[-1]
    write_text(output / f"{latest['stage']}.json", json.dumps(latest, indent=2) + "\n")
    keys = ("stage", "status", "reason", "limit", "seconds", "device", "gpu", "results")
    lines = [json.dumps({key: report[key] for key in keys if key in report}) for report in reports]
    for folder in filter(None, (output, collected)):
        write_text(folder / LOG, "\n".join(lines) + "\n")
    if collected is not None:
        write_text(collected / REPORT, json.dumps({"stages": list(reports)}, indent=2) + "\n")
