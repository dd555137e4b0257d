"""Details of an ablation's reports beyond strict accuracy: entities seen and unseen in training,
and NIL (PEL, Tables 2 and 4)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from spacy_krissel.evaluation.bootstrap import Bootstrap
from spacy_krissel.evaluation.metrics import nil_scores
from spacy_krissel.evaluation.nil import call_nil, nil_curve, share_weights, top_scores
from spacy_krissel.evaluation.records import LinkRecord, counted, record_keys
from spacy_krissel.evaluation.tables import improvement, markdown_table, percent
from spacy_krissel.mentions.annotations import NIL

RECALL_AT = ("1", "64")
SEEN = ("all", "seen", "unseen")
NIL_FIGURES = {
    "aupr": "auPR",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "strict": "strict with NIL",
    "strict_linked": "linked",
    "recall_64": "R@64 with NIL",
}
# Maximum number of points of a drawn curve.
MAX_POINTS = 200
# Number of steps that a drawn gradient norm is averaged over.
SMOOTHED = 25

Report = Mapping[str, Any]
# Set → row → figures.
Details = dict[str, dict[str, Any]]


class TopScores(NamedTuple):
    """Input of NIL figures: the mentions of one run in the order of their keys, with the document,
    the top score and whether the gold is NIL of each (n,)."""

    keys: list[tuple[str, int, int, int]]
    docs: list[str]
    scores: np.ndarray
    is_nil: np.ndarray


def seen_figures(reports: Sequence[Report]) -> dict[str, Any]:
    """Return the number of mentions and recall at 1 and 64, for all, seen and unseen entities;
    means over the reports of several seeds. A slice without mentions has None."""
    found = {}
    for part in SEEN:
        figures = [report if part == "all" else report["slices"].get(part) for report in reports]
        recall = {
            k: _mean([None if each is None else each["recall"][k] for each in figures])
            for k in RECALL_AT
        }
        found[part] = {"n": figures[0]["n"] if figures[0] else 0, "recall": recall}
    return found


def nil_figures(
    runs: Sequence[Sequence[LinkRecord]], calibrations: Sequence[Report]
) -> dict[str, Any]:
    """Return auPR, precision, recall and F1 of NIL, accuracy over all classes and on mentions with
    an entity, recall at 64 over all classes, and precision and recall on the mentions that the
    threshold was fitted to (`fitted`); means over several seeds.

    calibrations: `Calibration.data`, one for each run: the threshold, and the fraction of NIL that
        the figures are for.
    """
    figures = [
        nil_run(run, each["threshold"], each["nil_share"])
        for run, each in zip(runs, calibrations, strict=True)
    ]
    found: dict[str, Any] = {
        key: _mean([each[key] for each in figures]) for key in (*NIL_FIGURES, "share")
    }
    after = [calibration["after"] for calibration in calibrations]
    found["fitted"] = {key: _mean([each[key] for each in after]) for key in ("precision", "recall")}
    found["thresholds"] = [calibration["threshold"] for calibration in calibrations]
    return found


def nil_run(run: Sequence[LinkRecord], threshold: float, share: float | None) -> dict[str, Any]:
    """Return the figures of one run with this threshold. `recall_64` counts mentions correctly
    called NIL, and others whose entity is among the first 64 candidates; it gives the figures of
    PEL's Table 4."""
    gold = counted(run)
    linked = [replace(each, prediction=each.ranked[0]) if each.ranked else each for each in gold]
    scores = top_scores(linked)
    assert scores is not None, "a linker's links have scores"
    called = call_nil(linked, scores, threshold)
    nil = np.array([each.prediction == NIL for each in called], dtype=bool)
    is_nil = np.array([each.gold == (NIL,) for each in called], dtype=bool)
    found = np.array(
        [not set(each.ranked[:64]).isdisjoint(each.gold) for each in called], dtype=bool
    )
    right = np.where(nil | is_nil, nil & is_nil, found)
    return {
        **nil_scores(called, share),
        "recall_64": float(np.average(right, weights=share_weights(is_nil, share))),
    }


def run_scores(records: Sequence[LinkRecord]) -> TopScores | None:
    """Return the top scores of the counted records; None if links have no scores."""
    gold = counted(records)
    scores = top_scores(gold)
    if scores is None:
        return None
    keys = list(record_keys(gold))
    order = sorted(range(len(gold)), key=keys.__getitem__)
    is_nil = np.array([gold[i].gold == (NIL,) for i in order], dtype=bool)
    return TopScores([keys[i] for i in order], [gold[i].doc for i in order], scores[order], is_nil)


