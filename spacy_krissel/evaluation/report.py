"""An evaluation's results and link records, as JSON, Markdown, a table for the terminal and an HTML page."""

import json
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..mentions.gold_ids import NIL
from ..util.atomic import write_text
from ..util.escape import html_text, xml_text
from .metrics import RECALL_AT, gold_rank, is_strict
from .records import LinkRecord, counted, write_records
from .tables import KINDS, check_report, fact_rows, markdown_head, markdown_table, slice_rows, system_rows

TEMPLATE = Path(__file__).with_name("report.html")
# A page with more errors is slow to open.
MAX_ERRORS = 2000


@dataclass
class Report:
    """The results of `evaluate`.

    data: the content of `metrics/<name>.json`: `n`, `strict`, `lenient`, `macro`, `recall` by k,
        `slices.<slice>.strict` and `.recall`, `baselines.<name>.strict` and `.lenient`, `nil`, `distance`, `intervals`,
        `mentions_per_second`, `command`, and more.
    records: the evaluated mentions.
    titles: canonical names of the entities in errors, by id.
    """

    name: str
    data: dict[str, Any]
    records: list[LinkRecord] = field(repr=False)
    titles: dict[str, str] = field(default_factory=dict, repr=False)

    def errors(self) -> list[LinkRecord]:
        """The counted mentions whose link is not strictly right."""
        return [record for record in counted(self.records) if not is_strict(record)]

    def to_json(self) -> str:
        return json.dumps(self.data, indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        parts = markdown_head(self.name, fact_rows(self.data), self.data["command"])
        parts += ["## Systems", markdown_table(system_rows(self.data))]
        parts += ["## Slices", markdown_table(slice_rows(self.data))]
        return "\n\n".join(parts) + "\n"

    def to_table(self) -> str:
        """The report for a terminal."""
        from wasabi import table

        parts = ["\n".join(f"{name:<18} {value}" for name, value in fact_rows(self.data))]
        for rows in (system_rows(self.data), slice_rows(self.data)):
            aligns = ("l", *("r" * (len(rows[0]) - 1)))
            parts.append(table(rows[1:], header=rows[0], divider=True, aligns=aligns))
        return "\n".join(parts)

    def to_html(self) -> str:
        """The report as one page that loads nothing, with the errors and the prototypes that won. All texts of the
        corpus and the ontology are escaped."""
        systems, errors = system_rows(self.data), self.errors()
        shown = [(record, error_reason(record)) for record in errors[:MAX_ERRORS]]
        return _template().render(
            name=self.name,
            kind=KINDS[self.data["mentions"]],
            command=self.data["command"],
            titles=self.titles,
            tiles=_tiles(dict(zip(*systems[:2], strict=True))),
            facts=fact_rows(self.data),
            systems=systems,
            slices=slice_rows(self.data),
            errors=shown,
            n_errors=len(errors),
            reasons=sorted({reason for _, reason in shown}),
        )

    def save(self, folder: str | Path) -> Path:
        """Write `<name>.json`, `.md`, `.html` and `.links.jsonl` (the records) to `folder`; returns the JSON's path.

        Raises KrisselError K006 and K026 as `check_report` does.
        """
        folder = check_report(folder, self.name)
        for suffix, text in (("json", self.to_json()), ("md", self.to_markdown()), ("html", self.to_html())):
            write_text(folder / f"{self.name}.{suffix}", text)
        write_records(self.records, folder / f"{self.name}.links.jsonl")
        return folder / f"{self.name}.json"


def error_reason(record: LinkRecord) -> str:
    """The first of these reasons that applies to an error."""
    if not record.found:
        return "mention not found"
    if not record.prediction:
        return "no answer"
    if record.prediction == NIL:
        return "said NIL"
    if record.gold == (NIL,):
        return "should be NIL"
    if len(record.ties) > 1 and not set(record.ties).isdisjoint(record.gold):
        return "tied with the right one"
    rank = gold_rank(record)
    if rank is None:
        return "right one not among the candidates"
    return "right one in the top 5" if rank < 5 else "right one further down"


def _tiles(row: dict[str, str]) -> list[tuple[str, str, str]]:
    tiles = [("strict accuracy", row["strict"], f"95 %: {row['95 %']}"), ("lenient", row["lenient"], "")]
    tiles += [(f"recall at {k}", row[f"R@{k}"], "") for k in RECALL_AT if k > 1]
    return [*tiles, *((key, row[key], "strict, in this slice") for key in ("ambiguous", "homonym"))]


@cache
def _template() -> Any:
    from jinja2 import Environment
    from markupsafe import Markup

    def marked(text: str) -> Markup:
        return Markup(html_text(text).replace("⟦", "<mark>").replace("⟧", "</mark>"))

    def clean(value: Any) -> Any:
        return xml_text(value) if type(value) is str else value

    environment = Environment(autoescape=True, finalize=clean)
    environment.filters["marked"] = marked
    return environment.from_string(TEMPLATE.read_text(encoding="utf8"))
