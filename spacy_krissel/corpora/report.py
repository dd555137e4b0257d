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
# Other counts of a conversion, by name.
COUNTS = {
    "documents": "documents read",
    "documents_written": "documents written",
    "mentions_read": "mentions of the corpus",
    "mentions": "mentions written",
    "ents": "mentions among `doc.ents`, which cannot overlap",
    "disjoint": "discontinuous mentions",
    "disjoint_fragments": "fragments of discontinuous mentions",
    "joined_fragments": "mentions with adjacent fragments, which were joined into one",
    "other_labels": "mentions left out by `--label`",
    "other_types": "mentions left out by `--type`",
    "nil": "mentions without an entity",
    "composite": "mentions with several ids",
    "misfit_mentions": "mentions that began or ended within a token, which was cut there",
    "split_tokens": "tokens that were cut for mentions",
    "widened_mentions": "mentions of weakly labelled texts, widened to whole tokens",
    "trimmed_mentions": "mentions that lost white space at their edges",
    "rewritten_ids": "mentions whose id lost or got a prefix, to be that of the ontology",
    "alternative_ids": "mentions whose id is an alternative one in the ontology",
    "ambiguous_ids": "mentions whose id belongs to several entities; the first counts",
    "unknown_as_nil": "mentions whose id the ontology lacks, made NIL",
    "without_offsets": "mentions without offsets, left out",
    "without_example": "terms that their example sentence lacks; each is a text by itself",
    "sentences": "sentences, each a document of its own",
    "across_sentences": "mentions that crossed the end of a sentence",
    "joined_sentences": "ends of sentences removed, since a mention crossed them",
    "text_labels": "labels of texts: the entities of their mentions",
    "relations": "relations, skipped",
    "composite_parts": "parts of composite mentions, skipped",
    "document_annotations": "annotations of whole documents, skipped",
    "foreign_annotations": "annotations that the corpus marks as foreign, skipped",
    "unanswered": "tasks that nobody accepted, skipped",
    "unlisted_documents": "documents that are not among the requested ids, skipped",
}
MAX_EXAMPLES = 3
Item = TypeVar("Item")


class CorpusReport:
    """Counts by name (`COUNTS`, `ISSUES`), mentions by label, and examples of data issues."""

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
