"""Exact search of a pipeline's knowledge base by its mentions, in float32 and with bfloat16 for the
first pass.

    python benchmarks/exact_bfloat16.py PIPELINE --gold dev.spacy

Prints the processor seconds of each, the best of several passes, and how many of the rows found are
the same. Set OMP_NUM_THREADS to 1: threads that wait count too.
"""

import time
from pathlib import Path
from typing import Annotated
from unittest.mock import patch

import numpy as np
import spacy
import typer
from spacy.tokens import DocBin

from spacy_krissel.index import bfloat16, exact
from spacy_krissel.index.bfloat16 import has_bfloat16


def main(
    pipeline: Annotated[
        Path, typer.Argument(help="Pipeline with a krissel_linker and its knowledge base")
    ],
    gold: Annotated[list[Path], typer.Option(help=".spacy file with gold mentions, repeatable")],
    k: Annotated[list[int], typer.Option(help="Number of results, repeatable")] = [8, 64],  # noqa: B006
    passes: Annotated[int, typer.Option(help="Timed passes; the best counts")] = 4,
) -> None:
    nlp = spacy.load(pipeline)
    linker = nlp.get_pipe("krissel_linker")
    docs = [doc for path in gold for doc in DocBin().from_disk(path).get_docs(nlp.vocab)]
    queries = linker.kb.queries(
        linker.encode([view for doc in docs for view in linker.views(doc, doc.ents)])
    )
    index = exact.ExactIndex()
    index.build(np.array(linker.kb.vectors))
    print(
        f"{len(queries):,} queries, {len(index):,} vectors of {queries.shape[1]} values, bfloat16: "
        f"{has_bfloat16()}\n"
    )
    print(
        "| k | float32, s | bfloat16 first, s | the same rows, % |\n| ---: | ---: | ---: | ---: |"
    )
    for n in k:
        seconds, rows = [], []
        for fewest in (len(queries) + 1, 1):
            with patch.object(bfloat16, "MIN_QUERIES", fewest):
                times = []
                for _ in range(passes):
                    start = time.process_time()
                    found = index.search(queries, n)[1]
                    times.append(time.process_time() - start)
            seconds.append(min(times))
            rows.append(found)
        same = 100 * float((rows[0] == rows[1]).mean())
        print(f"| {n} | {seconds[0]:.2f} | {seconds[1]:.2f} | {same:.2f} |")


if __name__ == "__main__":
    typer.run(main)
