"""The device, its own rate in bfloat16, and timers."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from gpu_stages.report import Report


def device_of(report: Report) -> torch.device:
    """Return the first card, or the CPU for a toy run. Its name goes into the report.

    Raises RuntimeError where torch finds no card.
    """
    if report.toy:
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise RuntimeError("torch finds no CUDA device; --toy runs on a CPU")
    found = {"card": torch.cuda.get_device_name(0), "cards": torch.cuda.device_count()}
    report.found.update(found)
    return torch.device("cuda", 0)


@contextmanager
def measured(device: torch.device) -> Iterator[dict[str, Any]]:
    """Fill a dictionary with the seconds and the peak memory of the block."""
    found: dict[str, Any] = {}
    if device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    yield found
    if device.type == "cuda":
        torch.cuda.synchronize()
    found["seconds"] = time.perf_counter() - start
    found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None


def bf16_rate(report: Report, device: torch.device, times: int = 50) -> float:
    """Return the FLOP per second of products of two square matrices in bfloat16."""
    side = report.size.square
    left, right = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(5):
        left @ right
    with measured(device) as found:
        for _ in range(times):
            left @ right
    rate = times * 2 * side**3 / found["seconds"]
    report.found["bf16_flop_per_second"] = rate
    return rate


def timed_rounds(
    report: Report,
    row: dict[str, Any],
    function: Callable[[Any], Any],
    inputs: Iterable[Any],
) -> None:
    """Time a function that returns arrays on the host. The first input warms up. The row gets the
    rate of the others, and is written after each."""
    first, *others = inputs
    start = time.perf_counter()
    function(first)
    row.update(first_seconds=time.perf_counter() - start, round_seconds=[])
    done = 0
    for each in others:
        start = time.perf_counter()
        function(each)
        row["round_seconds"].append(time.perf_counter() - start)
        done += len(each)
        set_rate(report, row, done / sum(row["round_seconds"]))
        report.write()


def set_rate(report: Report, row: dict[str, Any], per_second: float) -> None:
    """Set the rate of a row, and its fraction of the card's own, by the row's `flop` per unit."""
    row["per_second"] = per_second
    if "flop" in row:
        row["fraction_of_bf16"] = per_second * row["flop"] / report.found["bf16_flop_per_second"]
