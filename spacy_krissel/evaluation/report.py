"""An evaluation's figures and link records, as JSON, Markdown, a terminal table and a page."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Union

from ..util.atomic import write_text
from .html import render_page
from .metrics import is_strict
from .records import LinkRecord, counted, write_records
from .tables import check_report, fact_rows, markdown_head, markdown_table, slice_rows, system_rows


@dataclass
class Report:
    """What `evaluate` found.

    data: the content of `metrics/<name>.json`: `n`, `strict`, `lenient`, `macro`, `recall` by k,
        `slices.<slice>.strict` and `.recall`, `baselines.<name>.strict` and `.lenient`, `nil`, `intervals`,
        `mentions_per_second`, `command`, and more.
    records: the evaluated mentions.
    titles: canonical names of the entities that errors speak of, by id.
    """

    name: str
    data: Dict[str, Any]
    records: List[LinkRecord] = field(repr=False)
    titles: Dict[str, str] = field(default_factory=dict, repr=False)

    def errors(self) -> List[LinkRecord]:
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
        return render_page(self.name, self.data, self.errors(), self.titles)

    def save(self, folder: Union[str, Path]) -> Path:
        """Write `<name>.json`, `.md`, `.html` and `.links.jsonl` (the records) to `folder`; returns the JSON's path.

        Raises KrisselError K006 and K026 as `check_report` does.
        """
        folder = check_report(folder, self.name)
        for suffix, text in (("json", self.to_json()), ("md", self.to_markdown()), ("html", self.to_html())):
            write_text(folder / f"{self.name}.{suffix}", text)
        write_records(self.records, folder / f"{self.name}.links.jsonl")
        return folder / f"{self.name}.json"
