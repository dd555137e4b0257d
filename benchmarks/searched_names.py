"""Searches that do less, compared with those that they replace: strict accuracy, the number of
links that differ, and the ratio of mentions per second, the better of two passes. Each case is a
pipeline, the store of its knowledge base and gold mentions:

    python benchmarks/searched_names.py PIPELINE,STORE,dev.spacy PIPELINE,STORE,train.spacy
    python benchmarks/searched_names.py --compare similar GENES,STORE,dev.spacy

`names`: the entities of each distinct name are searched once, and not for each mention in its
context, by a linker of names alone. `similar`: a name is compared by vectors with lexically similar
names alone, and not with all, in a knowledge base of many names.
"""

import json
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from unittest.mock import patch

import spacy
import typer
from linking_speed import gold_mentions, read_docs, time_pipeline
from spacy.tokens import DocBin

from spacy_krissel.evaluation.tables import markdown_table, percent
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.linker.component import KrisselLinker
from spacy_krissel.pipeline.linker.terms import vectors
from spacy_krissel.pipeline.pipeline_io import find_linker

RESULTS = Path(__file__).parent / "results"


class Compare(str, Enum):
    NAMES = "names"
    SIMILAR = "similar"


# What is replaced for each search, the one that does more first.
ATTRIBUTES: dict[Compare, tuple[Any, str]] = {
    Compare.NAMES: (KrisselLinker, "searches_names"),
    Compare.SIMILAR: (vectors, "MIN_ALIKE"),
}
SEARCHES: dict[Compare, dict[str, Any]] = {
    Compare.NAMES: {"contexts": lambda self, kb: False, "names": KrisselLinker.searches_names},
    Compare.SIMILAR: {"all": sys.maxsize, "similar": vectors.MIN_ALIKE},
}


def measured(pipeline: Path, store: OntologyStore, gold: Path, compare: Compare) -> dict[str, Any]:
    """Return the case, the fraction of correct links by each search, and how many times as fast the
    second is."""
    nlp = spacy.load(pipeline)
    find_linker(nlp).cfg["min_confidence"] = 0.0
    mentions = DocBin(store_user_data=True).from_disk(gold)
    documents = [gold_mentions(doc, store) for doc in read_docs([mentions], nlp, None)]
    links, found = {}, {}
    searches = SEARCHES[compare]
    for name in [*searches] * 2:
        docs = read_docs([mentions], nlp, None)
        with patch.object(*ATTRIBUTES[compare], searches[name]):
            run = time_pipeline(nlp, docs, documents)
        found[name] = max(run, found.get(name, run), key=lambda each: each["mentions_per_second"])
        links[name] = [ent.kb_id_ for doc in docs for ent in doc.ents]
    more, less = (run["mentions_per_second"] for run in found.values())
    return {
        "pipeline": pipeline.name,
        "gold": gold.stem,
        "mentions": run["scored"],
        "strict": {name: run["strict"] for name, run in found.items()},
        "differ": sum(one != other for one, other in zip(*links.values(), strict=True)),
        "times": less / more,
    }


def main(
    cases: Annotated[list[str], typer.Argument(help="PIPELINE,STORE,GOLD")],
    compare: Annotated[Compare, typer.Option(help="The search that does less")] = Compare.NAMES,
    output: Annotated[Path | None, typer.Option(help="Result (JSON)")] = None,
) -> None:
    """Link the gold mentions of each case by both searches."""
    rows = []
    for case in cases:
        pipeline, store, gold = map(Path, case.split(","))
        rows.append(measured(pipeline, OntologyStore(store), gold, compare))
    output = output or RESULTS / f"searched_{compare.value}.json"
    output.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf8")
    header = ("gold", "mentions", *SEARCHES[compare], "links that differ", "times as fast")
    shown = [
        (
            row["gold"],
            f"{row['mentions']:,}",
            *map(percent, row["strict"].values()),
            str(row["differ"]),
            f"{row['times']:.1f}",
        )
        for row in rows
    ]
    print(markdown_table([header, *shown]))


if __name__ == "__main__":
    typer.run(main)
