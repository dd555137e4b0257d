"""Calibration and precision of a linker's confidence, fitted without gold mentions.

    python benchmarks/confidence.py PIPELINE GOLD.spacy [--label Disease] [--texts] [--as-built]
    python benchmarks/confidence.py PIPELINE GOLD.spacy --as-built --curve coverage.json --name NCBI

Mentions with another label than the given ones count as mentions without an entity. With `--others
STORE`, the ontology of their gold ids, they have the entities with a name of their gold entity, in
any spelling: a vocabulary of chemicals may have the proteins that a corpus annotates as genes. With
`--alike`, names of entities with the same label count, too: those of the gene in other species.

The confidence is fitted again for each seed; with `--texts` the fraction of mentions without an
entity is fitted to the mentions of GOLD and their labels, without their ids.

For each seed, of all mentions and of those with an entity ("known"): the expected calibration error
of the best candidate's confidence in ten bins (ECE), and the area under the precision-coverage
curve (AUPC), the mean precision over all cut-offs. At the fitted `min_confidence`: the fraction of
mentions with a correct best candidate that are linked, the fraction of mentions without an entity
that are linked, and the precision of all links. `--curve` adds the precision-coverage curve of the
mentions with an entity to a JSON file, which `docs/pictures.py` draws.
"""

import json
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from spacy.language import Language
from wasabi import msg

from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.evaluation.confidence import fit_confidence
from spacy_krissel.kb.prototype_kb import PrototypeKB
from spacy_krissel.lexical.ngrams import Spellings
from spacy_krissel.mentions.annotations import CANDIDATES, spans_of
from spacy_krissel.mentions.gold_mentions import split_gold
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.pipeline.pipeline_io import find_linker, load_pipeline

N_BINS = 10
# Points of a curve, from this fraction of the mentions to all of them.
N_POINTS, MIN_COVERAGE = 50, 0.1
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
    others: Annotated[
        Path | None, typer.Option(help="Store with the gold ids of the other labels")
    ] = None,
    alike: Annotated[
        bool, typer.Option(help="Count names of entities of that store with the same label")
    ] = False,
    texts: Annotated[bool, typer.Option(help="Fit fractions without an entity to GOLD")] = False,
    seeds: Annotated[int, typer.Option(help="Number of seeds")] = 3,
    as_built: Annotated[bool, typer.Option(help="Measure the confidence of the pipeline")] = False,
    curve: Annotated[Path | None, typer.Option(help="JSON file to add the curve to")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the curve")] = None,
) -> None:
    """Print the figures of each seed."""
    nlp = load_pipeline(pipeline)
    named_alike = None
    if others is not None:
        named_alike = NamedAlike(find_linker(nlp).kb, OntologyStore(others), alike)
    if curve:
        add_curve(curve, name or gold.stem, link(nlp, gold, label, named_alike))
        return
    rows = []
    for seed in range(1 if as_built else seeds):
        if not as_built:
            fit_confidence(nlp, texts=gold if texts else None, seed=seed)
        rows.append((str(seed), *map(str, figures(nlp, gold, label, named_alike))))
    msg.table(rows, header=HEADER, divider=True, aligns=("r",) * len(HEADER))


class Links(NamedTuple):
    """One row per gold mention, of its best candidate, and the fitted `min_confidence`."""

    confidence: np.ndarray
    is_right: np.ndarray
    is_known: np.ndarray
    least: float


class NamedAlike(dict[str, set[str]]):
    """Ids of the entities that have a name of a gold entity of another ontology, by its id."""

    def __init__(self, kb: PrototypeKB, store: OntologyStore, alike: bool) -> None:
        super().__init__()
        self._kb, self._store, self._alike = kb.snapshot(), store, alike

    def __missing__(self, kb_id: str) -> set[str]:
        store = self._store
        ids = [id_ for each in split_gold(kb_id, store) if (id_ := store.resolve(each))]
        if self._alike:
            ids = [other for id_ in ids for other in store.find(store.names_of(id_)[0])]
        names = [*dict.fromkeys(name for id_ in ids for name in store.names_of(id_))]
        index = self._kb.prototypes.lexical_index
        rows = index.entities_with_spellings(Spellings.of(names)).values.tolist() if names else []
        self[kb_id] = found = {self._kb.entity_ids[row] for row in rows}
        return found


def link(
    nlp: Language, gold: Path, labels: list[str] | None, others: NamedAlike | None = None
) -> Links:
    """Link the gold mentions. others: entities of mentions with other labels; None: they have
    none."""
    linker = find_linker(nlp)
    key = linker.cfg["spans_key"]
    found, right, known = [], [], []
    docs = list(read_doc_bins(gold, nlp.vocab))
    expected = [
        [
            {linker.kb.resolve(each) for each in split_gold(span.kb_id_, linker.kb)} - {None}
            if not labels or span.label_ in labels
            else (others[span.kb_id_] if others is not None else set())
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
    return Links(np.array(found), np.array(right), np.array(known), linker.cfg["min_confidence"])


def figures(
    nlp: Language, gold: Path, labels: list[str] | None, others: NamedAlike | None = None
) -> list[object]:
    """Link the gold mentions. RETURNS: the columns after the seed."""
    confidence, is_right, is_known, least = link(nlp, gold, labels, others)
    linked = confidence >= least

    def fraction(part: np.ndarray) -> str:
        return f"{part.mean():.3f}" if len(part) else "-"

    values: list[object] = [len(is_right), int(is_known.sum())]
    for measure in (calibration_error, area):
        values += [
            f"{measure(confidence[rows], is_right[rows]):.4f}"
            for rows in (np.ones(len(is_right), dtype=bool), is_known)
        ]
    return [
        *values,
        fraction(linked[is_right]),
        fraction(linked[~is_known]),
        fraction(is_right[linked]),
        fraction(is_right[linked & is_known]),
    ]


def add_curve(path: Path, name: str, links: Links) -> None:
    """Write the curve of the mentions with an entity next to the other curves of the file.

    Its points are [coverage, precision] of the most confident links; `chosen` is the point of
    `min_confidence`. Mentions with equal confidence are one step of the curve.
    """
    confidence, is_right = links.confidence[links.is_known], links.is_right[links.is_known]
    order = np.argsort(-confidence, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(confidence[order]), -1.0))
    precision = np.cumsum(is_right[order])[ends] / (ends + 1)
    coverage = (ends + 1) / len(order)
    wanted = np.linspace(MIN_COVERAGE, 1, N_POINTS)
    rows = np.unique(np.minimum(np.searchsorted(coverage, wanted), len(ends) - 1))
    linked = confidence >= links.least
    curves = json.loads(path.read_text()) if path.exists() else {}
    curves[name] = {
        "mentions": len(order),
        "min_confidence": round(links.least, 4),
        "chosen": [round(float(linked.mean()), 4), round(float(is_right[linked].mean()), 4)],
        "points": [[round(float(coverage[i]), 4), round(float(precision[i]), 4)] for i in rows],
    }
    path.write_text(json.dumps(curves, indent=1) + "\n")


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
