"""An ablation's table and curves, from link records alone."""

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Any, NamedTuple

from spacy_krissel.evaluation.bootstrap import Bootstrap
from spacy_krissel.evaluation.metrics import gold_rank, is_strict
from spacy_krissel.evaluation.records import LinkRecord, counted, record_keys
from spacy_krissel.evaluation.tables import bounds, improvement, markdown_table, percent
from spacy_krissel.mentions.annotations import NIL

from ..errors import Errors, KrisselError
from ..few_shot import FewShot, few_shot_table
from .details import detail_parts
from .settings import Ablation

Key = tuple[str, int, int, int]
# Of the curve in the report.
SHOWN_K = (1, 2, 4, 8, 16, 32, 64)


class Answer(NamedTuple):
    """The part of a link record that the figures need.

    right: strictly correct. linked: the mention has an entity. rank: of the first gold entity among
        the candidates, from 0.
    """

    right: bool
    linked: bool
    rank: int | None


Answers = dict[Key, Answer]
# The runs of a row on one set, by seed; and all of them: row, set, seed.
Runs = Mapping[int, Answers]
AllRuns = dict[str, dict[str, dict[int, Answers]]]


def answers(records: Sequence[LinkRecord]) -> Answers:
    """Return the counted records in short form: complete, those of all rows would take
    gigabytes."""
    gold = counted(records)
    found = (Answer(is_strict(record), record.gold != (NIL,), gold_rank(record)) for record in gold)
    return dict(zip(record_keys(gold), found, strict=True))


def mention_scores(runs: Runs) -> dict[Key, float]:
    """Return the fraction of runs (seeds) in which each mention's link is strictly correct."""
    right: dict[Key, list[float]] = {}
    for run in runs.values():
        for key, answer in run.items():
            right.setdefault(key, []).append(float(answer.right))
    return {key: mean(values) for key, values in right.items()}


def strict_accuracy(runs: Runs, *, resamples: int = 1000, seed: int = 0) -> dict[str, Any]:
    """RETURNS: number of mentions `n`, strict accuracy by seed and their mean, and the mean's 95 %
    interval."""
    scores = mention_scores(runs)
    bootstrap = Bootstrap([key[0] for key in scores], resamples=resamples, seed=seed)
    interval = bootstrap.interval(list(scores.values()), [1.0] * len(scores))
    by_seed = {
        str(each): mean(float(answer.right) for answer in run.values())
        for each, run in runs.items()
    }
    return {
        "n": len(scores),
        "strict": mean(scores.values()),
        "by_seed": by_seed,
        "interval": interval,
    }


def difference(ours: Runs, theirs: Runs, *, resamples: int = 1000, seed: int = 0) -> dict[str, Any]:
    """Return the strict accuracy of `ours` minus that of `theirs`, means over their seeds, on the
    same mentions.

    RETURNS: {"strict": difference, "interval": its paired 95 % interval over documents}.
    Raises KrisselError K904 if the mentions are not the same.
    """
    mine, others = mention_scores(ours), mention_scores(theirs)
    if mine.keys() != others.keys():
        first = "{} {}-{}".format(*min(mine.keys() ^ others.keys())[:3])
        raise KrisselError(Errors.K904.format(n=len(mine.keys() ^ others.keys()), first=first))
    values = list(mine.values())
    reference = [others[key] for key in mine]
    bootstrap = Bootstrap([key[0] for key in mine], resamples=resamples, seed=seed)
    interval = bootstrap.difference(values, reference, [1.0] * len(values))
    return {"strict": mean(values) - mean(reference), "interval": interval}


def recall_curve(runs: Runs, max_k: int) -> list[float]:
    """Return oracle accuracy: the fraction of mentions with a gold entity among the first K
    distinct candidates, K = 1 … max_k.

    Mentions without an entity are excluded; a mean over seeds.
    """
    ranks = [answer.rank for run in runs.values() for answer in run.values() if answer.linked]
    return [
        sum(rank is not None and rank < k for rank in ranks) / max(len(ranks), 1)
        for k in range(1, max_k + 1)
    ]


