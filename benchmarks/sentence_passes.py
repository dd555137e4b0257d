"""One transformer pass per sentence, with all of its mentions marked, against one pass per mention:
mentions per second of each, in one run (BELHD §4.2).

Cutting views of documents and encoding them is timed, in alternating passes over all documents, of
which the best counts. "a mention, its window" is how a linker reads by default: the text about each
mention, 64 pieces; "a mention, its sentence" reads for each mention what the first row reads once
for all of a sentence.

    python benchmarks/sentence_passes.py --encoder PATH_OR_NAME --gold ncbi-dev.spacy
"""

import json
import os
import platform
import time
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import spacy
import typer
from spacy.tokens import DocBin
from wasabi import msg

from spacy_krissel.layers.hf.transformer import TransformerEncoder
from spacy_krissel.mentions.contexts import mention_views
from spacy_krissel.views import View

RESULT = Path(__file__).parent / "results" / "sentence-passes.json"
ROWS: dict[str, dict[str, Any]] = {
    "a sentence": {"context": "sentence", "window": 128, "units": True},
    "a mention, its sentence": {"context": "sentence", "window": 128, "units": False},
    "a mention, its window": {"context": "window", "window": 64, "units": False},
}


def main(
    encoder: Annotated[str, typer.Option(help="A transformer, by name or path")],
    gold: Annotated[Path, typer.Option(help=".spacy file with gold mentions")],
    passes: Annotated[int, typer.Option(help="Timed passes of each; the best counts")] = 3,
    output: Annotated[Path, typer.Option(help="Result (JSON)")] = RESULT,
) -> None:
    """Time the ways of reading mentions, alternating, and print mentions per second and ratios."""
    nlp = spacy.blank("en")
    docs = list(DocBin(store_user_data=True).from_disk(gold).get_docs(nlp.vocab))
    n_mentions = sum(len(doc.ents) for doc in docs)
    models = {}
    for row, settings in ROWS.items():
        models[row] = TransformerEncoder(
            encoder,
            window=settings["window"],
            pooling="marker",
            units=settings["units"],
            mixed_precision=True,
        )
        models[row].initialize()
    seconds: dict[str, list[float]] = {row: [] for row in ROWS}
    for _ in range(passes + 1):
        for row, settings in ROWS.items():
            start = time.perf_counter()
            views: list[View] = []
            for doc in docs:
                views += mention_views(
                    doc, list(doc.ents), context=settings["context"], use_abbreviations=False
                )
            models[row].predict(views)
            seconds[row].append(time.perf_counter() - start)
    # The first pass of each is a warm-up.
    speed = {row: n_mentions / min(times[1:]) for row, times in seconds.items()}
    ratios = {row: speed["a sentence"] / value for row, value in speed.items()}
    result = {
        "mentions": n_mentions,
        "documents": len(docs),
        "gold": gold.name,
        "mentions_per_second": speed,
        "ratios": ratios,
        "settings": ROWS,
        "setup": {
            "passes": passes,
            "versions": {
                name: version(name) for name in ("spacy", "numpy", "torch", "transformers")
            },
            "python": platform.python_version(),
            "cpus": os.cpu_count(),
        },
    }
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(result, indent=2) + "\n", encoding="utf8")
    print("| one pass | mentions/s | the first against it |\n| --- | ---: | ---: |")
    for row in ROWS:
        print(f"| {row} | {speed[row]:,.0f} | {ratios[row]:.2f} |")
    msg.info(f"{n_mentions:,} mentions of {len(docs):,} documents ({gold.name})")


if __name__ == "__main__":
    typer.run(main)
