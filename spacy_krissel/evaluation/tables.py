"""Tables of a report's results, as rows of text for Markdown, the terminal and the page."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import wrong_setting
from ..util.atomic import check_folder
from ..util.escape import markdown_text
from .metrics import RECALL_AT

# Slices with fewer mentions are in the JSON only, except for those with a column of their own.
MIN_SHOWN = 10
COLUMN_SLICES = ("ambiguous", "homonym")
MAX_SHOWN_TYPES = 20
KINDS = {"gold": "gold mentions", "predicted": "predicted mentions; one that is not found is wrong"}

Row = tuple[str, ...]


def check_report(folder: str | Path, name: str) -> Path:
    """Return the folder for a report's files, checked before the work.

    Raises KrisselError K006 for a name with folders, K026 if no file can be written to the folder.
    """
    if name in ("", ".", "..") or Path(name).name != name:
        raise wrong_setting("name", name, "a file's name, without folders")
    check_folder(folder)
    return Path(folder)


def system_rows(data: dict[str, Any]) -> list[Row]:
    """Return a header, and rows for the pipeline and each baseline, with the pipeline's improvement
    over it. Baselines with the same results share a row."""
    recall = [f"R@{k}" for k in RECALL_AT]
    header = (
        "system",
        "strict",
        "95 %",
        "random tie",
        "lenient",
        *recall,
        *COLUMN_SLICES,
        "improvement",
    )
    others: dict[Row, list[str]] = {}
    for name, figures in data["baselines"].items():
        others.setdefault(_system_cells(figures, figures["difference"]), []).append(name)
    rows = [(", ".join(names), *cells) for cells, names in others.items()]
    return [header, (data["pipeline"]["name"], *_system_cells(data, None)), *rows]


def compared_rows(data: dict[str, Any], names: Iterable[str]) -> list[Row]:
    """Return a header, and a row per system: the number of mentions by which systems link them
    correctly, and the improvement."""
    rows: list[Row] = [
        (
            "compared with",
            "both correct",
            "only this correct",
            "only the other correct",
            "both wrong",
            "improvement",
        )
    ]
    for name in names:
        difference = data["baselines"][name]["difference"]
        rows.append(
            (name, *(f"{n:,}" for n in difference["right"].values()), improvement(difference))
        )
    return rows


def slice_rows(data: dict[str, Any]) -> list[Row]:
    """Return a header, and a row per slice with enough mentions, or with a column in
    `system_rows`."""
    shown = {
        name: figures
        for name, figures in data["slices"].items()
        if figures["n"] >= (1 if name in COLUMN_SLICES else MIN_SHOWN)
    }
    types = sorted(
        (name for name in shown if name.startswith("type:")), key=lambda name: -shown[name]["n"]
    )
    rows: list[Row] = [
        ("slice", "n", "strict", "95 %", "random tie", "lenient", f"R@{RECALL_AT[-1]}")
    ]
    for name in [name for name in shown if name not in types] + types[:MAX_SHOWN_TYPES]:
        n, strict, at_random, lenient = (
            shown[name][key] for key in ("n", "strict", "random", "lenient")
        )
        recall = shown[name]["recall"][str(RECALL_AT[-1])]
        interval = bounds(shown[name]["interval"])
        cells = (percent(strict), interval, percent(at_random), percent(lenient), percent(recall))
        rows.append((name, f"{n:,}", *cells))
    return rows


def fact_rows(data: dict[str, Any]) -> list[tuple[str, str]]:
    """Return names and values of all other results."""
    n, n_docs, n_composite, n_left_out = (
        data[key] for key in ("n", "n_docs", "n_composite", "n_left_out")
    )
    by, software = data["pipeline"], {"spacy-krissel": data["version"], **data["software"]}
    versions = ", ".join(f"{name} {version}" for name, version in software.items())
    facts = [
        ("date", data["date"]),
        ("versions", versions),
        ("pipeline", f"{by['name']}, {by['package']}"),
    ]
    for linker in by["linkers"].values():
        facts += [("knowledge base", linker["knowledge_base"]), ("predicts NIL", linker["nil"])]
    facts += [
        (
            "mentions",
            f"{n:,} in {n_docs:,} documents, {n_composite:,} composite; {n_left_out:,} left out"
            + (f", of these {apart:,} discontinuous" if (apart := data["n_discontinuous"]) else ""),
        ),
        ("kind of mentions", KINDS[data["mentions"]]),
        ("no answer", f"{data['n_missing']:,}; several ids tied at the top: {data['n_tied']:,}"),
        ("speed", f"{data['mentions_per_second']:,.0f} mentions per second"),
    ]
    if data["macro"] is not None:
        n_labels = sum(name.startswith("label:") for name in data["slices"])
        facts.append(("macro accuracy", f"{percent(data['macro'])}, the mean of {n_labels} labels"))
    if data.get("n_seen") is not None:
        facts.append(("seen entities", f"{data['n_seen']:,} seen in training"))
    won = data["winners"]
    if won["kinds"]:
        kinds = ", ".join(
            f"{kind} {percent(figures['share'])}" for kind, figures in won["kinds"].items()
        )
        facts.append(("links won by", kinds))
    # Where all links lead to them, usually nothing was mined.
    if won.get("unmined", {}).get("share") not in (None, 0.0, 1.0):
        figures = won["unmined"]
        share, strict = percent(figures["share"]), percent(figures["strict"])
        # Unlike in the strict accuracy, mentions without a link do not count.
        shares = f"{share} % of the links lead to them; {strict} % of these links are correct"
        facts.append(("unmined entities", shares))
    if far := data["distance"]:
        near = ", ".join(
            f"{percent(far[kind])} % a {kind}" for kind in ("parent", "child", "sibling")
        )
        facts.append(
            (
                "wrong links",
                (
                    f"{far['n']:,}, of which {near} of the correct entity, {percent(far['other'])} "
                    "% other"
                ),
            )
        )
    if data["n_own_gold"]:
        facts.append(
            ("own gold", f"{data['n_own_gold']:,} gold prototypes of these documents not used")
        )
    nil = data["nil"]
    if nil["n_gold"] or nil["n_predicted"]:
        facts.append(("NIL", nil_line(nil)))
    if nil["n_gold"]:
        facts.append(("strict with NIL", strict_line(nil)))
    if data["linked"]["share"] not in (None, 1.0):
        share, precision = (percent(data["linked"][key]) for key in ("share", "precision"))
        facts.append(("linked", f"{share} % of mentions, {precision} % of these correctly"))
    if data["reliability"] is not None:
        bins = data["reliability"]["bins"]
        shares = ", ".join(
            f"{percent(each['confidence'])} %: {percent(each['right'])} % of {each['n']:,}"
            for each in bins
        )
        error = f"expected calibration error {data['reliability']['ece']:.3f}"
        facts.append(("confidence", f"{error}; correct at a confidence of {shares}"))
    if data["span"]:
        interval = bounds(data["span"]["interval"])
        facts.append(("span and id", f"{_precision_recall_line(data['span'])} (95 %: {interval})"))
    return facts


def tiles(data: dict[str, Any]) -> list[Row]:
    """Return title, value and interval of the main results."""
    found = [(name, data[name], data["intervals"][name]) for name in ("strict", "lenient")]
    recall, intervals = data["recall"], data["intervals"]["recall"]
    found += [(f"recall at {k}", recall[str(k)], intervals[str(k)]) for k in RECALL_AT if k > 1]
    slices = ((name, data["slices"][name]) for name in COLUMN_SLICES if name in data["slices"])
    found += [(f"{name}: strict", each["strict"], each["interval"]) for name, each in slices]
    return [(title, percent(value), bounds(interval)) for title, value, interval in found]


def scale(rows: Sequence[Row]) -> list[list[float]]:
    """Return the ends of a scale in percent that contains strict accuracy and interval of all rows.
    Then, for each row, their positions on the scale, 0 to 100: accuracy, low and high, if known."""
    at = rows[0].index("strict")
    cells = (f"{row[at]} to {row[at + 1]}".split(" to ") for row in rows[1:])
    values = [[float(cell) for cell in row if cell != "–"] for row in cells]
    known = [*chain.from_iterable(values)] or [0.0, 100.0]
    low = min(90, 10 * math.floor(min(known) / 10))
    high = max(low + 10, 10 * math.ceil(max(known) / 10))
    return [[low, high], *([100 * (value - low) / (high - low) for value in row] for row in values)]


def percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}"


def bounds(interval: Sequence[float] | None) -> str:
    return "–" if interval is None else f"{percent(interval[0])} to {percent(interval[1])}"


def improvement(difference: Mapping[str, Any] | None, figure: str = "strict") -> str:
    """Return the difference of two systems in points, with its paired interval; "" if there is
    none."""
    if difference is None or difference[figure] is None:
        return ""
    low, high = difference["interval"]
    return f"{100 * difference[figure]:+.1f} ({100 * low:+.1f} to {100 * high:+.1f})"


def _precision_recall_line(scores: dict[str, Any]) -> str:
    precision, recall, f1 = (percent(scores[key]) for key in ("precision", "recall", "f1"))
    return f"precision {precision}, recall {recall}, F1 {f1}"


def nil_line(nil: dict[str, Any]) -> str:
    """Return a line with the results of `nil_scores`; without gold NIL the counts only."""
    if not nil["n_gold"]:
        return (
            f"{nil['n_predicted']:,} predicted, 0 gold: each counts as wrong. Baselines link "
            "all mentions: compare them with R@1 of the pipeline"
        )
    figures = (
        f"{_precision_recall_line(nil)}, auPR {percent(nil['aupr'])} where {percent(nil['share'])} "
        "% are NIL"
    )
    return f"{figures}; {nil['n_predicted']:,} predicted, {nil['n_gold']:,} gold"


def strict_line(nil: dict[str, Any]) -> str:
    """Return a line with the accuracy over all classes with NIL, and on mentions with an entity
    only."""
    return (
        f"{percent(nil['strict'])} over all classes, {percent(nil['strict_linked'])} on mentions "
        "with an entity"
    )


def markdown_head(title: str, facts: Sequence[tuple[str, str]], command: str) -> list[str]:
    """Return the first paragraphs of a report: title, facts and the command."""
    parts = [f"# {markdown_text(title)}", markdown_meanings(facts)]
    # As one line of code, nothing in it is Markdown.
    return [*parts, f"    {' '.join(command.split())}"] if command.strip() else parts


def markdown_table(rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(markdown_text(cell) for cell in row) + " |" for row in rows]
    rule = "| --- |" + " ---: |" * (len(rows[0]) - 1)
    return "\n".join([lines[0], rule, *lines[1:]])


def markdown_meanings(terms: Iterable[tuple[str, str]]) -> str:
    """Return a list of terms with their meanings."""
    return "\n".join(f"- {markdown_text(term)}: {markdown_text(found)}" for term, found in terms)


def _system_cells(figures: dict[str, Any], difference: dict[str, Any] | None) -> Row:
    slices = [figures["slices"].get(slice_, {}).get("strict") for slice_ in COLUMN_SLICES]
    return (
        percent(figures["strict"]),
        bounds(figures["intervals"]["strict"]),
        percent(figures["random"]),
        percent(figures["lenient"]),
        *(percent(figures["recall"][str(k)]) for k in RECALL_AT),
        *(percent(value) for value in slices),
        improvement(difference),
    )
