"""Report of an evaluation's results and link records: JSON, Markdown, a table for the terminal and
an HTML page."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ..mentions.annotations import NIL
from ..ontology.entity import entity_url
from ..util.atomic import write_text
from ..util.escape import html_text, xml_text
from .metrics import gold_rank, is_strict, paired_outcome, same_mentions
from .records import LinkRecord, counted, write_records
from .tables import (
    check_report,
    compared_rows,
    fact_rows,
    markdown_head,
    markdown_meanings,
    markdown_table,
    scale,
    slice_rows,
    system_rows,
    tiles,
)

MEANINGS = {
    # Measures.
    "strict": "one predicted id, correct or wrong; several ids tied at the top are wrong",
    "lenient": "correct if any entity with the winning name is gold",
    "random tie": "the expected accuracy when a tie is broken at random",
    "recall at k": "a gold entity among the first k distinct entities",
    "95 %": "the interval of strict accuracy: bootstrap over documents",
    "improvement": (
        "strict accuracy of the pipeline minus that of this system, in points, with its paired "
        "interval"
    ),
    "both correct": (
        "mentions that this pipeline and the other system link correctly, as strict accuracy counts"
    ),
    "only this correct": (
        "mentions that this pipeline links correctly and the other system does not"
    ),
    "only the other correct": (
        "mentions that the other system links correctly and this pipeline does not"
    ),
    "both wrong": "mentions that neither links correctly",
    "macro accuracy": "the mean of the labels' strict accuracies",
    "wrong links": (
        "the fraction that leads to a parent, a child or a sibling of the correct entity"
    ),
    "NIL": "no entity of the ontology is meant",
    "predicts NIL": "the rule for leaving a mention unlinked",
    "strict with NIL": "strict accuracy with NIL as a possible answer",
    "linked": "mentions with a link to an entity, not to NIL",
    "mentions": (
        "composite ones have more than one gold id; those without a concept in the corpus are left "
        "out"
    ),
    "kind of mentions": "source of the linked mentions: the corpus, or the pipeline",
    "own gold": "gold mentions of these documents in the knowledge base, as prototypes",
    "seen entities": "entities that a gold mention in training links to",
    "span and id": "a prediction is correct with the exact offsets and a gold id; of a mention in "
    "fragments, `doc.ents` has a part, which is not",
    "score": (
        "the similarity of the mention to the entity's best prototype, plus the linker's other "
        "terms"
    ),
    "rank": "of the correct entity among the candidates, from 1",
    "gold": (
        "the entity that annotators gave a mention; as the kind of a prototype, an annotated "
        "mention, in its text and once more alone"
    ),
    "composite": "mentions with more than one gold id; any of them is correct",
    "links won by": "the kind of the prototype with the best score: percent of links",
    "unmined entities": "entities without mined mentions as prototypes",
    "confidence": (
        "the probability that the best candidate is correct; after the colon, the fraction that "
        "was correct"
    ),
    # Systems.
    "exact": "the entities with the mention's text as a name",
    "tfidf": "the entity with the nearest name, by TF-IDF over character 3-grams",
    "abbreviations": (
        "abbreviations that the document defines are expanded, and ties settled as the linker does"
    ),
    # Slices.
    "ambiguous": "the text is not the name of exactly one entity",
    "unambiguous": "the text is a name of exactly one entity",
    "homonym": "the text is a name of several entities",
    "listed": "the text is a name of an entity",
    "unlisted": "the text is no entity's name",
    "seen": "a gold entity was seen in training",
    "unseen": "no gold entity was seen in training",
    "mined": "a gold entity has mined mentions as prototypes",
    "unmined": "no gold entity has mined mentions as prototypes",
    "nil": "gold is NIL",
    "label": "mentions with this label in the corpus",
    "type": "mentions of entities with this semantic type, as the ontology calls it",
    # Kinds of prototypes.
    "name": "a name of the entity, without context",
    "mention": "a mined passage with an unambiguous name of the entity",
    "replaced": (
        "a mined passage of the entity, with its name replaced by one that other entities share"
    ),
    "class": "an induced hypernym name: a word shared by the names of the entities below this one",
    "reference": "the ontology's description of the entity",
    # Errors.
    "mention not found": "the pipeline set no mention here",
    "no answer": "the mention has no link",
    "predicted NIL": "NIL was predicted; gold is an entity (a lower min_confidence links more)",
    "should be NIL": "an entity was predicted; gold is NIL (a higher min_confidence links less)",
    "tied with the correct entity": "the correct entity has the same score as the link",
    "correct entity not among the candidates": "no gold entity is among the candidates",
    "correct entity in the top 5": "a gold entity is among the first 5 candidates",
    "correct entity below the top 5": "a gold entity is among the candidates, after the first 5",
}


def meaning(term: str) -> str:
    """Return the meaning of a term of a report, such as `R@5`, `type:T047` or `exact +
    abbreviations`; "" for a term that needs none."""
    term = re.sub(r"^(R@|recall at )\d+$", "recall at k", term.partition(":")[0])
    parts = dict.fromkeys(re.split(r", | \+ ", term))
    return "; ".join(MEANINGS[part] for part in parts if part in MEANINGS)


TEMPLATE = Path(__file__).with_name("report.html")
# A page with more mentions is slow to open.
MAX_ERRORS = 2000
MAX_CORRECT = 1000
MAX_CANDIDATES = 5
# The link and the next candidate.
MAX_CANDIDATES_OF_CORRECT = 2


class _Compared(NamedTuple):
    """Another system's answer to a mention.

    right: which of the two is correct: "both", "this", "other" or "neither". differs: the answers
        are not the same.
    """

    record: LinkRecord
    right: str
    differs: bool


class PageMention(NamedTuple):
    """A mention of the page.

    reason: reason of the error, or "right". rank: of the first gold entity, from 1, or None.
        candidates: rank, id and score of the first ones, and of the correct one. others: the
        answers of the other systems.
    """

    record: LinkRecord
    reason: str
    rank: int | None
    candidates: list[tuple[int, str, float | None]]
    others: list[_Compared]


@dataclass
class Report:
    """Results of `evaluate`.

    data: content of `metrics/<name>.json`: `n`, `strict`, `lenient`, `macro`, `recall` by k,
        `slices.<slice>.strict` and `.recall`, `baselines.<name>.strict` and `.lenient`, `nil`,
        `distance`, `errors` by reason, `intervals`, `mentions_per_second`, `command`, and more.
    records: the evaluated mentions.
    titles: canonical names of the entities on the page, by id.
    others: the records of the systems whose links the page shows side by side, by name; all are in
        `data["baselines"]`.
    """

    name: str
    data: dict[str, Any]
    records: list[LinkRecord] = field(repr=False)
    titles: dict[str, str] = field(default_factory=dict, repr=False)
    others: dict[str, Sequence[LinkRecord]] = field(default_factory=dict, repr=False)

    suffixes = ("json", "md", "html", "links.jsonl")

    def errors(self) -> list[LinkRecord]:
        """Return the counted mentions whose link is not strictly correct."""
        return [record for record in counted(self.records) if not is_strict(record)]

    def to_json(self) -> str:
        return json.dumps(self.data, indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        parts = markdown_head(self.name, fact_rows(self.data), self.data["command"])
        tables = {"Systems": system_rows(self.data), "Slices": slice_rows(self.data)}
        if errors := self.data.get("errors"):
            counts = [(reason, f"{n:,}") for reason, n in errors.items()]
            tables["Errors"] = [("error", "mentions"), *counts]
        for title, rows in tables.items():
            parts += [f"## {title}", markdown_table(rows)]
        # The pipeline's name is no term. One line for all that mean the same: R@1, R@5.
        own = self.data["pipeline"]["name"]
        terms: dict[str, str] = {}
        for rows in tables.values():
            for term in (*rows[0], *(row[0] for row in rows if row[0] != own)):
                if found := meaning(term):
                    terms.setdefault(found, re.sub(r"^(R@|label:|type:).*", r"\1…", term))
        parts += ["## Terms", markdown_meanings((term, found) for found, term in terms.items())]
        return "\n\n".join(parts) + "\n"

    def to_table(self) -> str:
        """Return the report for a terminal."""
        from wasabi import table

        parts = ["\n".join(f"{name:<18} {value}" for name, value in fact_rows(self.data))]
        for rows in (system_rows(self.data), slice_rows(self.data)):
            aligns = ("l", *("r" * (len(rows[0]) - 1)))
            parts.append(table(rows[1:], header=rows[0], divider=True, aligns=aligns))
        return "\n".join(parts)

    def page_mentions(self) -> Iterator[PageMention]:
        """Yield the mentions of the page: the first `MAX_ERRORS` wrong and the first `MAX_CORRECT`
        correct ones, those that other systems answer differently first."""
        records = counted(self.records)
        others = [same_mentions(records, theirs, name=name) for name, theirs in self.others.items()]
        compared = [
            [_compared(record, theirs[i]) for theirs in others] for i, record in enumerate(records)
        ]
        kept: set[int] = set()
        for wanted, n in ((True, MAX_CORRECT), (False, MAX_ERRORS)):
            rows = [i for i, record in enumerate(records) if is_strict(record) is wanted]
            kept.update(
                sorted(rows, key=lambda i: not any(each.differs for each in compared[i]))[:n]
            )
        for i in sorted(kept):
            yield _page_mention(records[i], compared[i])

    def page_entity_ids(self) -> set[str]:
        """Return the ids of all entities on the page."""
        return {
            id_
            for mention in self.page_mentions()
            for record in (mention.record, *(other.record for other in mention.others))
            for id_ in (
                *record.gold,
                *record.ties,
                record.prediction,
                *(id_ for _, id_, _ in mention.candidates),
            )
        }

    def to_html(self) -> str:
        """Return the report as a self-contained page, with the errors and the winning prototypes.
        All texts of the corpus and the ontology are escaped."""
        tables, shown = (
            {"systems": system_rows(self.data), "slices": slice_rows(self.data)},
            list(self.page_mentions()),
        )
        systems = [[each.record for each in shown]]
        systems += [[each.others[i].record for each in shown] for i in range(len(self.others))]
        return _template().render(
            name=self.name,
            command=self.data["command"],
            titles=self.titles,
            tiles=tiles(self.data),
            facts=fact_rows(self.data),
            tables={kind: (rows, scale(rows)) for kind, rows in tables.items()},
            mentions=shown,
            n_errors=len(self.errors()),
            n_right=self.data["n"] - len(self.errors()),
            n_shown=Counter(each.reason == "right" for each in shown),
            meanings=MEANINGS,
            url=cache(entity_url),
            systems=[self.data["pipeline"]["name"], *self.others],
            compared=compared_rows(self.data, self.others),
            orders=[
                "confidence"
                if any(record.confidence is not None for record in records)
                else "score"
                for records in systems
            ],
        )

    def save(self, folder: str | Path) -> Path:
        """Write `<name>.json`, `.md`, `.html` and `.links.jsonl` (the records) to `folder`; return
        the JSON's path.

        Raises KrisselError K006 and K026 as `check_report` does.
        """
        folder = check_report(folder, self.name)
        for suffix, text in (
            ("json", self.to_json()),
            ("md", self.to_markdown()),
            ("html", self.to_html()),
        ):
            write_text(folder / f"{self.name}.{suffix}", text)
        write_records(self.records, folder / f"{self.name}.links.jsonl")
        return folder / f"{self.name}.json"


def count_errors(records: Sequence[LinkRecord]) -> dict[str, int]:
    """Return the number of errors by their reason, the most frequent first."""
    wrong = (each for each in counted(records) if not is_strict(each))
    return dict(Counter(map(error_reason, wrong)).most_common())


def error_reason(record: LinkRecord) -> str:
    """Return the first reason that applies to an error."""
    if not record.found:
        return "mention not found"
    if not record.prediction:
        return "no answer"
    if record.prediction == NIL:
        return "predicted NIL"
    if record.gold == (NIL,):
        return "should be NIL"
    if len(record.ties) > 1 and not set(record.ties).isdisjoint(record.gold):
        return "tied with the correct entity"
    rank = gold_rank(record)
    if rank is None:
        return "correct entity not among the candidates"
    return "correct entity in the top 5" if rank < 5 else "correct entity below the top 5"


def _compared(record: LinkRecord, other: LinkRecord) -> _Compared:
    right = paired_outcome(record, other)
    answers = [(each.found, each.prediction, set(each.ties)) for each in (record, other)]
    return _Compared(other, right, right in ("this", "other") or answers[0] != answers[1])


def _page_mention(record: LinkRecord, others: list[_Compared]) -> PageMention:
    rank, is_right = gold_rank(record), is_strict(record)
    # A repeated id keeps its first score.
    scores = dict([*zip(record.ranked, record.scores, strict=False)][::-1])
    n = MAX_CANDIDATES_OF_CORRECT if is_right else MAX_CANDIDATES
    ranked = enumerate(dict.fromkeys(record.ranked))
    candidates = [(i + 1, id_, scores.get(id_)) for i, id_ in ranked if i < n or i == rank]
    reason = "right" if is_right else error_reason(record)
    return PageMention(record, reason, None if rank is None else rank + 1, candidates, others)


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
