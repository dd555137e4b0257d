"""Service with many active corrections.

    python benchmarks/corrections_scale.py PIPELINE

For each number, a file of that many corrections is made: words of the vocabulary in synthetic
contexts, each for a random entity. Prints the seconds until the service answers: without
corrections, at the first start with them, which encodes them, and at the second. Also prints the
times of the first link and of others, of a correction and of its removal, and the memory of all
processes. Exits with code 1 if the largest number exceeds a limit: a correction or removal 50 ms
(median), a second start 10 s longer than without, a first link 1 s. Memory needs Linux (/proc).
"""

import http.client
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import spacy
import typer
from attack_service import own_bytes, processes
from kb_at_size import processor
from serving_load import start_service

from spacy_krissel.pipeline.pipeline_io import find_linker
from spacy_krissel.serving.corrections import CorrectionLog

RESULT = Path(__file__).parent / "results" / "corrections_scale.json"
MAX_CHANGE, MAX_START, MAX_FIRST = 0.05, 10.0, 1.0
# Number of words on each side of a mention, and of changes that are measured.
CONTEXT, CHANGES = 60, 20


def main(
    pipeline: Annotated[Path, typer.Argument(help="A pipeline with a linker")],
    sizes: Annotated[list[int], typer.Option(help="Corrections, repeatable")] = [  # noqa: B006
        1_000,
        10_000,
        100_000,
    ],
    workers: Annotated[int, typer.Option(help="Number of worker processes")] = 2,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Measure, and print the results."""
    rows = [measured(pipeline, n, workers) for n in (0, *sizes)]
    setup = {
        "pipeline": pipeline.name,
        "workers": workers,
        "processor": processor(),
        "cpus": os.cpu_count(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps({"rows": rows, "setup": setup}, indent=2) + "\n", encoding="utf8")
    for row in rows:
        print(json.dumps(row))
    none, last = rows[0], rows[-1]
    held = {
        "a correction": last["correct"] <= MAX_CHANGE,
        "a removal": last["undo"] <= MAX_CHANGE,
        "start": last["start"] - none["start"] <= MAX_START,
        "first link": last["first_link"] <= MAX_FIRST,
    }
    if not all(held.values()):
        sys.exit(
            f"Beyond its limit: {', '.join(name for name, is_held in held.items() if not is_held)}"
        )


def measured(pipeline: Path, n: int, workers: int) -> dict[str, Any]:
    """Return seconds with `n` active corrections."""
    said = Said(pipeline)
    row: dict[str, Any] = {"corrections": n}
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "corrections.jsonl", CorrectionLog()
        lines = [json.dumps(log.new(**said()).data()) for _ in range(n)]
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf8")
        for name in ("first_start", "start"):
            start = time.perf_counter()
            process, port = start_service(
                pipeline, "--corrections", str(path), "--workers", str(workers)
            )
            try:
                row[name] = time.perf_counter() - start
                if name == "start":
                    row |= asked(port, said)
                    row["rss"], row["pss"] = map(
                        sum, zip(*map(own_bytes, processes(process.pid)), strict=True)
                    )
            finally:
                process.terminate()
                process.wait()
    return row


def asked(port: int, said: "Said") -> dict[str, float]:
    """Return seconds of requests, sent one after the other."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)

    def ask(method: str, path: str, values: Any = None) -> Any:
        body = None if values is None else json.dumps(values).encode()
        connection.request(method, path, body, {"content-type": "application/json"})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:200]!r}")
        return json.loads(content)

    def timed(function: Callable[[], Any]) -> tuple[float, Any]:
        start = time.perf_counter()
        result = function()
        return time.perf_counter() - start, result

    def link() -> Any:
        values = said()
        mention = {"start": values["start"], "end": values["end"]}
        return ask(
            "POST", "/link", {"documents": [{"text": values["text"], "mentions": [mention]}]}
        )

    first = timed(link)[0]
    links = [timed(link)[0] for _ in range(CHANGES)]
    made = [timed(lambda: ask("POST", "/corrections", said())) for _ in range(CHANGES)]
    listed = timed(lambda: ask("GET", "/corrections"))[0]
    undone = [
        timed(lambda id_=each["id"]: ask("DELETE", f"/corrections/{id_}"))[0] for _, each in made
    ]
    corrected = [seconds for seconds, _ in made]
    return {
        "first_link": first,
        "link": median(links),
        "correct": median(corrected),
        "correct_max": max(corrected),
        "undo": median(undone),
        "undo_max": max(undone),
        "list": listed,
    }


class Said:
    """Generator of corrections: names of the vocabulary, or a few of their words, in a context of
    others."""

    def __init__(self, pipeline: Path) -> None:
        kb = find_linker(spacy.load(pipeline)).kb
        self._ids, self._names = [*kb.entity_ids], [*kb.entities.names]
        self._words = sorted({word for name in self._names for word in name.split()})
        self._random = random.Random(0)

    def __call__(self) -> dict[str, Any]:
        draw = self._random.choices
        mention = (
            draw(self._names)[0]
            if self._random.random() < 0.5
            else " ".join(draw(self._words, k=2))
        )
        left, right = (" ".join(draw(self._words, k=CONTEXT)) for _ in range(2))
        start = len(left) + 1
        return {
            "text": f"{left} {mention} {right}",
            "start": start,
            "end": start + len(mention),
            "right": draw(self._ids),
        }


if __name__ == "__main__":
    typer.run(main)
