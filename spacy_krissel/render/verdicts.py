"""Verdicts on pairs of ids and labels as SARIF 2.1.0, JSON and TSV.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/
"""

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ..about import __version__
from ..ontology.verify import FINDINGS, Verdict
from ..util.escape import one_line

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
RULES = {
    "wrong_label": "The label is no name of the entity with this id",
    "unknown_id": "No entity has this id",
    "retired": "The id is retired",
}
LEVELS = {"wrong_label": "error", "unknown_id": "error", "retired": "warning"}
COLUMNS = (
    "file", "line", "column", "id", "label", "verdict", "is", "label_is", "proposed", "confidence",
)  # fmt: skip


class Proposal(NamedTuple):
    """An entity that a linker proposes for a label. confidence: None if the linker has none."""

    id: str
    name: str
    confidence: float | None


class Checked(NamedTuple):
    """A verdict, and where its id stands: line and column of the file, from 1."""

    path: Path
    line: int
    column: int
    verdict: Verdict
    proposals: tuple[Proposal, ...] = ()

    @property
    def message(self) -> str:
        said = self.verdict.message
        if self.proposals:
            said += f"; proposed: {', '.join(map(_in_words, self.proposals))}"
        return said


def as_json(checked: Iterable[Checked], counts: dict[str, int]) -> str:
    """Return all verdicts and their counts as JSON."""
    pairs = [
        {
            "file": each.path.as_posix(),
            "line": each.line,
            "column": each.column,
            **each.verdict.as_dict(),
            "message": each.message,
            "proposals": [proposal._asdict() for proposal in each.proposals],
        }
        for each in checked
    ]
    return json.dumps({"counts": counts, "pairs": pairs}, ensure_ascii=False, indent=1) + "\n"


def as_sarif(checked: Iterable[Checked]) -> str:
    """Return the findings as a SARIF log, in which a code host shows them at their lines."""
    results = [_result(each) for each in checked if each.verdict.is_finding]
    rules = [
        {
            "id": rule,
            "shortDescription": {"text": RULES[rule]},
            "defaultConfiguration": {"level": LEVELS[rule]},
        }
        for rule in FINDINGS
    ]
    driver = {"name": "spacy-krissel", "version": __version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    log = {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, ensure_ascii=False, indent=1) + "\n"


def as_tsv(checked: Iterable[Checked]) -> str:
    """Return a row per verdict."""
    file_ = io.StringIO()
    table = csv.writer(file_, delimiter="\t", lineterminator="\n")
    table.writerow(COLUMNS)
    for each in checked:
        verdict, first = each.verdict, next(iter(each.proposals), None)
        is_, label_is = (
            " | ".join(f"{named.id} {one_line(named.name)}" for named in part)
            for part in (verdict.entities, verdict.meant)
        )
        proposed = "" if first is None else f"{first.id} {one_line(first.name)}"
        confidence = "" if first is None or first.confidence is None else first.confidence
        cells = (one_line(verdict.id), one_line(verdict.label), verdict.status, is_, label_is)
        table.writerow((each.path.as_posix(), each.line, each.column, *cells, proposed, confidence))
    return file_.getvalue()


def _result(checked: Checked) -> dict[str, Any]:
    verdict = checked.verdict
    region = {"startLine": checked.line, "startColumn": checked.column}
    # SARIF resolves relative addresses against the root of the repository.
    path = checked.path.as_uri() if checked.path.is_absolute() else checked.path.as_posix()
    location = {"artifactLocation": {"uri": path}, "region": region}
    return {
        "ruleId": verdict.status,
        "ruleIndex": FINDINGS.index(verdict.status),
        "level": LEVELS[verdict.status],
        "message": {"text": checked.message},
        "locations": [{"physicalLocation": location}],
    }


def _in_words(proposal: Proposal) -> str:
    sure = "" if proposal.confidence is None else f", confidence {proposal.confidence:.2f}"
    return f"{proposal.id} ({proposal.name}{sure})"
