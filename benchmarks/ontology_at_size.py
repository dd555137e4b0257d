"""A store of UMLS's size: RRF files to store, opening, lookups, and scispaCy's knowledge base of
the same concepts.

Each part runs in its own process, and memory is the peak of that process. The files are those of
`umls_files.py`, or UMLS's own. The peer's side is its KnowledgeBase alone (`scispacy_kb.py`), which
reads concepts from JSON lines; they are written here from the store, and not timed.

    python benchmarks/umls_files.py META
    python benchmarks/ontology_at_size.py run META --scispacy-python PYTHON
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from spacy_krissel.ontology.store import OntologyStore

RESULT = Path(__file__).parent / "results" / "ontology_at_size.json"
PEER_SCRIPT = Path(__file__).with_name("scispacy_kb.py")
# On Linux in KiB, on macOS in bytes.
UNIT = 2**20 if sys.platform == "darwin" else 2**10
app = typer.Typer(add_completion=False)


@app.command("run")
def run(
    files: Annotated[Path, typer.Argument(help="Folder of the RRF files")],
    folder: Annotated[
        Path | None, typer.Option(help="Folder for the temporary store and concepts")
    ] = None,
    scispacy_python: Annotated[
        Path | None, typer.Option(help="The python of an environment with scispacy")
    ] = None,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Build a store, open it, look up ids and names, and print seconds, memory and ratios."""
    result: dict[str, Any] = {}
    with TemporaryDirectory(prefix="krissel-", dir=folder) as temporary:
        store, concepts = Path(temporary) / "store", Path(temporary) / "concepts.jsonl"
        start = time.perf_counter()
        _process(
            [
                sys.executable,
                "-m",
                "spacy",
                "krissel",
                "ontology",
                str(files),
                "--output",
                str(store),
            ]
        )
        # The only child process so far.
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / UNIT
        result["build"] = {"seconds": time.perf_counter() - start, "mib": most}
        result["open"], result["rates"] = _part("open", store), _part("rates", store)
        manifest = OntologyStore(store).manifest
        result["store"] = {
            name: manifest[name]
            for name in ("entities", "names", "shared_names", "alternative_ids")
        }
        result["store"]["mib"] = sum(file_["bytes"] for file_ in manifest["files"].values()) / 2**20
        if scispacy_python is not None:
            write_concepts(OntologyStore(store), concepts)
            result["scispacy"] = json.loads(
                _process([str(scispacy_python), str(PEER_SCRIPT), str(concepts)])
            )
    result["setup"] = {
        "versions": {name: version(name) for name in ("numpy", "pyarrow")},
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print(table(result))


@app.command("open")
def open_store(store: Path) -> None:
    """Open a store, look one id up, and print the costs (JSON)."""
    before = peak()
    start = time.perf_counter()
    opened = OntologyStore(store)
    seconds = time.perf_counter() - start
    opened.get(opened.id_at(len(opened) // 2))
    looked_up = time.perf_counter() - start
    print(
        json.dumps(
            {
                "seconds": seconds,
                "first_entity": looked_up,
                "mib": peak() - before,
                "process_mib": peak(),
            }
        )
    )


@app.command("rates")
def rates(store: Path, n: int = 50_000, seed: int = 0) -> None:
    """Look up ids and names drawn from the whole store, and print the rates per second (JSON)."""
    opened = OntologyStore(store)
    draw = Random(seed)
    rows = [draw.randrange(len(opened)) for _ in range(n)]
    entities = [opened.entity_at(row) for row in rows]
    ids, names = (
        [entity.id for entity in entities],
        [draw.choice(entity.names) for entity in entities],
    )
    timed: dict[str, Callable[[], Sequence[Any]]] = {
        "ids resolved": lambda: [opened.resolve(id_) for id_ in ids],
        "entities by id": lambda: [opened.get(id_) for id_ in ids],
        # All entities with the name.
        "entities by name": lambda: [
            opened.get(id_) for name in names for id_ in opened.find(name)
        ],
    }
    found: dict[str, Any] = {}
    for title, function in timed.items():
        start = time.perf_counter()
        answers = function()
        found[title] = len(answers) / (time.perf_counter() - start)
    print(json.dumps({"a second": found, "process_mib": peak()}))


def write_concepts(store: OntologyStore, path: Path) -> None:
    """Write the store's entities in the peer's format."""
    with path.open("w", encoding="utf8") as file_:
        for entity in store:
            record: dict[str, Any] = {
                "concept_id": entity.id,
                "canonical_name": entity.name,
                "aliases": list(entity.aliases),
            }
            record.update(types=list(entity.types), definition=entity.definition or None)
            file_.write(json.dumps(record, ensure_ascii=False) + "\n")


def table(result: dict[str, Any]) -> str:
    """Return the measurements, one row each."""
    store, build, open_, rates_ = (result[key] for key in ("store", "build", "open", "rates"))
    rows: list[list[str]] = [["", ""], ["---", "---:"]]
    rows += [[key.replace("_", " "), f"{store[key]:,.0f}"] for key in islice(store, 4)]
    rows.append(["store, MiB", f"{store['mib']:,.0f}"])
    rows.append(["files to store: seconds", f"{build['seconds']:.0f}"])
    rows.append(["files to store: most memory, MiB", f"{build['mib']:,.0f}"])
    rows.append(["opened: seconds", f"{open_['seconds']:.2f}"])
    rows.append(
        [
            "opened, and an entity read: most memory of the process, MiB",
            f"{open_['process_mib']:,.0f}",
        ]
    )
    rows += [[f"{title}, a second", f"{rate:,.0f}"] for title, rate in rates_["a second"].items()]
    if "scispacy" in result:
        peer = result["scispacy"]
        rows.append([f"scispaCy {peer['version']}: seconds to load", f"{peer['seconds']:.0f}"])
        rows.append(["scispaCy: memory for it, MiB", f"{peer['mib']:,.0f}"])
        rows.append(
            ["times as fast as scispaCy", f"{peer['seconds'] / open_['first_entity']:,.0f}"]
        )
        rows.append(["times as small as scispaCy", f"{peer['mib'] / open_['mib']:,.0f}"])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def peak() -> float:
    """Return the peak memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNIT


def _part(part: str, store: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(_process([sys.executable, __file__, part, str(store)]))
    return answer


def _process(command: list[str]) -> str:
    return (
        subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        .stdout.strip()
        .splitlines()[-1]
    )


if __name__ == "__main__":
    app()
