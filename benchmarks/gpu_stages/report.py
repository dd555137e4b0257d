"""The file of one stage, written again after each step, and the sizes of full and toy runs."""

import json
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from spacy_krissel.util.atomic import write_text

# Characters kept of an error or of a log: their ends.
MAX_TEXT = 2000


class Size(NamedTuple):
    """Sizes of one run.

    words: in the vocabulary. square: side of the matrices whose product is timed.
    pairs: entities per training batch, each with two mentions and a reference.
    chunks: views per chunk of cached gradients; None: all at once.
    prototypes: numbers of vectors searched by FAISS; the last one is searched exactly, too.
    nprobe: lists that an IVF search reads, tried one after another.
    gradient: values summed between two cards.
    """

    layers: int = 12
    width: int = 768
    between: int = 3072
    heads: int = 12
    words: int = 30_000
    square: int = 8192
    pairs: int = 256
    chunks: tuple[int | None, ...] = (64, 256, None)
    steps: int = 10
    batch_pieces: int = 32_768
    mentions: int = 4096
    rounds: int = 5
    prototypes: tuple[int, ...] = (1_000_000, 10_000_000)
    nprobe: tuple[int, ...] = (16, 64, 256)
    top_k: int = 100
    gradient: int = 110_000_000


TOY = Size(
    layers=2,
    width=32,
    between=64,
    heads=4,
    words=500,
    square=64,
    pairs=4,
    chunks=(4, None),
    steps=1,
    batch_pieces=256,
    mentions=16,
    rounds=2,
    prototypes=(2000, 4000),
    nprobe=(4, 16),
    top_k=10,
    gradient=1000,
)


class Skipped(Exception):
    """The stage cannot run here; the message says why."""


class Report:
    """Results of one stage: `found` is the content of its file.

    rows: one dictionary per step.
    errors: by step, the end of the traceback. A stage with errors has failed.
    """

    def __init__(self, path: Path, head: dict[str, Any]) -> None:
        self.path = path
        self.toy: bool = head["settings"]["toy"]
        self.compile: bool = head["settings"]["compile"]
        self.size = TOY if self.toy else Size()
        self.found: dict[str, Any] = {**head, "rows": [], "errors": {}}
        self.found["settings"].update(self.size._asdict())

    def write(self) -> None:
        self.found["seconds"] = round(time.time() - self.found["started"], 3)
        write_json(self.path, self.found)

    @contextmanager
    def step(self, name: str, **settings: Any) -> Iterator[dict[str, Any]]:
        """Yield a new row, and write it at the end of the block. An exception is recorded as an
        error of the step, and the next step runs."""
        row = {"step": name, **settings}
        self.found["rows"].append(row)
        try:
            yield row
        except Exception:
            self.found["errors"][name] = traceback.format_exc()[-MAX_TEXT:]
        self.write()

    def finish(self, status: str) -> None:
        self.found.update(status=status, complete=status == "done")
        self.write()


def write_json(path: Path, found: dict[str, Any]) -> None:
    write_text(path, json.dumps(found, indent=2) + "\n")
