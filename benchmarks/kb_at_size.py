"""A knowledge base at the size of UMLS: built, opened, searched, shared by two processes, and its
index tuned.

Entities, prototypes and vectors are synthetic: vectors of an entity lie around its centre, entities
around the centres of groups, groups around those of fields, all of unit length. They are written by
`fill_kb` and `PrototypeKB.to_disk`. Each step runs in its own process.

    python benchmarks/kb_at_size.py FOLDER
    python benchmarks/kb_at_size.py FOLDER --entities 35000 --prototypes 100000 --index ivf_sq8
"""

import json
import multiprocessing
import os
import platform
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import typer
from spacy.vocab import Vocab
from wasabi import msg

from spacy_krissel.building.fill import fill_kb
from spacy_krissel.building.tune import tuning_lines
from spacy_krissel.commands.tune_pipeline import tune_index
from spacy_krissel.kb.candidates import candidate_dicts
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.kb.prototype_table import Prototype
from spacy_krissel.views import View, name_view

RESULT = Path(__file__).parent / "results" / "kb_at_size.json"
MIB = 2**20
# On Linux in KiB, on macOS in bytes.
UNIT = 1 if sys.platform == "darwin" else 2**10
FIELDS, GROUP_ENTITIES = 200, 100
# Distance of groups from their field, entities from their group and prototypes from their entity.
GROUP_SPREAD, ENTITY_SPREAD, PROTOTYPE_SPREAD = 0.8, 0.7, 0.5
# Entities whose offsets are drawn together.
CHUNK = 4096
# One of this many entities has its first name from the previous entity.
SHARING = 20


class MadeEntity(NamedTuple):
    id: str
    name: str
    types: tuple[str, ...]


class MadeSource:
    """Synthetic source for `fill_kb`: entities, and prototypes spread evenly over them."""

    use_references = reference_prototypes = mentions_only = details = False
    ontology = SimpleNamespace(manifest={"info": {}})
    made_with: ClassVar[dict[str, Any]] = {}

    def __init__(self, entities: int, prototypes: int) -> None:
        self.n_entities = entities
        self.n_prototypes = prototypes

    def entities(self) -> Iterator[MadeEntity]:
        for row in range(self.n_entities):
            yield MadeEntity(f"C{row:07}", f"disorder {row}", (f"T{row % 127:03}",))

    def prototypes(self) -> Iterator[Prototype]:
        for row in range(self.n_entities):
            for number in range(self.first(row), self.first(row + 1)):
                index = number - self.first(row)
                if index:
                    view = View(
                        f"Of {row % 97} patients, {index} had ",
                        f"disorder {row}",
                        " when they were seen",
                    )
                    yield Prototype(f"C{row:07}", "mention", view)
                else:
                    yield Prototype(
                        f"C{row:07}", "name", name_view(f"disorder {row - (row % SHARING == 1)}")
                    )

    def first(self, row: int) -> int:
        """Return the row of an entity's first prototype."""
        return row * self.n_prototypes // self.n_entities


