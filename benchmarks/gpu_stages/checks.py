"""Stages without a model: versions, tests marked `gpu`, and the sum of a gradient on two cards."""

import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import numpy as np
import torch

from gpu_stages.measure import bf16_rate, device_of, measured
from gpu_stages.report import MAX_TEXT, Report, Skipped

PROJECT = Path(__file__).parents[2]
MARKED = re.compile(r"\bmark\.gpu\b")


def versions(report: Report) -> None:
    """Check that torch, CuPy and FAISS compute on the card."""
    device = device_of(report)
    report.write()
    with report.step("bfloat16, FLOP") as row:
        row["per_second"] = bf16_rate(report, device)
    if device.type == "cuda":
        with report.step("card") as row:
            card = torch.cuda.get_device_properties(device)
            row.update(
                gib=card.total_memory / 2**30,
                capability=f"{card.major}.{card.minor}",
                cuda=torch.version.cuda,
            )
        with report.step("CuPy") as row:
            import cupy

            row.update(cuda=cupy.cuda.runtime.runtimeGetVersion(), sum=int(cupy.arange(1000).sum()))
            assert row["sum"] == 499_500
    with report.step("FAISS, 1,000 vectors") as row:
        if find_spec("faiss") is None:
            row["note"] = "FAISS is not installed"
            return
        from spacy_krissel.index.faiss_index import FaissIndex

        rng = np.random.default_rng(0)
        vectors = rng.standard_normal((1000, report.size.width)).astype(np.float16)
        index = FaissIndex("flat", device="cpu" if report.toy else "cuda:0", float16=True)
        index.build(vectors)
        found = index.search(vectors[:100].astype(np.float32), 1)[1][:, 0]
        row["recall_1"] = float((found == np.arange(100)).mean())
        assert row["recall_1"] == 1


def tests(report: Report) -> None:
    """Run the tests marked `gpu`, file by file. A file may take half of the stage's time."""
    device_of(report)
    report.write()
    files = marked_files(PROJECT / "tests")
    limit = report.found["limit"] / 2
    # Most of their time is that of imports, on the CPU.
    threads = ThreadPoolExecutor(max(1, (os.cpu_count() or 1) // 4))
    with TemporaryDirectory() as folder, threads:
        runs = [threads.submit(run_file, path, Path(folder), limit) for path in files]
        for done in as_completed(runs):
            found = done.result()
            with report.step(found.pop("file"), **found):
                # Without a card the tests are skipped: a toy run shows that they are collected.
                if found["status"] not in ("passed", "skipped" if report.toy else "passed"):
                    raise RuntimeError(f"{found['status']}: {found['text']}")


def marked_files(folder: Path) -> list[Path]:
    """Return the test files that name the marker `gpu`, sorted."""
    paths = sorted(folder.rglob("test_*.py"))
    return [path for path in paths if MARKED.search(path.read_text(encoding="utf8"))]


def run_file(path: Path, folder: Path, seconds: float) -> dict[str, Any]:
    """Run the tests of one file that are marked `gpu`.

    RETURNS: its name, its status (passed, skipped, failed, cut), the counts of its tests, and the
    end of pytest's output.
    """
    start = time.monotonic()
    name = Path(os.path.relpath(path, PROJECT)).as_posix()
    xml = folder / f"{name.replace('/', '-')}.xml"
    options = ["-q", "-m", "gpu", "-rs", "-p", "no:cacheprovider", f"--junitxml={xml}"]
    command = [sys.executable, "-m", "pytest", *options, str(path)]
    found: dict[str, Any] = {"file": name, "status": "cut"}
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    try:
        done = subprocess.run(command, cwd=PROJECT, timeout=seconds, **output)
    except subprocess.TimeoutExpired:
        return {**found, **counts, "seconds": seconds, "text": f"not finished in {seconds:.0f} s"}
    if xml.exists():
        suite = ElementTree.parse(xml).getroot().find("testsuite")
        total, *failed = (int(suite.get(name, 0)) for name in ("tests", "failures", "errors"))
        counts.update(failed=sum(failed), skipped=int(suite.get("skipped", 0)))
        counts["passed"] = total - counts["failed"] - counts["skipped"]
    # pytest's status is 5 where a whole file is skipped, as without FAISS.
    if counts["failed"] or done.returncode not in (0, 5):
        found["status"] = "failed"
    else:
        found["status"] = "passed" if counts["passed"] else "skipped"
    text = done.stdout[-MAX_TEXT:] if found["status"] != "passed" or counts["skipped"] else ""
    return {**found, **counts, "seconds": time.monotonic() - start, "text": text}


def all_reduce(report: Report) -> None:
    """Sum a float32 gradient over two processes, each with a card."""
    device_of(report)
    if not report.toy and torch.cuda.device_count() < 2:
        raise Skipped("needs two cards")
    backend = "gloo" if report.toy else "nccl"
    values = report.size.gradient
    with (
        report.step("values", backend=backend, values=values) as row,
        TemporaryDirectory() as folder,
    ):
        torch.multiprocessing.spawn(reduce_in_process, (backend, values, folder), nprocs=2)
        row["seconds"] = float((Path(folder) / "seconds").read_text())
        row["per_second"] = values / row["seconds"]
        row["gb_per_second"] = 4 * row["per_second"] / 1e9


def reduce_in_process(rank: int, backend: str, values: int, folder: str, times: int = 10) -> None:
    """Sum over both processes; the first writes the seconds of one sum into `folder`."""
    if backend == "nccl":
        torch.cuda.set_device(rank)
    torch.distributed.init_process_group(backend, f"file://{folder}/store", rank=rank, world_size=2)
    device = torch.device("cuda" if backend == "nccl" else "cpu")
    gradient = torch.ones(values, device=device)
    torch.distributed.all_reduce(gradient)
    assert float(gradient[0]) == 2
    with measured(device) as found:
        for _ in range(times):
            torch.distributed.all_reduce(gradient)
    if rank == 0:
        (Path(folder) / "seconds").write_text(str(found["seconds"] / times))
    torch.distributed.destroy_process_group()
