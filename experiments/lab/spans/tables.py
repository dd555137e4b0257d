"""The tables of span extraction and of linking without spans: a row for each system, a column for
each slice."""

from collections.abc import Mapping, Sequence
from typing import Any

from spacy_krissel.evaluation.tables import Row, bounds, markdown_head, markdown_table, percent
from spacy_krissel.util.escape import markdown_text

COLUMNS = (
    *(
        f"{shape}{seen}"
        for shape in ("contiguous", "disjoint")
        for seen in (" seen", " unseen", "")
    ),
    "seen",
    "unseen",
    "all",
)
TITLES = {"f1": "F1", "exact": "Exact set of pieces", "precision": "Precision", "recall": "Recall"}


def span_markdown(data: Mapping[str, Any]) -> str:
    """Every table of a report, with headings (OSLAT, Tables 3, D.1 and 4)."""
    systems: dict[str, Any] = data["systems"]
    parts = markdown_head(data["name"], _facts(data), data["command"])
    for kind, heading, figures in (
        (
            "spans",
            "Span extraction: {} of tokens, 95 %",
            [(key, TITLES[key]) for key in ("f1", "precision", "recall")],
        ),
        ("spans", "{}, 95 %", [("exact", TITLES["exact"])]),
        ("linking", "Linking: accuracy @{}, 95 %", [(str(k), str(k)) for k in data["ks"]]),
    ):
        shown = {
            name: system[kind]["slices"]
            for name, system in systems.items()
            if system[kind]["slices"]
        }
        for key, title in figures:
            if shown:
                parts += [f"## {heading.format(title)}", markdown_table(_rows(shown, key))]
    first, *others = systems
    for kind, title in (("spans", "F1"), ("linking", f"accuracy @{data['ks'][0]}")):
        leads = {
            name: systems[name]["behind"][kind] for name in others if systems[name]["behind"][kind]
        }
        if leads:
            key = "f1" if kind == "spans" else str(data["ks"][0])
            parts += [
                f"## Lead of {markdown_text(first)} in {title}, points",
                markdown_table(_lead_rows(leads, key)),
            ]
    return "\n\n".join(parts) + "\n"


def _facts(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    pairs = (
        f"{data['n']:,} of a text and an entity, in {data['n_docs']:,} texts; {data['n_gold']:,} "
        "with gold spans"
    )
    left_out = (
        "stop words and punctuation left out of predicted and gold"
        if data["content_only"]
        else "all count"
    )
    facts = [
        ("pairs", pairs),
        ("entities that are ranked", f"{data['n_entities']:,}"),
        ("tokens", left_out),
    ]
    counts = ", ".join(f"{name} {n:,}" for name, n in data["slices"].items())
    if data["n_runs"] > 1:
        facts.append(("seeds", f"{data['n_runs']}, counted together"))
    return [*facts, ("pairs by slice", counts)]


def _rows(shown: Mapping[str, Mapping[str, Any]], key: str) -> list[Row]:
    columns = [column for column in COLUMNS if any(column in slices for slices in shown.values())]
    rows: list[Row] = [("system", *columns)]
    for name, slices in shown.items():
        rows.append((name, *(_cell(slices.get(column), key) for column in columns)))
    return rows


def _cell(figures: Mapping[str, Any] | None, key: str) -> str:
    if figures is None:
        return "–"
    value, interval = figures.get("accuracy", figures)[key], figures["intervals"][key]
    return (
        percent(value)
        if value is None or interval is None
        else f"{percent(value)} ({bounds(interval)})"
    )


def _lead_rows(leads: Mapping[str, Mapping[str, Any]], key: str) -> list[Row]:
    columns = [column for column in COLUMNS if any(column in slices for slices in leads.values())]
    rows: list[Row] = [("over", *columns)]
    for name, slices in leads.items():
        rows.append((name, *(_lead(slices.get(column, {}).get(key)) for column in columns)))
    return rows


def _lead(figures: Mapping[str, Any] | None) -> str:
    if figures is None:
        return "–"
    interval: Sequence[float] | None = figures["interval"]
    shown = "" if interval is None else f" ({100 * interval[0]:+.1f} to {100 * interval[1]:+.1f})"
    return f"{100 * figures['lead']:+.1f}{shown}"