def aupr_lead(
    ours: Sequence[TopScores | None], theirs: Sequence[TopScores | None], share: float | None = None
) -> dict[str, Any] | None:
    """Return auPR of `ours` minus that of `theirs`, means over their runs (seeds), on the same
    mentions, with this fraction of NIL.

    RETURNS: {"aupr": difference, "interval": its paired 95 % interval over documents}; None if a
    run has no scores.
    """
    runs = [run for run in (*ours, *theirs) if run is not None]
    if len(runs) < len(ours) + len(theirs) or any(run.keys != runs[0].keys for run in runs):
        return None
    bootstrap = Bootstrap(runs[0].docs)
    # All mentions once, and every resample.
    counts = np.concatenate((np.ones((1, len(runs[0].docs))), bootstrap.counts())).astype(int)
    figures = [[_average_precision(run, each, share) for each in counts] for run in runs]
    leads = np.mean(figures[: len(ours)], axis=0) - np.mean(figures[len(ours) :], axis=0)
    return {
        "aupr": float(leads[0]),
        "interval": bootstrap.percentiles(leads[1:][np.isfinite(leads[1:])]),
    }


def _average_precision(run: TopScores, counts: np.ndarray, share: float | None) -> float:
    """Return the auPR of a resample with each mention repeated `counts` (n,) times; nan without
    NIL."""
    rows = np.repeat(np.arange(len(counts)), counts)
    scores, is_nil = run.scores[rows], run.is_nil[rows]
    return nil_curve(scores, is_nil, share).average_precision if is_nil.any() else np.nan


def drawn_nil_curve(run: TopScores | None) -> dict[str, list[float]] | None:
    """Return recall and precision of NIL at up to 200 thresholds; None if links have no scores."""
    if run is None:
        return None
    curve = nil_curve(run.scores, run.is_nil)
    points = np.unique(np.linspace(0, len(curve.recall) - 1, MAX_POINTS).astype(int))
    return {"recall": curve.recall[points].tolist(), "precision": curve.precision[points].tolist()}


def gradient_figures(path: Path, pipe: str) -> dict[str, Any]:
    """Return figures of a file of `StepLogger`: the norm of the gradient, averaged over the last 25
    steps (`smoothed`), its `mean`, and its standard deviation as a fraction of that (`deviation`;
    PEL, Figure 3)."""
    with path.open(encoding="utf8") as lines:
        norms = np.array([json.loads(line)[pipe]["gradient_norm"] for line in lines])
    sums = np.concatenate(([0.0], np.cumsum(norms)))
    ends = np.arange(1, len(sums))
    starts = np.maximum(ends - SMOOTHED, 0)
    smoothed = (sums[ends] - sums[starts]) / (ends - starts)
    return {
        "mean": norms.mean(),
        "deviation": norms.std() / norms.mean(),
        "smoothed": smoothed.tolist(),
    }


def detail_parts(found: Mapping[str, Any]) -> list[str]:
    """Return the tables in Markdown, each below its heading."""
    titles = {row["name"]: row["title"] for row in found["rows"]}
    parts = []
    for gold, rows in found.get("seen", {}).items():
        counts = next(iter(rows.values()))
        numbers = ", ".join(f"{part} {counts[part]['n']:,}" for part in SEEN)
        parts += [
            f"## Seen and unseen entities: {gold}",
            f"Mentions: {numbers}.",
            _seen_table(rows, titles),
        ]
    for gold, tables in found.get("nil", {}).items():
        for rows in tables.values():
            share = percent(next(iter(rows.values()))["share"])
            parts += [f"## NIL, {share} % of the mentions: {gold}", _nil_table(rows, titles)]
    norms = found.get("gradient_norms", {})
    if norms:
        table = [("system", "mean", "deviation / mean")]
        table += [
            (titles[name], f"{each['mean']:.2f}", f"{each['deviation']:.2f}")
            for name, each in norms.items()
        ]
        parts += ["## Gradient norms", markdown_table(table)]
    return parts


def _seen_table(rows: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    table = [("system", *(f"{part}, R@{k}" for part in SEEN for k in RECALL_AT))]
    for name, figures in rows.items():
        cells = (percent(figures[part]["recall"][k]) for part in SEEN for k in RECALL_AT)
        table.append((titles[name], *cells))
    return markdown_table(table)


def _nil_table(rows: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    first, *others = NIL_FIGURES.values()
    table: list[tuple[str, ...]] = [
        ("system", first, "lead", *others, "fitted: precision", "recall")
    ]
    for name, figures in rows.items():
        cells = [percent(figures[key]) for key in NIL_FIGURES]
        cells.insert(1, improvement(figures.get("lead"), "aupr"))
        cells += [percent(figures["fitted"][key]) for key in ("precision", "recall")]
        table.append((titles[name], *cells))
    return markdown_table(table)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known else None
