"""Mining with all names of a UMLS-sized store: memory, MB of text per second, two processes, and
four peers.

The texts are synthetic: words of the store's names with their frequencies, and some whole names.
Ours is `mine` from files to shards, in its own process; its rate is that of reading, matching and
sampling, without building the table of names, which is done once. The peers only match, texts in
memory, with the number of names in `--peer-names`, and are compared with `mine` with the same
names. The best of `--repeats` runs counts, since other load makes some slower.

    python benchmarks/mining_rate.py run STORE --peer-python PYTHON --peer-names 1000000
"""

import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer

from spacy_krissel.mining.mine import mine
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.store import OntologyStore, write_store

RESULT = Path(__file__).parent / "results" / "mining_rate.json"
PEER_SCRIPT = Path(__file__).with_name("matcher_peers.py")
PEERS = ("phrasematcher", "flashtext", "ahocorasick_rs", "pyahocorasick")
# On Linux in KiB, on macOS in bytes.
UNIT = 2**20 if sys.platform == "darwin" else 2**10
# Fraction of a text's words that begin a name, and the number of words per text.
NAMES, WORDS = 0.04, 200
# Bytes of text per file.
FILE_BYTES = 10**7
app = typer.Typer(add_completion=False)


@app.command("run")
def run(
    store: Annotated[Path, typer.Argument(help="Ontology store")],
    megabytes: Annotated[int, typer.Option(help="MB of text for our matcher")] = 400,
    peer_megabytes: Annotated[int, typer.Option(help="MB of text for the peers")] = 4,
    peer_python: Annotated[
        Path | None, typer.Option(help="The python of an environment with the peers")
    ] = None,
    peer_names: Annotated[int, typer.Option(help="Number of names of the peers")] = 1_000_000,
    processes: Annotated[int, typer.Option(help="Number of processes of our second run")] = 2,
    repeats: Annotated[int, typer.Option(help="Runs of each", min=1)] = 2,
    seed: Annotated[int, typer.Option(help="Random seed of the texts")] = 0,
    folder: Annotated[
        Path | None, typer.Option(help="Folder for temporary texts and shards")
    ] = None,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Mine made-up texts, match them by the peers, and print rates, memory and ratios."""
    opened = OntologyStore(store)
    result: dict[str, Any] = {"command": " ".join(["python", *sys.argv])}
    with TemporaryDirectory(prefix="krissel-", dir=folder) as temporary:
        texts, few = Path(temporary) / "texts", Path(temporary) / "few"
        write_texts(opened, texts, megabytes * 10**6, seed)
        write_texts(opened, few, peer_megabytes * 10**6, seed)
        shards, several = Path(temporary) / "shards", f"{processes} processes"
        runs: dict[str, list[str]] = {
            "one": mining(store, texts, shards, 1),
            several: mining(store, texts, shards, processes),
        }
        if peer_python is not None:
            some, names = Path(temporary) / "some", Path(temporary) / "names.txt"
            write_store(first_entities(opened, peer_names), some)
            lines = [name for _, name, _ in OntologyStore(some).names(shared=False)]
            names.write_text("\n".join(lines) + "\n", encoding="utf8")
            runs["one, the peers' names"] = mining(some, texts, shards, 1)
            for peer in PEERS:
                # This package is not in their environment, and is not to be found there.
                runs[peer] = [str(peer_python), "-I", str(PEER_SCRIPT), peer, str(names), str(few)]
        found: dict[str, list[dict[str, Any]]] = {title: [] for title in runs}
        for _ in range(repeats):
            for title, command in runs.items():
                shutil.rmtree(shards, ignore_errors=True)
                found[title].append(last_line(command))
        for title, answers in found.items():
            best = max(answers, key=lambda answer: answer["mb_per_second"])
            result[title] = {**best, "all": [answer["mb_per_second"] for answer in answers]}
    result["setup"] = {
        "megabytes": megabytes,
        "peer_megabytes": peer_megabytes,
        "seed": seed,
        "versions": {name: version(name) for name in ("numpy", "pyarrow")},
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print(table(result, several))


@app.command("mine")
def mine_once(store: Path, texts: Path, output: Path, processes: int) -> None:
    """Mine, and print the costs (JSON)."""
    import resource

    report = mine(OntologyStore(store), texts, output, n_process=processes)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / UNIT
    # Of the largest of the other processes; what they share with the first is counted in each.
    others = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / UNIT
    found = {"names": report.manifest["names"]["searched"], "mb_per_second": report.mb_per_second}
    found.update(
        seconds=report.seconds, match_seconds=report.match_seconds, mib=peak, mib_of_others=others
    )
    print(json.dumps({**found, "matches": report.manifest["counts"]["mentions_found"]}))


def write_texts(store: OntologyStore, folder: Path, n_bytes: int, seed: int) -> None:
    """Write texts of `WORDS` words or names each, until they have `n_bytes`, in several files."""
    draw = Random(seed)
    names = [draw.choice(store.entity_at(draw.randrange(len(store))).names) for _ in range(20_000)]
    words = [word for name in names for word in name.split()]
    folder.mkdir()
    number = 0
    for start in range(0, n_bytes, FILE_BYTES):
        with (folder / f"{start // FILE_BYTES:05}.jsonl").open("w", encoding="utf8") as file_:
            written = 0
            while written < min(FILE_BYTES, n_bytes - start):
                parts = [
                    draw.choice(names if draw.random() < NAMES else words) for _ in range(WORDS)
                ]
                text = " ".join(parts) + "."
                file_.write(
                    json.dumps({"id": str(number), "text": text}, ensure_ascii=False) + "\n"
                )
                written += len(text.encode("utf8"))
                number += 1


def first_entities(store: OntologyStore, names: int) -> Iterator[Entity]:
    """Return the number of leading entities that have this many names."""
    found = 0
    for entity in store:
        if found >= names:
            return
        found += len(entity.names)
        yield entity


def mining(store: Path, texts: Path, output: Path, processes: int) -> list[str]:
    return [sys.executable, __file__, "mine", str(store), str(texts), str(output), str(processes)]


def last_line(command: list[str]) -> dict[str, Any]:
    """Return the last line that a process prints, as JSON."""
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    answer: dict[str, Any] = json.loads(printed.strip().splitlines()[-1])
    return answer


def table(result: dict[str, Any], several: str) -> str:
    rows = [
        "| | names | MB of text per second | most memory, MiB |",
        "| --- | ---: | ---: | ---: |",
    ]
    for title, found in result.items():
        if isinstance(found, dict) and "mb_per_second" in found:
            rows.append(
                f"| {title} | {found['names']:,} | {found['mb_per_second']:.2f} | "
                f"{found['mib']:,.0f} |"
            )
    one = result["one"]["mb_per_second"]
    rows.append(f"\n{several}: {result[several]['mb_per_second'] / one:.2f} times one")
    for peer in PEERS:
        if peer in result:
            ratio = result["one, the peers' names"]["mb_per_second"] / result[peer]["mb_per_second"]
            rows.append(
                f"{peer} {result[peer]['version']}: ours is {ratio:.1f} times as fast with the "
                "same names"
            )
    return "\n".join(rows)


if __name__ == "__main__":
    app()
