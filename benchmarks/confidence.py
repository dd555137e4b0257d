"""Calibration and precision of a linker's confidence, fitted without gold mentions.

    python benchmarks/confidence.py PIPELINE GOLD.spacy [--label Disease] [--texts] [--as-built]

Mentions with another label than the given ones count as mentions without an entity. The confidence
is fitted again for each seed; with `--texts` the fraction of mentions without an entity is fitted
to the mentions of GOLD and their labels, without their ids.

For each seed, of all mentions and of those with an entity ("known"): the expected calibration error
of the best candidate's confidence in ten bins (ECE), and the area under the precision-coverage
curve (AUPC), the mean precision over all cut-offs. At the fitted `min_confidence`: the fraction of
mentions with a correct best candidate that are linked, the fraction of mentions without an entity
that are linked, and the precision of all links.
"""

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from spacy.language import Language
from wasabi import msg

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.evaluation.confidence import fit_confidence
from spacy_krissel.mentions.annotations import CANDIDATES, spans_of
from spacy_krissel.mentions.gold_mentions import split_gold
from spacy_krissel.pipeline.pipeline_io import find_linker, load_pipeline

N_BINS = 10
HEADER = (
    "seed",
    "mentions",
    "known",
    "ECE",
    "ECE known",
    "AUPC",
    "AUPC known",
    "correct linked",
    "others linked",
    "precision",
    "precision known",
)


def main(
    pipeline: Annotated[Path, typer.Argument(help="Pipeline with a linker")],
    gold: Annotated[Path, typer.Argument(help="Docs with gold mentions (.spacy)")],
    label: Annotated[
        list[str] | None, typer.Option(help="Label of mentions that may have an entity")
    ] = None,
    texts: Annotated[bool, typer.Option(help="Fit fractions without an entity to GOLD")] = False,
    seeds: Annotated[int, typer.Option(help="Number of seeds")] = 3,
    as_built: Annotated[bool, typer.Option(help="Measure the confidence of the pipeline")] = False,
) -> None:
    """Print the figures of each seed."""
    nlp = load_pipeline(pipeline)
    rows = []
    for seed in range(1 if as_built else seeds):
        if not as_built:
            fit_confidence(nlp, texts=gold if texts else None, seed=seed)
        rows.append((str(seed), *map(str, figures(nlp, gold, label))))
    msg.table(rows, header=HEADER, divider=True, aligns=("r",) * len(HEADER))


def figures(nlp: Language, gold: Path, labels: list[str] | None) -> list[object]:
    """Link the gold mentions. RETURNS: the columns after the seed."""
    linker = find_linker(nlp)
    least, key = linker.cfg["min_confidence"], linker.cfg["spans_key"]
    found, right, known = [], [], []
    docs = list(read_doc_bins(gold, nlp.vocab))
    expected = [
        [
            {linker.kb.resolve(each) for each in split_gold(span.kb_id_, linker.kb)} - {None}
            if not labels or span.label_ in labels
            else set()
            for span in spans_of(doc, key)
        ]
        for doc in docs
    ]
    with nlp.select_pipes(enable=[linker.name]):
        for doc, ids in zip(nlp.pipe(docs), expected, strict=True):
            for span, own in zip(spans_of(doc, key), ids, strict=True):
                best = next(iter(span._.get(CANDIDATES)), {"id": "", "confidence": 0.0})
                found.append(best["confidence"])
                right.append(best["id"] in own)
                known.append(bool(own))
    confidence, is_right, is_known = np.array(found), np.array(right), np.array(known)
    linked = confidence >= least

    def fraction(part: np.ndarray) -> str:
        return f"{part.mean():.3f}" if len(part) else "-"

    values: list[object] = [len(right), int(is_known.sum())]
    for measure in (calibration_error, area):
        values += [
            f"{measure(confidence[rows], is_right[rows]):.4f}"
            for rows in (np.ones(len(right), dtype=bool), is_known)
        ]
    return [
        *values,
        fraction(linked[is_right]),
        fraction(linked[~is_known]),
        fraction(is_right[linked]),
        fraction(is_right[linked & is_known]),
    ]


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Return the mean difference of confidence and precision in ten bins."""
    bins = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    sums = np.bincount(bins, confidence - right.astype(float))
    return float(np.abs(sums).sum() / max(len(right), 1))


def area(confidence: np.ndarray, right: np.ndarray) -> float:
    """Return the mean precision of the most confident links, over all their numbers."""
    order = np.argsort(-confidence, kind="stable")
    return float((np.cumsum(right[order]) / np.arange(1, len(right) + 1)).mean())


if __name__ == "__main__":
    typer.run(main)
