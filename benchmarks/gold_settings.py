"""Gain of the settings for gold mentions as prototypes, each against the linker without it.

Each seed divides the documents of a gold corpus at random: two thirds become prototypes
(`add_gold`), and the last third is linked. Intervals are paired, of 95 %, over the documents of all
seeds.

    python benchmarks/gold_settings.py --linker PIPELINE --ontology STORE --gold train.spacy
"""

import random
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from spacy_krissel.building.gold_prototypes import add_gold
from spacy_krissel.evaluation.bootstrap import Bootstrap
from spacy_krissel.evaluation.gold import read_gold
from spacy_krissel.evaluation.metrics import is_strict
from spacy_krissel.evaluation.records import LinkRecord, counted
from spacy_krissel.evaluation.run import run_pipeline
from spacy_krissel.evaluation.tables import Row, markdown_table
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import configure, find_linker, load_pipeline
from spacy_krissel.pipeline.settings import LINKER

# Settings of the linker, and of `add_gold`, without each setting.
WITHOUT: dict[str, tuple[dict[str, float], dict[str, Any]]] = {
    "gold_name_weight": ({"gold_name_weight": 0.0}, {}),
    "gold_prior": ({"gold_prior": 0.0}, {}),
    "--gold-weight": ({}, {"weight": 1.0}),
    "--gold-names": ({}, {"surface_forms": False}),
}
DEFAULTS = "defaults"
# Records by the setting that is left out, or `DEFAULTS`.
Runs = dict[str, list[LinkRecord]]


def main(
    linker: Annotated[Path, typer.Option(help="Pipeline with a knowledge base")],
    ontology: Annotated[Path, typer.Option(help="Ontology store: primary ids")],
    gold: Annotated[list[Path], typer.Option(help=".spacy file with gold mentions, repeatable")],
    seeds: Annotated[int, typer.Option(help="Number of random divisions")] = 3,
) -> None:
    """Print strict accuracy with all settings, and the gain of each of them."""
    store = OntologyStore(ontology)
    rows: list[Row] = [("gold mentions", "mentions", "strict", *WITHOUT)]
    for path in gold:
        runs = [link_last_third(linker, path, store, seed) for seed in range(seeds)]
        records = {name: [each for run in runs for each in run[name]] for name in runs[0]}
        gains = (gain(records[DEFAULTS], records[name]) for name in WITHOUT)
        strict = 100 * np.mean([is_strict(each) for each in records[DEFAULTS]])
        rows.append((path.stem, f"{len(records[DEFAULTS]):,}", f"{strict:.1f}", *gains))
    print(markdown_table(rows))


def link_last_third(linker: Path, gold: Path, store: OntologyStore, seed: int) -> Runs:
    """Return the linked mentions of a random third of the documents."""
    found: Runs = {}
    for name, (settings, added) in {DEFAULTS: ({}, {}), **WITHOUT}.items():
        nlp = load_pipeline(linker)
        # Every mention is linked.
        configure(nlp, LINKER, min_confidence=0.0, **settings)
        docs = read_gold(gold, nlp)
        random.Random(seed).shuffle(docs)
        n_prototypes = 2 * len(docs) // 3
        examples = [item.doc for item in docs[:n_prototypes]]
        add_gold(find_linker(nlp).kb, examples, skip_unknown=True, **added)
        run = run_pipeline(nlp, docs[n_prototypes:], store, mentions="gold", timed_mentions=0)
        found[name] = counted(run.records)
    return found


def gain(ours: list[LinkRecord], theirs: list[LinkRecord]) -> str:
    """Return the gain in strict accuracy, in points, with its interval."""
    gains = [
        100.0 * (is_strict(one) - is_strict(other)) for one, other in zip(ours, theirs, strict=True)
    ]
    interval = Bootstrap([each.doc for each in ours]).interval(gains, np.ones(len(gains)))
    low, high = interval or (0.0, 0.0)
    return f"{np.mean(gains):+.2f} ({low:+.2f} to {high:+.2f})"


if __name__ == "__main__":
    typer.run(main)
