"""A report of reading a corpus: counts, and the first places of each blemish."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any, TypeVar

from ..errors import KrisselWarning, Warnings

# Blemishes are worth a warning; everything else that is counted is only for the reader of the report.
BLEMISHES = {
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
}
FIRST_PLACES = 3
Item = TypeVar("Item")


class CorpusReport:
    """Counts by name, mentions by label, and the first places of blemishes.

    The counts that every conversion has: `documents` and `mentions` (written), `ents` (mentions among `doc.ents`),
    `disjoint` (mentions in several fragments) and `disjoint_fragments` (theirs), `joined_fragments` (mentions whose
    fragments turned out to be one), `mentions_read`, `other_labels`, `other_types` (left out by a filter), `nil`,
    `composite`, `split_tokens` (tokens cut at the edge of a mention), `misfit_mentions` (mentions for which tokens were
    cut), `trimmed_mentions` (lost white space at their edges), `rewritten_ids` (mentions whose id lost or got a
    prefix), `alternative_ids` (mentions with an id that the ontology has as an alternative one, such as a MeSH id in
    UMLS), `ambiguous_ids` (mentions with an id of several entities, of which the first counts), `unknown_as_nil`
    (mentions whose id the ontology does not hold, made NIL), `relations`, `composite_parts`, `document_annotations` and
    `foreign_annotations` (records of other kinds, skipped), what `sentence_docs` counts, `text_labels`,
    `unlisted_documents` (not among the ids that were asked for), `unanswered` (tasks that nobody accepted), and the
    keys of `BLEMISHES`.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.labels: Counter[str] = Counter()
        self.places: dict[str, list[str]] = {}
        # Source, line and problem of the last bad record.
        self.last_bad: tuple[str, int | str, str] = ("", 0, "")

    def __getitem__(self, name: str) -> int:
        return self.counts[name]

    def __str__(self) -> str:
        return "\n".join(f"{name}: {count}" for name, count in self.to_dict()["counts"].items())

    def count(self, name: str, number: int = 1) -> None:
        self.counts[name] += number

    def blemish(self, name: str, source: str, line: int | str, detail: str = "") -> None:
        """Count a blemish of one of the `BLEMISHES` and keep its place if it is among the first."""
        self.counts[name] += 1
        if name == "bad_records":
            self.last_bad = (source, line, detail)
        places = self.places.setdefault(name, [])
        if len(places) < FIRST_PLACES:
            places.append(f"{source}, line {line}" + (f" ({detail})" if detail else ""))

    def add(self, other: dict[str, Any]) -> None:
        """Add what `to_dict` of the report of a later part made."""
        self.counts.update(other["counts"])
        self.labels.update(other["labels"])
        for name, places in other["places"].items():
            self.places[name] = [*self.places.get(name, []), *places][:FIRST_PLACES]

    def warn(self) -> None:
        """One warning for each kind of blemish, with its count and first places."""
        for name, message in BLEMISHES.items():
            if count := self.counts[name]:
                places = "; ".join(self.places[name])
                if count > len(self.places[name]):
                    places += f"; and {count - len(self.places[name])} more"
                warnings.warn(message.format(count=count, examples=places), KrisselWarning, stacklevel=3)

    def to_dict(self) -> dict[str, Any]:
        return {
            "counts": {name: count for name, count in sorted(self.counts.items()) if count},
            "labels": dict(self.labels.most_common()),
            "places": self.places,
        }


def reporting(read: Callable[..., Iterator[Item]]) -> Callable[..., Iterator[Item]]:
    """Decorate a reader whose parameter `report` counts what it finds: called without one, it warns at the end."""

    @wraps(read)
    def reader(*args: Any, report: CorpusReport | None = None, **options: Any) -> Iterator[Item]:
        own = CorpusReport() if report is None else report
        yield from read(*args, report=own, **options)
        if report is None:
            own.warn()

    return reader
