"""Cost of the lexical index by number of names: built in files, opened, and searched.

    python benchmarks/lexical_at_size.py STORE FOLDER --names 100000 --names 1000000 --names 8000000

Names of entities of an ontology are used in random order; if they are too few, they are repeated
with a number. Queries are some of them with a doubled letter in the middle. Each step runs in its
own process; seconds are of the processor. Writes `results/lexical_at_size.json`.
"""

import json
import os
import shutil
import time
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import numpy as np
import typer
from kb_at_size import anonymous, in_process, memory_of_this, processor, size, watched
from wasabi import msg

from spacy_krissel.lexical.arrays import lexical_arrays
from spacy_krissel.lexical.index import LexicalIndex
from spacy_krissel.ontology.store import OntologyStore

RESULT = Path(__file__).parent / "results" / "lexical_at_size.json"
N_QUERIES, BATCH, K = 2048, 512, 4
# As in `krissel_linker`: the candidates of vector search and those of lexical search.
COMPARED = 12


def main(
    store: Annotated[Path, typer.Argument(help="An ontology store")],
    folder: Annotated[Path, typer.Argument(help="Folder for temporary files")],
    names: Annotated[list[int], typer.Option(help="Number of names, repeatable")] = [  # noqa: B006
        100_000,
        1_000_000,
        8_000_000,
    ],
    seed: Annotated[int, typer.Option()] = 0,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Build, open and search an index of each size; print the costs."""
    rows = []
    for n in names:
        work = folder / f"lexical-{n}"
        work.mkdir(parents=True)
        try:
            row = {
                "names": n,
                **in_process(build, store, work, n, seed),
                **in_process(search, work),
            }
        finally:
            shutil.rmtree(work)
        msg.info(json.dumps(row))
        rows.append(row)
    result = {
        "rows": rows,
        "setup": {"processor": processor(), "cpus": os.cpu_count(), "queries": N_QUERIES},
    }
    result["setup"]["store"] = {
        name: OntologyStore(store).manifest[name] for name in ("entities", "names")
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print(markdown(rows))


def build(store: Path, work: Path, n: int, seed: int) -> dict[str, Any]:
    """Build the index of n names in `work`, with queries from them."""
    names, entities = names_of(store, n, seed)
    before, before_private = memory_of_this()["rss_mib"], anonymous()
    with TemporaryDirectory(dir=work) as scratch, watched() as figures:
        start = time.process_time()
        index = LexicalIndex(lexical_arrays(names.__getitem__, entities, directory=Path(scratch)))
        index.to_disk(work / "lexical")
        seconds = time.process_time() - start
    chosen = np.random.default_rng(seed).choice(n, min(n, N_QUERIES), replace=False)
    queries = [[names[i], int(entities[i])] for i in chosen.tolist()]
    (work / "queries.json").write_text(json.dumps(queries), encoding="utf8")
    return {
        "build_seconds": seconds,
        "build_mib": figures["peak_rss_mib"] - before,
        "build_private_mib": figures["peak_private_mib"] - before_private,
        "files_mib": size(work / "lexical"),
    }


def search(work: Path) -> dict[str, Any]:
    queries = json.loads((work / "queries.json").read_text(encoding="utf8"))
    texts, entities = (
        [doubled(name) for name, _ in queries],
        np.array([entity for _, entity in queries]),
    )
    before, before_private = memory_of_this()["rss_mib"], anonymous()
    start = time.perf_counter()
    index = LexicalIndex.from_disk(work / "lexical", 2**31)
    opened = time.perf_counter() - start
    batches = [slice(first, first + BATCH) for first in range(0, len(texts), BATCH)]
    index.search(index.vectors(texts[:1]), K)
    start = time.process_time()
    found = [index.search(index.vectors(texts[batch]), K) for batch in batches]
    searched = time.process_time() - start
    rng = np.random.default_rng(0)
    start = time.process_time()
    for batch in batches:
        asked = index.read(texts[batch])
        pairs = np.repeat(np.arange(len(asked.forms)), COMPARED)
        index.similarity(asked, pairs, rng.choice(entities, len(pairs)))
    compared = time.process_time() - start
    rows, owner = index.entities_named([name for name, _ in queries])
    is_right = (np.concatenate(found)[owner] == rows[:, None]).any(axis=1)
    is_found = np.bincount(owner[is_right], minlength=len(texts)) > 0
    return {
        "open_seconds": opened,
        "search_ms": 1000 * searched / len(texts),
        "compare_ms": 1000 * compared / len(texts),
        "found": float(is_found.mean()),
        "memory_mib": memory_of_this()["rss_mib"] - before,
        "private_mib": anonymous() - before_private,
    }


def names_of(store: Path, n: int, seed: int) -> tuple[list[str], np.ndarray]:
    """Return n names, and the row of the entity of each."""
    rows, names = zip(*((row, name) for row, name, _ in OntologyStore(store).names()), strict=True)
    order = np.random.default_rng(seed).permutation(len(names)).tolist()
    rounds = range(-(-n // len(order)))
    chosen = [
        names[i] + (f" {turn}" if turn else "")
        for turn, i in chain(*([(t, i) for i in order] for t in rounds))
    ]
    entities = np.tile(np.array(rows)[order], len(rounds)) + np.repeat(
        np.arange(len(rounds)), len(order)
    ) * (max(rows) + 1)
    return chosen[:n], entities[:n]


def doubled(name: str) -> str:
    middle = len(name) // 2
    return name[: middle + 1] + name[middle:]


def markdown(rows: list[dict[str, Any]]) -> str:
    titles = {
        "build_seconds": "built and saved, processor seconds",
        "build_mib": "memory for it, mapped files included, MiB",
        "build_private_mib": "of which not mapped",
        "files_mib": "on disk, MiB",
        "open_seconds": "opened, seconds",
        "search_ms": "found, ms a text",
        "compare_ms": f"compared with {COMPARED} entities, ms a text",
        "found": "of the 4 entities found, one has that name",
        "memory_mib": "memory after 2,048 texts, MiB",
        "private_mib": "of which not mapped",
    }
    lines = [
        "| names | " + " | ".join(f"{row['names']:,}" for row in rows) + " |",
        "| --- |" + " ---: |" * len(rows),
    ]
    for key, title in titles.items():
        digits = 3 if max(row[key] for row in rows) < 10 else 0
        lines.append(f"| {title} | " + " | ".join(f"{row[key]:,.{digits}f}" for row in rows) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    typer.run(main)
