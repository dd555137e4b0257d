"""Search for the entities of each distinct name once, compared with a search per mention in its
context. A linker of names alone does the former, and did the latter. Prints strict accuracy, the
number of links that differ, and the ratio of mentions per second, the better of two passes. Each
case is a pipeline, the store of its knowledge base and gold mentions:

    python benchmarks/searched_names.py PIPELINE,STORE,dev.spacy PIPELINE,STORE,train.spacy
"""

import json
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
from spacy_krissel.pipeline.pipeline_io import find_linker

RESULT = Path(__file__).parent / "results" / "searched_names.json"
SEARCHES: dict[str, Any] = {
    "contexts": lambda self, kb: False,
    "names": KrisselLinker.searches_names,
}


def measured(pipeline: Path, store: OntologyStore, gold: Path) -> dict[str, Any]:
    """Return the case, and for each search the fraction of correct links and mentions per
    second."""
    nlp = spacy.load(pipeline)
    find_linker(nlp).cfg["min_confidence"] = 0.0
    mentions = DocBin(store_user_data=True).from_disk(gold)
    documents = [gold_mentions(doc, store) for doc in read_docs([mentions], nlp, None)]
    links, found = {}, {}
    for name in [*SEARCHES] * 2:
        docs = read_docs([mentions], nlp, None)
        with patch.object(KrisselLinker, "searches_names", SEARCHES[name]):
            run = time_pipeline(nlp, docs, documents)
        found[name] = max(run, found.get(name, run), key=lambda each: each["mentions_per_second"])
        links[name] = [ent.kb_id_ for doc in docs for ent in doc.ents]
    strict, rates = (
        {name: run[key] for name, run in found.items()} for key in ("strict", "mentions_per_second")
    )
    return {
        "pipeline": pipeline.name,
        "gold": gold.stem,
        "mentions": found["names"]["scored"],
        "strict": strict,
        "differ": sum(one != other for one, other in zip(*links.values(), strict=True)),
        "times": rates["names"] / rates["contexts"],
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
    header = ("gold", "mentions", "by contexts", "by names", "links that differ", "times as fast")
    shown = []
    for row in rows:
        strict = map(percent, row["strict"].values())
        shown.append(
            (
                row["gold"],
                f"{row['mentions']:,}",
                *strict,
                str(row["differ"]),
                f"{row['times']:.1f}",
            )
        )
    print(markdown_table([header, *shown]))


if __name__ == "__main__":
    typer.run(main)