class Vectors:
    """Vectors of synthetic prototypes, the same at each call."""

    def __init__(self, source: MadeSource, width: int, seed: int) -> None:
        self.source = source
        self.width = width
        self.seed = seed
        n_groups = source.n_entities // GROUP_ENTITIES + 1
        rng = np.random.default_rng([seed, 0])
        fields = _unit(rng.standard_normal((FIELDS, width)))
        self.groups = _unit(
            fields[rng.integers(0, FIELDS, n_groups)] + self._noise(rng, n_groups, GROUP_SPREAD)
        )
        self._next = 0
        self._chunks: dict[int, np.ndarray] = {}

    def encode(self, views: Sequence[View]) -> np.ndarray:
        """Return the vectors of the next prototypes: (len(views), width) float32. Replaces an
        encoder."""
        numbers = np.arange(self._next, self._next + len(views))
        self._next += len(views)
        return self.at(numbers, np.random.default_rng([self.seed, 1, int(numbers[0])]))

    def at(self, numbers: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return vectors of the entities of the prototypes `numbers` (n,): (n, width), the noise
        from `rng`."""
        source = self.source
        rows = ((numbers + 1) * source.n_entities - 1) // source.n_prototypes
        rows = rows - (
            (rows % SHARING == 1) & (numbers == rows * source.n_prototypes // source.n_entities)
        )
        return _unit(self._centres(rows) + self._noise(rng, len(rows), PROTOTYPE_SPREAD)).astype(
            np.float32
        )

    def _centres(self, rows: np.ndarray) -> np.ndarray:
        offsets = np.empty((len(rows), self.width), dtype=np.float32)
        for chunk in np.unique(rows // CHUNK).tolist():
            if chunk not in self._chunks:
                if len(self._chunks) > 8:
                    self._chunks.clear()
                rng = np.random.default_rng([self.seed, 2, chunk])
                self._chunks[chunk] = self._noise(rng, CHUNK, ENTITY_SPREAD)
            inside = rows // CHUNK == chunk
            offsets[inside] = self._chunks[chunk][rows[inside] % CHUNK]
        # Neighbours in the order of ids are no neighbours in space.
        return _unit(self.groups[(rows * 2_654_435_761) % len(self.groups)] + offsets)

    def _noise(self, rng: np.random.Generator, rows: int, spread: float) -> np.ndarray:
        """Return vectors (rows, width) of about the length `spread`."""
        return rng.standard_normal((rows, self.width), dtype=np.float32) * np.float32(
            spread / self.width**0.5
        )


def main(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the knowledge base, written if missing")
    ],
    entities: Annotated[int, typer.Option(help="Number of entities")] = 3_500_000,
    prototypes: Annotated[int, typer.Option(help="Number of prototypes")] = 10_000_000,
    width: Annotated[int, typer.Option(help="Width of the vectors")] = 128,
    dtype: Annotated[str, typer.Option(help="float16 or float32")] = "float16",
    seed: Annotated[int, typer.Option()] = 0,
    index: Annotated[list[str], typer.Option(help="Types of index to try")] = [  # noqa: B006
        "ivf",
        "ivf_sq8",
        "ivf_pq",
    ],
    n_queries: Annotated[int, typer.Option(help="Number of queries")] = 500,
    recall: Annotated[float, typer.Option(help="Minimum recall of the chosen index")] = 0.99,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Build, open, search and tune; print the costs."""
    # Local paths are not recorded.
    arguments = [
        "FOLDER" if argument == str(folder) else Path(argument).name for argument in sys.argv[1:]
    ]
    result: dict[str, Any] = {"command": " ".join(["python benchmarks/kb_at_size.py", *arguments])}
    result["build"] = in_process(build, folder, entities, prototypes, width, dtype, seed)
    show("Build", result["build"])
    result["exact"] = opened_twice(folder, entities, prototypes, width, seed)
    show("Two processes, exact index", result["exact"])
    result["tuning"] = in_process(tuned, folder, index, n_queries, recall, seed)
    lines = result["tuning"].pop("lines")
    show("Tuning", {name: value for name, value in result["tuning"].items() if name != "trials"})
    print("\n".join(lines))
    result["chosen"] = opened_twice(folder, entities, prototypes, width, seed)
    show("Two processes, chosen index", result["chosen"])
    result["setup"] = {
        "entities": entities,
        "prototypes": prototypes,
        "width": width,
        "dtype": dtype,
        "seed": seed,
        "machine": platform.machine(),
        "processor": processor(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("spacy", "numpy", "pyarrow", "faiss-cpu")},
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")


def build(
    folder: Path, entities: int, prototypes: int, width: int, dtype: str, seed: int
) -> dict[str, Any]:
    with watched() as figures:
        source = MadeSource(entities, prototypes)
        kb = PrototypeKB(Vocab(), width, dtype=dtype)
        folder.parent.mkdir(parents=True, exist_ok=True)
        kb.scratch = folder.absolute().parent
        start = time.perf_counter()
        fill_kb(kb, source, Vectors(source, width, seed).encode)  # type: ignore[arg-type]
        figures["fill_seconds"] = time.perf_counter() - start
        start = time.perf_counter()
        kb.to_disk(folder)
        figures["save_seconds"] = time.perf_counter() - start
    figures["disk_mib"] = size(folder)
    return figures


def tuned(
    folder: Path, types: list[str], n_queries: int, recall: float, seed: int
) -> dict[str, Any]:
    with watched() as figures:
        tuning = tune_index(
            folder, n_queries=n_queries, types=types, recall=recall, seed=seed, progress=True
        )
    chosen = asdict(tuning.chosen)
    trials = [asdict(trial) for trial in tuning.trials]
    return {**figures, "chosen": chosen, "trials": trials, "lines": list(tuning_lines(tuning))}


def opened_twice(
    folder: Path, entities: int, prototypes: int, width: int, seed: int
) -> dict[str, Any]:
    """Measure opening and searching in one process, and the memory that two such processes
    share."""
    context = multiprocessing.get_context("spawn")
    pipes: list[Any] = []
    processes: list[Any] = []
    answers: list[dict[str, Any]] = []
    for _ in range(2):
        ours, theirs = context.Pipe()
        process = context.Process(
            target=serve, args=(theirs, folder, entities, prototypes, width, seed)
        )
        process.start()
        # Only the process holds the other end, so its death closes the pipe.
        theirs.close()
        answers.append(ours.recv())
        pipes.append(ours)
        processes.append(process)
    memory = []
    for pipe in pipes:
        pipe.send("measure")
        memory.append(pipe.recv())
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send("end")
        process.join()
    return {**answers[1], "first_process": answers[0], "two_processes": memory}


def serve(pipe: Any, folder: Path, entities: int, prototypes: int, width: int, seed: int) -> None:
    source = MadeSource(entities, prototypes)
    rng = np.random.default_rng([seed, 3])
    # The first of them is a name that two entities share.
    numbers = np.concatenate([[source.first(1)], rng.integers(0, prototypes, 255)])
    queries = Vectors(source, width, seed).at(numbers, rng)
    before = memory_of_this()
    start = time.perf_counter()
    kb = PrototypeKB(Vocab(), width).from_disk(folder)
    answer: dict[str, Any] = {"open_seconds": time.perf_counter() - start}
    answer["open_rss_mib"] = memory_of_this()["rss_mib"] - before["rss_mib"]
    start = time.perf_counter()
    result = kb.search(queries[:1], 16)
    candidate_dicts(kb, result)
    answer["first_link_seconds"] = time.perf_counter() - start
    start = time.perf_counter()
    candidate_dicts(kb, kb.search(queries, 16))
    answer["seconds_for_256"] = time.perf_counter() - start
    start = time.perf_counter()
    order = kb.prototype_rows(kb.entity_ids[0])
    assert len(order)
    answer["first_prototypes_of_an_entity_seconds"] = time.perf_counter() - start
    pipe.send(answer)
    while pipe.recv() == "measure":
        pipe.send(memory_of_this())


class watched:
    """Measure time and memory of the block, by the system's own figures."""

    def __enter__(self) -> dict[str, Any]:
        self._figures: dict[str, Any] = {"peak_private_mib": 0.0}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._start = time.perf_counter()
        self._thread.start()
        return self._figures

    def __exit__(self, *_: Any) -> None:
        self._end.set()
        self._thread.join()
        self._figures["seconds"] = time.perf_counter() - self._start
        self._figures["peak_rss_mib"] = (
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * UNIT / MIB
        )

    def _watch(self) -> None:
        while not self._end.wait(0.1):
            self._figures["peak_private_mib"] = max(self._figures["peak_private_mib"], anonymous())


def in_process(function: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
    """Return the function's result from a fresh process, whose peak memory is its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def anonymous() -> float:
    """Return memory of this process that is no mapped file, in MiB; 0 if the system does not report
    it."""
    return _proc("/proc/self/status").get("RssAnon", 0) / 1024


def memory_of_this() -> dict[str, float]:
    """Return rss, the process's resident memory, and pss, where shared memory is divided by the
    number of processes that share it."""
    found = _proc("/proc/self/smaps_rollup")
    private = found.get("Private_Clean", 0) + found.get("Private_Dirty", 0)
    return {
        "rss_mib": found.get("Rss", 0) / 1024,
        "pss_mib": found.get("Pss", 0) / 1024,
        "private_mib": private / 1024,
    }


def size(path: Path) -> float:
    return sum(file_.stat().st_size for file_ in path.rglob("*") if file_.is_file()) / MIB


def processor() -> str:
    names = [
        line.partition(":")[2].strip()
        for line in _lines("/proc/cpuinfo")
        if line.startswith("model name")
    ]
    return names[0] if names else platform.processor()


def show(title: str, figures: dict[str, Any]) -> None:
    msg.divider(title)
    for name, value in figures.items():
        print(
            f"{name}: {json.dumps(value) if isinstance(value, (list, dict)) else f'{value:,.2f}'}"
        )


def _proc(path: str) -> dict[str, int]:
    pairs = [line.split(":") for line in _lines(path) if line.rstrip().endswith("kB")]
    return {name: int(value.split()[0]) for name, value in pairs}


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).is_file() else []


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


if __name__ == "__main__":
    typer.run(main)
