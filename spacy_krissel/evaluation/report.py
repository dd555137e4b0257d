"""An evaluation's results and link records, as JSON, Markdown, a table for the terminal and an HTML page."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..mentions.gold_ids import NIL
from ..ontology.ids import entity_url
from ..util.atomic import write_text
from ..util.escape import html_text, xml_text
from .metrics import RECALL_AT, gold_rank, is_strict
from .records import LinkRecord, counted, write_records
from .tables import (
    KINDS,
    Row,
    bounds,
    check_report,
    fact_rows,
    markdown_head,
    markdown_table,
    percent,
    slice_rows,
    system_rows,
)
from .terms import MEANINGS, meaning

TEMPLATE = Path(__file__).with_name("report.html")
# A page with more mentions is slow to open.
MAX_ERRORS = 2000
MAX_RIGHT = 1000
MAX_CANDIDATES = 5
# The link and the next one.
MAX_OF_RIGHT = 2
RIGHT = "right"


class Shown(NamedTuple):
    """A mention of the page.

    reason: why it is wrong, or "right". rank: of the first gold entity, from 1, or None. candidates: rank, id and score
        of the first ones, and of the right one.
    """

    record: LinkRecord
    reason: str
    rank: int | None
    candidates: list[tuple[int, str, float | None]]


@dataclass
class Report:
    """The results of `evaluate`.

    data: the content of `metrics/<name>.json`: `n`, `strict`, `lenient`, `macro`, `recall` by k,
        `slices.<slice>.strict` and `.recall`, `baselines.<name>.strict` and `.lenient`, `nil`, `distance`, `intervals`,
        `mentions_per_second`, `command`, and more.
    records: the evaluated mentions.
    titles: canonical names of the entities on the page, by id.
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

    def shown(self) -> Iterator[Shown]:
        """The mentions of the page: the first `MAX_ERRORS` that are wrong and the first `MAX_RIGHT` that are right."""
        left = Counter({True: MAX_RIGHT, False: MAX_ERRORS})
        for record in counted(self.records):
            is_right = is_strict(record)
            left[is_right] -= 1
            if left[is_right] >= 0:
                yield _shown(record, is_right)

    def shown_ids(self) -> set[str]:
        """The ids of all entities on the page."""
        return {
            id_
            for record, _, _, candidates in self.shown()
            for id_ in (*record.gold, *record.ties, record.prediction, *(id_ for _, id_, _ in candidates))
        }

    def to_html(self) -> str:
        """The report as one page that loads nothing, with the errors and the prototypes that won. All texts of the
        corpus and the ontology are escaped."""
        systems, slices, shown = system_rows(self.data), slice_rows(self.data), list(self.shown())
        return _template().render(
            name=self.name,
            kind=KINDS[self.data["mentions"]],
            command=self.data["command"],
            titles=self.titles,
            tiles=_tiles(self.data),
            facts=fact_rows(self.data),
            tables={"systems": (systems, _places(systems)), "slices": (slices, _places(slices))},
            mentions=shown,
            n_errors=len(self.errors()),
            n_right=sum(map(is_strict, counted(self.records))),
            n_shown=Counter(each.reason == RIGHT for each in shown),
            reasons=sorted({each.reason for each in shown} - {RIGHT}),
            meanings=MEANINGS,
            url=cache(entity_url),
            order="confidence" if any(each.record.confidence is not None for each in shown) else "score",
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


def _shown(record: LinkRecord, is_right: bool) -> Shown:
    rank = gold_rank(record)
    # An id that is there twice has its first score.
    scores = dict([*zip(record.ranked, record.scores, strict=False)][::-1])
    n = MAX_OF_RIGHT if is_right else MAX_CANDIDATES
    ranked = enumerate(dict.fromkeys(record.ranked))
    candidates = [(place + 1, id_, scores.get(id_)) for place, id_ in ranked if place < n or place == rank]
    return Shown(record, RIGHT if is_right else error_reason(record), None if rank is None else rank + 1, candidates)


def _tiles(data: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Title, value and interval of the main results."""
    tiles = [(name, data[name], data["intervals"][name]) for name in ("strict", "lenient")]
    of = data["recall"], data["intervals"]["recall"]
    tiles += [(f"recall at {k}", *(each[str(k)] for each in of)) for k in RECALL_AT if k > 1]
    slices = [(name, data["slices"][name]) for name in ("ambiguous", "homonym") if name in data["slices"]]
    tiles += [(f"{name}: strict", each["strict"], each["interval"]) for name, each in slices]
    return [(title, percent(value), bounds(interval)) for title, value, interval in tiles]


def _places(rows: Sequence[Row]) -> list[list[float]]:
    """The ends of a scale in percent that holds strict accuracy and interval of all rows; then, for each row, their
    places on it, 0 to 100: accuracy, low and high, as far as they are there."""
    at = rows[0].index("strict")
    cells = [f"{row[at]} to {row[at + 1]}".split(" to ") for row in rows[1:]]
    values = [[float(cell) for cell in row if cell != "–"] for row in cells]
    known = [value for row in values for value in row] or [0.0, 100.0]
    low = min(90, 10 * math.floor(min(known) / 10))
    high = max(low + 10, 10 * math.ceil(max(known) / 10))
    return [[low, high], *([100 * (value - low) / (high - low) for value in row] for row in values)]


@cache
def _template() -> Any:
    from jinja2 import Environment
    from markupsafe import Markup

    def marked(text: str) -> Markup:
        return Markup(html_text(text).replace("⟦", "<mark>").replace("⟧", "</mark>"))

    def clean(value: Any) -> Any:
        return xml_text(value) if type(value) is str else value

    environment = Environment(autoescape=True, finalize=clean)
    environment.filters.update(marked=marked, meaning=meaning)
    return environment.from_string(TEMPLATE.read_text(encoding="utf8"))
