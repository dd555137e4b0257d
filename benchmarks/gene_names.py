"""Comparison of a gene's name with lexically similar names alone, and with all. Prints strict
accuracy, all mentions linked, the number of links that differ, and microseconds of one core per
mention, the better of two passes. Each case is a pipeline of genes of several species, the store of
its knowledge base and gold mentions:

    OMP_NUM_THREADS=1 python benchmarks/gene_names.py PIPELINE,STORE,dev.spacy PIPELINE,STORE,train.spacy
"""  # noqa: E501

import json
import sys
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import spacy
import typer
from linking_speed import gold_mentions, read_docs, time_pipeline
from spacy.tokens import DocBin

from spacy_krissel.evaluation.tables import markdown_table, percent
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.linker.terms import vectors
from spacy_krissel.pipeline.pipeline_io import find_linker

RESULT = Path(__file__).parent / "results" / "gene_names.json"
# Number of prototypes from which on similar names alone are compared.
SEARCHES = {"all": sys.maxsize, "similar": vectors.MIN_ALIKE}


def measured(pipeline: Path, store: OntologyStore, gold: Path) -> dict[str, Any]:
    """Return the case, and for each search the fraction of correct links and microseconds per
    mention."""
    nlp = spacy.load(pipeline)
    find_linker(nlp).cfg["min_confidence"] = 0.0
    mentions = DocBin(store_user_data=True).from_disk(gold)
    documents = [gold_mentions(doc, store) for doc in read_docs([mentions], nlp, None)]
    links, found = {}, {}
    for name in [*SEARCHES] * 2:
        docs = read_docs([mentions], nlp, None)
        with patch.object(vectors, "MIN_ALIKE", SEARCHES[name]):
            run = time_pipeline(nlp, docs, documents)
        found[name] = max(
            run, found.get(name, run), key=lambda each: each["mentions_per_core_second"]
        )
        links[name] = [ent.kb_id_ for doc in docs for ent in doc.ents]
    return {
        "pipeline": pipeline.name,
        "gold": gold.stem,
        "mentions": found["all"]["mentions"],
        "scored": found["all"]["scored"],
        "strict": {name: run["strict"] for name, run in found.items()},
        "microseconds": {
            name: 1e6 / run["mentions_per_core_second"] for name, run in found.items()
        },
        "differ": sum(one != other for one, other in zip(*links.values(), strict=True)),
    }


def main(
    cases: Annotated[list[str], typer.Argument(help="PIPELINE,STORE,GOLD")],
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Link the gold mentions of each case by both searches."""
    rows = []
    for case in cases:
        pipeline, store, gold = map(Path, case.split(","))
        rows.append(measured(pipeline, OntologyStore(store), gold))
    output.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf8")
    header = ("gold", "mentions", *SEARCHES, *SEARCHES, "links that differ")
    shown = [
        (
            row["gold"],
            f"{row['mentions']:,}",
            *map(percent, row["strict"].values()),
            *(f"{each:,.0f}" for each in row["microseconds"].values()),
            str(row["differ"]),
        )
        for row in rows
    ]
    print(markdown_table([header, *shown]))


if __name__ == "__main__":
    typer.run(main)