def summarize(
    ablation: Ablation, measured: AllRuns, baselines: Mapping[str, Mapping[str, Runs]] | None = None
) -> dict[str, Any]:
    """Return the figures of the table: strict accuracy by row and set and, below the first row, the
    difference to its baseline.

    baselines: further rows by title, which are not in the file: one run on each set.
    """
    first = measured[ablation.first]
    rows = []
    for name, by_set in measured.items():
        row = {"name": name, "title": ablation.rows[name].title, "seeds": ablation.seeds_of(name)}
        baseline = ablation.baseline_of(name)
        if baseline != ablation.first:
            row["baseline"] = ablation.rows[baseline].title
        rows.append(
            {
                **row,
                **_figures(
                    ablation, by_set, None if name == ablation.first else measured[baseline]
                ),
            }
        )
    for title, by_set in (baselines or {}).items():
        row = {"name": title, "title": title, "seeds": ablation.seeds_of(ablation.first)}
        rows.append({**row, **_figures(ablation, by_set, first)})
    return {"sets": list(ablation.sets), "rows": rows}


def _figures(
    ablation: Ablation, by_set: Mapping[str, Runs], baseline: Mapping[str, Runs] | None
) -> dict[str, Any]:
    sets = {}
    for gold, runs in by_set.items():
        sets[gold] = strict_accuracy(runs)
        if baseline is not None and gold in baseline:
            sets[gold]["difference"] = difference(runs, baseline[gold])
    whole = len(sets) == len(ablation.sets)
    return {
        "sets": sets,
        "mean": mean(figures["strict"] for figures in sets.values()) if whole else None,
    }


def ablation_table(found: dict[str, Any]) -> str:
    """Return the rows in Markdown: strict accuracy, and below the first row the difference
    (`summarize`) with its interval."""
    header = ["system", *(cell for gold in found["sets"] for cell in (gold, "difference")), "mean"]
    table = [tuple(header)]
    for row in found["rows"]:
        cells = [row["title"]]
        for gold in found["sets"]:
            figures = row["sets"].get(gold)
            if figures is None:
                cells += ["–", ""]
            elif "difference" in figures:
                baseline = f", to {row['baseline']}" if "baseline" in row else ""
                cells += [percent(figures["strict"]), improvement(figures["difference"]) + baseline]
            else:
                cells += [f"{percent(figures['strict'])} ({bounds(figures['interval'])})", ""]
        table.append((*cells, percent(row["mean"])))
    return markdown_table(table)


def ablation_report(found: dict[str, Any]) -> str:
    """Return table and curves in Markdown."""
    parts = ["# Ablation", _counts(found), ablation_table(found)]
    titles = {row["name"]: row["title"] for row in found["rows"]}
    if found["top_k"]:
        parts += [
            "## Oracle accuracy of the first K candidates",
            _top_k_table(found["top_k"], titles),
        ]
    parts += detail_parts(found)
    for gold, shots in found["few_shot"].items():
        parts += [f"## Few-shot: {gold}", few_shot_table([FewShot(**shot) for shot in shots])]
    return "\n\n".join(parts) + "\n"


def _counts(found: dict[str, Any]) -> str:
    first = found["rows"][0]
    counts = ", ".join(f"{gold} {figures['n']:,}" for gold, figures in first["sets"].items())
    seeds = {row["title"]: row["seeds"] for row in found["rows"]}
    usual = first["seeds"]
    others = "".join(f"; {title}: {_listed(own)}" for title, own in seeds.items() if own != usual)
    return (
        f"Strict accuracy. Mentions: {counts}. Seeds: {_listed(usual)}{others}. Differences are to "
        "the first row unless another is named, with paired 95 % bootstrap intervals over "
        "documents."
    )


def _top_k_table(curves: dict[str, dict[str, list[float]]], titles: dict[str, str]) -> str:
    longest = max(len(curve) for rows in curves.values() for curve in rows.values())
    shown = [k for k in SHOWN_K if k <= longest]
    table = [("set, system", *(f"K = {k}" for k in shown))]
    for gold, rows in curves.items():
        for name, curve in rows.items():
            table.append((f"{gold}, {titles[name]}", *(percent(curve[k - 1]) for k in shown)))
    return markdown_table(table)


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))
