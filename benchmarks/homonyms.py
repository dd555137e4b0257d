"""Homonym disambiguation of a table of genes as large as NCBI Gene's.

The table is made up, with a seed and while it is written: genes of many species, whose symbols and full names are those
of gene families and so shared across species, with locus tags of their own, and with symbols of other families among
their synonyms, which makes some names homonyms within a species too. Written as a store and disambiguated; what is
printed is the speed, the peak memory of the whole process, and the figures of BELHD's Table 2.

    python benchmarks/homonyms.py 10000000
"""

import json
import os
import platform
import random
import resource
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

import typer
from wasabi import msg

from spacy_krissel.ontology.build import build_ontology
from spacy_krissel.ontology.entity import Entity
from spacy_krissel.ontology.homonyms.shared_names import homonym_figures
from spacy_krissel.ontology.store import write_store

RESULT = Path(__file__).parent / "results" / "homonyms.json"
# On Linux in KiB, on macOS in bytes.
UNIT = 2**20 if sys.platform == "darwin" else 2**10
N_SPECIES = 400
WORDS = "alpha beta gamma kinase receptor binding protein factor subunit domain zinc finger ribosomal membrane".split()


def main(
    names: Annotated[int, typer.Argument(help="Names in the table")] = 10_000_000,
    order: Annotated[str, typer.Option(help="Which other name goes first: shortest or longest")] = "shortest",
    seed: Annotated[int, typer.Option(help="Of the table")] = 0,
    folder: Annotated[Path | None, typer.Option(help="Where the stores are written, for a while")] = None,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Make a table of genes, disambiguate its homonyms, and print time, memory and what was done."""
    with TemporaryDirectory(prefix="krissel-", dir=folder) as temporary:
        start = Clock()
        store = write_store(genes(names, seed), Path(temporary) / "genes")
        written = start.lap()
        told_apart = build_ontology(store.path, Path(temporary) / "apart", disambiguate=order)
        disambiguated = start.lap()
        figures = told_apart.manifest["info"]["disambiguated"]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // UNIT
        after = homonym_figures(told_apart)
    n_names = store.manifest["names"]
    result: dict[str, Any] = {
        "names": n_names,
        "figures": figures,
        "left": after.homonyms,
        "seconds": {"write": written, "disambiguate": disambiguated},
        "peak_mib": int(peak),
        "setup": {
            "seed": seed,
            "versions": {name: version(name) for name in ("numpy", "pyarrow")},
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        },
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    before = figures["before"]
    print("| | |\n| --- | ---: |")
    for key, value in before.items():
        share = f" ({value / n_names:.1%} of names)" if key in ("pairs", "preferred", "other", "cross_species") else ""
        print(f"| {key.replace('_', ' ')} | {value:,}{share} |")
    for key in ("second_choices", "unchanged", "failures"):
        print(f"| {key.replace('_', ' ')} | {figures[key]:,} |")
    print(f"| success rate | {figures['success_rate']:.4%} |")
    for key, lap in result["seconds"].items():
        speed = n_names / lap["cpu"]
        print(f"| {key}: seconds | {lap['wall']:.0f}, of the CPU {lap['cpu']:.0f} |")
        print(f"| {key}: names a second of the CPU | {speed:,.0f} |")
    print(f"| peak memory, MiB | {peak:,} |")
    if after.homonyms != figures["failures"]:
        msg.fail(f"{after.homonyms} names are still shared, and {figures['failures']} were said to be", exits=1)


def genes(n_names: int, seed: int) -> Iterator[Entity]:
    """Genes with `n_names` names or a few more, two and a half each."""
    rng = random.Random(seed)
    n_families = n_names // 40 + 10
    # Few species have most of the genes, as few families have.
    weights = list(accumulate(1 / (rank + 20) for rank in range(N_SPECIES)))
    species = [f"{''.join(rng.choices('aeiourstlnm', k=8)).capitalize()} species{i}" for i in range(N_SPECIES)]
    n = number = 0
    while n < n_names:
        number += 1
        (own,) = rng.choices(species, cum_weights=weights)
        tag = f"LOC{100_000_000 + number}"
        kind = rng.random()
        if kind < 0.002:
            # Transfer RNAs: many of one symbol in a species, and nothing else that is known of them.
            gene = Entity(str(number), f"trn{chr(65 + rng.randrange(20))}", species=own)
        elif kind < 0.5:
            family = int(n_families * rng.random() ** 2)
            synonyms = [full_name(family)] if rng.random() < 0.6 else []
            if rng.random() < 0.5:
                # Some synonyms are in many families.
                synonyms.append(symbol(int(n_families * rng.random() ** 4)))
            gene = Entity(str(number), symbol(family), (*synonyms, tag), species=own)
        else:
            # Known by its place alone.
            gene = Entity(str(number), tag, (f"{own[:3].upper()}_{number:08}",), species=own)
        n += len(gene.names)
        yield gene


def symbol(family: int) -> str:
    letters = "".join(chr(65 + family // 26**place % 26) for place in range(4))
    return f"{letters}{family % 17}"


def full_name(family: int) -> str:
    words = (WORDS[family // len(WORDS) ** place % len(WORDS)] for place in range(3))
    return f"{' '.join(words)} {family}"


class Clock:
    """Seconds since the last lap, on the wall and of the CPU."""

    def __init__(self) -> None:
        self._last = time.perf_counter(), time.process_time()

    def lap(self) -> dict[str, float]:
        now = time.perf_counter(), time.process_time()
        wall, cpu = (end - start for end, start in zip(now, self._last, strict=True))
        self._last = now
        return {"wall": round(wall, 1), "cpu": round(cpu, 1)}


if __name__ == "__main__":
    typer.run(main)
