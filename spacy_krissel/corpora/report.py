"""Report of reading a corpus: counts, and examples of each data issue."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

from ..errors import KrisselWarning, Warnings

# Data issues that cause a warning; all other counts are informative.
ISSUES = {
    "bad_records": Warnings.KW201,
    "duplicate_documents": Warnings.KW202,
    "text_mismatches": Warnings.KW203,
    "text_differences": Warnings.KW204,
    "outside_text": Warnings.KW205,
    "duplicate_mentions": Warnings.KW206,
    "unknown_ids": Warnings.KW208,
    "unaligned_phrases": Warnings.KW231,
    "missing_documents": Warnings.KW232,
    "unended_files": Warnings.KW210,
    "cut_documents": Warnings.KW211,
    "damaged_files": Warnings.KW235,
}
MAX_EXAMPLES = 3
Item = TypeVar("Item")


class CorpusReport:
    """Counts by name, mentions by label, and examples of data issues.

    Every conversion counts `documents` and `mentions` (written), `ents` (mentions among
    `doc.ents`), `disjoint` (discontinuous mentions) and `disjoint_fragments` (their fragments),
    `joined_fragments` (mentions whose fragments were joined into one), `mentions_read`,
    `other_labels`, `other_types` (left out by a filter), `nil`, `composite`, `split_tokens` (tokens
    cut at the edge of a mention), `misfit_mentions` (mentions for which tokens were cut),
    `trimmed_mentions` (lost white space at their edges), `rewritten_ids` (mentions whose id lost or
    got a prefix), `alternative_ids` (mentions whose id is an alternative one in the ontology, such
    as a MeSH id in UMLS), `ambiguous_ids` (mentions with an id of several entities, of which the
    first counts), `unknown_as_nil` (mentions whose id the ontology lacks, made NIL), `relations`,
    `composite_parts`, `document_annotations` and `foreign_annotations` (records of other kinds,
    skipped), the counts of `sentence_docs`, `text_labels`, `unlisted_documents` (not among the
    requested ids), `unanswered` (tasks that nobody accepted), and the keys of `ISSUES`.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self.examples: dict[str, list[str]] = {}
        # Source, line and problem of the last bad record.
        self.last_bad: tuple[str, int | str, str] = ("", 0, "")

    def __getitem__(self, name: str) -> int:
        return self.counts[name]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {count}" for name, count in self.to_dict()["counts"].items())

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] += number

    def record_issue(self, name: str, source: str, line: int | str, detail: str = "") -> None:
        """Count one of the `ISSUES`, and keep its location if it is among the first."""
        self.counts[name] += 1
        if name == "bad_records":
            self.last_bad = (source, line, detail)
        examples = self.examples.setdefault(name, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append(f"{source}, line {line}" + (f" ({detail})" if detail else ""))

    def add(self, other: dict[str, Any]) -> None:
        """Add the result of `to_dict` of another report."""
        self.counts.update(other["counts"])
        self.labels.update(other["labels"])
        for name, examples in other["examples"].items():
            self.examples[name] = [*self.examples.get(name, []), *examples][:MAX_EXAMPLES]

    def warn(self) -> None:
        """Warn once per kind of data issue, with its count and examples."""
        for name, message in ISSUES.items():
            if count := self.counts[name]:
                examples = "; ".join(self.examples[name])
                if count > len(self.examples[name]):
                    examples += f"; and {count - len(self.examples[name])} more"
                warnings.warn(
                    message.format(count=count, examples=examples), KrisselWarning, stacklevel=3
                )

    def to_dict(self) -> dict[str, Any]:
        return {
            "counts": {name: count for name, count in sorted(self.counts.items()) if count},
            "labels": dict(self.labels.most_common()),
            "examples": self.examples,
        }


def reporting(read: Callable[..., Iterator[Item]]) -> Callable[..., Iterator[Item]]:
    """Decorate a reader that counts issues in the parameter `report`: if called without one, it
    warns at the end.
    """

    @wraps(read)
    def reader(*args: Any, report: CorpusReport | None = None, **options: Any) -> Iterator[Item]:
        own = CorpusReport() if report is None else report
        yield from read(*args, report=own, **options)
        if report is None:
            own.warn()

    return reader
