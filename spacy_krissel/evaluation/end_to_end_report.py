"""Report of an end-to-end evaluation: JSON, Markdown, a table for the terminal, and the errors."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..util.atomic import write_text
from .records import write_records
from .tables import (
    Row,
    bounds,
    check_report,
    improvement,
    markdown_head,
    markdown_meanings,
    markdown_table,
    percent,
)

DICTIONARY = "dictionary"
MEASURES = {"ids": "ids per document", "spans": "span with id"}
# In order: the first that holds is the kind of an error.
KINDS = {
    "wrong span": "the correct id, at another span that overlaps",
    "sibling": (
        "a parent, child or sibling of the correct entity, at a span that overlaps; – if no entity "
        "has a parent"
    ),
    "wrong id": "the same span, any other id (corrections help)",
    "overlap": "another span that overlaps, and any other id",
    "missed": (
        "no prediction overlaps the gold mention (see added_names, general_names, lone_acronyms, "
        "use_abbreviations, min_confidence)"
    ),
    "spurious": "no gold mention overlaps the prediction (see stop_names and min_confidence)",
}
COLUMNS = {
    "F1": "harmonic mean of precision and recall over all documents",
    "95 %": "the interval of the column before it: bootstrap over documents",
    "macro F1": "mean of the documents' F1, without documents that have no gold or predicted link",
    "improvement": (
        "F1 of the pipeline minus that of the dictionary, in points, with its paired interval"
    ),
}
EXAMPLE_COLUMNS = {
    "text, id": "of the gold mention, or of the prediction if it is spurious",
    "overlaps": "the prediction that overlaps, and its link",
    "first in": "the first document",
}
# Explained below the tables with these titles.
LEGENDS = {"Systems": COLUMNS, "Errors": KINDS, "Most frequent errors": EXAMPLE_COLUMNS}
# Number of the most frequent errors of each kind in the report. The file of errors has all.
N_EXAMPLES = 5
# Number of characters of a cell in the terminal.
MAX_CELL = 48


@dataclass(slots=True)
class LinkError:
    """A gold mention that is not found, or a predicted link that is wrong.

    kind: of `KINDS`. side: "gold" or "predicted". doc, start, end, text, ids: of the mention.
    other_start, other_end, other_text, other_ids: of the mention of the other side that decides the
        kind; no ids if none overlaps.
    left, right: context, for display.
    """

    kind: str
    side: Literal["gold", "predicted"]
    doc: str
    start: int
    end: int
    text: str
    ids: tuple[str, ...]
    other_start: int
    other_end: int
    other_text: str
    other_ids: tuple[str, ...]
    left: str
    right: str


@dataclass
class EndToEndReport:
    """Results of `evaluate` with `end_to_end`.

    data: content of `<name>.json`: `ids` and `spans`, each with `micro` and `macro`; `errors` by
        kind; `baselines.dictionary` with the same and the `difference`; `texts_per_second`,
        `command`, and more.
    records: all errors.
    titles: canonical names of the entities of the errors, by id.
    """

    name: str
    data: dict[str, Any]
    records: list[LinkError] = field(repr=False)
    titles: dict[str, str] = field(default_factory=dict, repr=False)

    suffixes = ("json", "md", "errors.jsonl")

    def to_json(self) -> str:
        return json.dumps(self.data, indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        parts = markdown_head(self.name, self._facts(), self.data["command"])
        for title, rows in self._tables().items():
            parts += [f"## {title}", markdown_table(rows)]
            if title in LEGENDS:
                parts.append(markdown_meanings(LEGENDS[title].items()))
        return "\n\n".join(parts) + "\n"

    def to_table(self) -> str:
        """Return the report for a terminal."""
        from wasabi import table

        parts = ["\n".join(f"{name:<18} {value}" for name, value in self._facts())]
        for rows in self._tables().values():
            clipped = [[_clip(cell) for cell in row] for row in rows]
            parts.append(table(clipped[1:], header=clipped[0], divider=True))
        return "\n".join(parts)

    def save(self, folder: str | Path) -> Path:
        """Write `<name>.json`, `.md` and `.errors.jsonl` (the records) to `folder`; return the
        JSON's path.

        Raises KrisselError K006 and K026 as `check_report` does.
        """
        folder = check_report(folder, self.name)
        write_text(folder / f"{self.name}.json", self.to_json())
        write_text(folder / f"{self.name}.md", self.to_markdown())
        write_records(self.records, folder / f"{self.name}.errors.jsonl")
        return folder / f"{self.name}.json"

    def _tables(self) -> dict[str, list[Row]]:
        return {
            "Systems": self._system_rows(),
            "Errors": self._error_rows(),
            "Most frequent errors": list(self._example_rows()),
        }

    def _facts(self) -> list[tuple[str, str]]:
        data = self.data
        versions = {"spacy-krissel": data["version"], **data["software"]}
        facts = [
            ("date", data["date"]),
            ("versions", ", ".join(f"{name} {version}" for name, version in versions.items())),
            ("pipeline", f"{data['pipeline']['name']}, {data['pipeline']['package']}"),
            *(
                ("knowledge base", linker["knowledge_base"])
                for linker in data["pipeline"]["linkers"].values()
            ),
            ("texts", f"{data['n_docs']:,}, {data['texts_per_second']:,.0f} per second"),
            (
                "gold",
                f"{data['spans']['n_gold']:,} mentions, {data['ids']['n_gold']:,} ids of "
                f"documents; {data['n_left_out']:,} mentions left out",
            ),
        ]
        if data["below"]:
            facts.append(("below", ", ".join(data["below"])))
        if data["n_own_gold"]:
            facts.append(
                ("own gold", f"{data['n_own_gold']:,} gold prototypes of these documents not used")
            )
        return facts

    def _systems(self) -> dict[str, dict[str, Any]]:
        return {self.data["pipeline"]["name"]: self.data, **self.data["baselines"]}

    def _system_rows(self) -> list[Row]:
        rows: list[Row] = [
            (
                "system",
                "measure",
                "precision",
                "recall",
                "F1",
                "95 %",
                "macro F1",
                "95 %",
                "improvement",
            )
        ]
        for measure, title in MEASURES.items():
            for system, data in self._systems().items():
                micro, macro = data[measure]["micro"], data[measure]["macro"]
                difference = data.get("difference", {}).get(measure)
                rows.append(
                    (
                        system,
                        title,
                        *(percent(micro[figure]) for figure in ("precision", "recall", "f1")),
                        bounds(micro["intervals"]["f1"]),
                        percent(macro["f1"]),
                        bounds(macro["intervals"]["f1"]),
                        improvement(difference, "f1"),
                    )
                )
        return rows

    def _error_rows(self) -> list[Row]:
        """Return a header, and a row per kind: the number of gold mentions, and of predictions."""
        columns = [
            (f"{system}: {side}", data["errors"], side)
            for system, data in self._systems().items()
            for side in ("gold", "predicted")
        ]
        return [
            ("error", *(title for title, *_ in columns)),
            *((kind, *(_number(n[kind][side]) for _, n, side in columns)) for kind in KINDS),
        ]

    def _example_rows(self) -> Iterator[Row]:
        """Yield a header, and the most frequent errors of each kind: gold mentions, and spurious
        predictions."""
        yield "error", "times", "text", "id", "overlaps", "first in"
        for kind in KINDS:
            side = "predicted" if kind == "spurious" else "gold"
            records = [each for each in self.records if (each.kind, each.side) == (kind, side)]
            groups: dict[object, list[LinkError]] = {}
            for each in records:
                texts = each.text.casefold(), each.other_text.casefold()
                groups.setdefault((texts, each.ids, each.other_ids), []).append(each)
            # The first of equally frequent errors and spellings comes first.
            for group in sorted(groups.values(), key=len, reverse=True)[:N_EXAMPLES]:
                first = group[0]
                text, other_text = (
                    Counter(texts).most_common(1)[0][0]
                    for texts in zip(*((each.text, each.other_text) for each in group), strict=True)
                )
                other = f"{other_text} → {self._named(first.other_ids)}" if first.other_ids else ""
                yield (kind, f"{len(group):,}", text, self._named(first.ids), other, first.doc)

    def _named(self, ids: tuple[str, ...]) -> str:
        return ", ".join(f"{id_} {self.titles.get(id_, '')}".rstrip() for id_ in ids)


def _number(n: int | None) -> str:
    return "–" if n is None else f"{n:,}"


def _clip(text: str) -> str:
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 1]}…"
