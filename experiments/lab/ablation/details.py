"""What an ablation's reports say beyond strict accuracy: entities seen and unseen in training, and NIL (PEL, Tables 2
and 4)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple

import numpy as np

from spacy_krissel.evaluation.bootstrap import Bootstrap
from spacy_krissel.evaluation.nil import nil_curve, top_scores
from spacy_krissel.evaluation.records import LinkRecord, counted, record_keys
from spacy_krissel.evaluation.tables import improvement, markdown_table, percent
from spacy_krissel.mentions.gold_ids import NIL

RECALL_AT = ("1", "64")
SEEN = ("all", "seen", "unseen")
FITTED = ("fitted: precision", "recall")
NIL_FIGURES = ("aupr", "precision", "recall", "f1", "strict", "strict_linked")
# Of a drawn curve.
MAX_POINTS = 200
# Steps that a drawn gradient norm is the mean of.
SMOOTHED = 25

Report = Mapping[str, Any]
# Set → row → figures.
Details = dict[str, dict[str, Any]]


class TopScores(NamedTuple):
    """What NIL is told by: the mentions of one run in the order of their keys, and the document, the top score and
    whether the gold is NIL of each (n,)."""

    keys: list[tuple[str, int, int, int]]
    docs: list[str]
    scores: np.ndarray
    is_nil: np.ndarray


def seen_figures(reports: Sequence[Report]) -> dict[str, Any]:
    """Number of mentions and recall at 1 and 64, for all, seen and unseen entities; means over the reports of several
    seeds. A slice without mentions has None."""
    found = {}
    for part in SEEN:
        figures = [report if part == "all" else report["slices"].get(part) for report in reports]
        recall = {k: _mean([None if each is None else each["recall"][k] for each in figures]) for k in RECALL_AT}
        found[part] = {"n": figures[0]["n"] if figures[0] else 0, "recall": recall}
    return found


def nil_figures(reports: Sequence[Report], calibrations: Sequence[Report]) -> dict[str, Any]:
    """auPR, precision, recall and F1 of NIL, accuracy over all classes and on mentions with an entity, and precision
    and recall on the mentions that the threshold was fitted to (`fitted`); means over several seeds.

    calibrations: what `Calibration.data` holds, one a report.
    """
    found: dict[str, Any] = {key: _mean([report["nil"][key] for report in reports]) for key in NIL_FIGURES}
    after = [calibration["after"] for calibration in calibrations]
    found["fitted"] = {key: _mean([each[key] for each in after]) for key in ("precision", "recall")}
    found["thresholds"] = [calibration["threshold"] for calibration in calibrations]
    return found


def run_scores(records: Sequence[LinkRecord]) -> TopScores | None:
    """Of the counted records; None where links have no scores."""
    gold = counted(records)
    scores = top_scores(gold)
    if scores is None:
        return None
    keys = list(record_keys(gold))
    order = sorted(range(len(gold)), key=keys.__getitem__)
    is_nil = np.array([gold[i].gold == (NIL,) for i in order], dtype=bool)
    return TopScores([keys[i] for i in order], [gold[i].doc for i in order], scores[order], is_nil)


def aupr_lead(ours: Sequence[TopScores | None], theirs: Sequence[TopScores | None]) -> dict[str, Any] | None:
    """auPR of `ours` minus that of `theirs`, means over their runs (seeds), on the same mentions.

    RETURNS: {"aupr": difference, "interval": its paired 95 % interval over documents}; None where a run has no scores.
    """
    runs = [run for run in (*ours, *theirs) if run is not None]
    if len(runs) < len(ours) + len(theirs) or any(run.keys != runs[0].keys for run in runs):
        return None
    bootstrap = Bootstrap(runs[0].docs)
    # All mentions once, and every resample.
    counts = np.concatenate((np.ones((1, len(runs[0].docs))), bootstrap.counts())).astype(int)
    figures = [[_average_precision(run, each) for each in counts] for run in runs]
    leads = np.mean(figures[: len(ours)], axis=0) - np.mean(figures[len(ours) :], axis=0)
    return {"aupr": float(leads[0]), "interval": bootstrap.percentiles(leads[1:][np.isfinite(leads[1:])])}


def _average_precision(run: TopScores, counts: np.ndarray) -> float:
    """The auPR of a resample with each mention as often as `counts` (n,) says; nan without NIL."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return nil_curve(run.scores[rows], run.is_nil[rows]).average_precision if run.is_nil[rows].any() else np.nan


def drawn_nil_curve(run: TopScores | None) -> dict[str, list[float]] | None:
    """Recall and precision of NIL at every threshold, at most 200 of them; None where links have no scores."""
    if run is None:
        return None
    curve = nil_curve(run.scores, run.is_nil)
    places = np.unique(np.linspace(0, len(curve.recall) - 1, MAX_POINTS).astype(int))
    return {"recall": curve.recall[places].tolist(), "precision": curve.precision[places].tolist()}


def gradient_figures(path: Path, pipe: str) -> dict[str, Any]:
    """Of a file of `StepLogger`: the norm of the gradient, each step's the mean of the 25 up to it (`smoothed`), its
    `mean`, and its standard deviation as a share of that (`deviation`; PEL, Figure 3)."""
    with path.open(encoding="utf8") as lines:
        norms = np.array([json.loads(line)[pipe]["gradient_norm"] for line in lines])
    sums = np.concatenate(([0.0], np.cumsum(norms)))
    ends = np.arange(1, len(sums))
    starts = np.maximum(ends - SMOOTHED, 0)
    smoothed = (sums[ends] - sums[starts]) / (ends - starts)
    return {"mean": norms.mean(), "deviation": norms.std() / norms.mean(), "smoothed": smoothed.tolist()}


def detail_parts(found: Mapping[str, Any]) -> list[str]:
    """The tables in Markdown, each below its heading."""
    titles = {row["name"]: row["title"] for row in found["rows"]}
    parts = []
    for gold, rows in found.get("seen", {}).items():
        counts = next(iter(rows.values()))
        numbers = ", ".join(f"{part} {counts[part]['n']:,}" for part in SEEN)
        parts += [f"## Seen and unseen entities: {gold}", f"Mentions: {numbers}.", _seen_table(rows, titles)]
    for gold, rows in found.get("nil", {}).items():
        parts += [f"## NIL: {gold}", _nil_table(rows, titles)]
    norms = found.get("gradient_norms", {})
    if norms:
        table = [("system", "mean", "deviation / mean")]
        table += [(titles[name], f"{each['mean']:.2f}", f"{each['deviation']:.2f}") for name, each in norms.items()]
        parts += ["## Gradient norms", markdown_table(table)]
    return parts


def _seen_table(rows: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    table = [("system", *(f"{part}, R@{k}" for part in SEEN for k in RECALL_AT))]
    for name, figures in rows.items():
        cells = (percent(figures[part]["recall"][k]) for part in SEEN for k in RECALL_AT)
        table.append((titles[name], *cells))
    return markdown_table(table)


def _nil_table(rows: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    table: list[tuple[str, ...]] = [
        (
            "system",
            "auPR",
            "lead",
            "precision",
            "recall",
            "F1",
            "strict with NIL",
            "linked",
            "fitted: precision",
            "recall",
        )
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
