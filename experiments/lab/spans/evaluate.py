"""Evaluate systems on OSLAT's two tasks: the spans of entities that a text speaks of, and which
entities those are."""

import json
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import spacy
from spacy.tokens import Doc
from spacy.vocab import Vocab

from spacy_krissel import __version__
from spacy_krissel.corpora.doc_bins import read_doc_bins
from spacy_krissel.evaluation.records import write_records
from spacy_krissel.evaluation.run import MAX_LISTED
from spacy_krissel.evaluation.tables import check_report
from spacy_krissel.mentions.gold_mentions import document_entities
from spacy_krissel.ontology.store import OntologyStore
from spacy_krissel.util.atomic import write_text

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from .metrics import ACCURACY_AT, link_figures, slice_pairs, span_figures, span_leads
from .records import SpanRecord
from .systems import GoldText, SpanSystem, run_span_system
from .tables import span_markdown


@dataclass
class SpanReport:
    """Results of `evaluate_spans`.

    data: JSON-ready: `systems.<name>.spans` and `.linking` as `span_figures` and `link_figures`
        return them, `.behind` for all but the first system: the lead of the first (`span_leads`);
        `n`, `slices` and settings.
    records: the pairs by system.
    """

    name: str
    data: dict[str, Any]
    records: dict[str, list[SpanRecord]] = field(repr=False)

    def to_json(self) -> str:
        return json.dumps(self.data, indent=2, ensure_ascii=False) + "\n"

    def to_markdown(self) -> str:
        return span_markdown(self.data)

    def save(self, folder: str | Path) -> Path:
        """Write `<name>.json` and `.md`, and the records of each system as
        `<name>.<number>-<system>.spans.jsonl`, to `folder`; returns the JSON's path."""
        folder = check_report(folder, self.name)
        for suffix, text in (("json", self.to_json()), ("md", self.to_markdown())):
            write_text(folder / f"{self.name}.{suffix}", text)
        for number, (system, records) in enumerate(self.records.items(), start=1):
            plain = re.sub(r"[^\w.-]+", "-", system).strip("-")
            write_records(records, folder / f"{self.name}.{number}-{plain}.spans.jsonl")
        return folder / f"{self.name}.json"


def evaluate_spans(
    systems: Mapping[str, SpanSystem | Sequence[SpanSystem]],
    docs: str | Path | Iterable[Doc],
    ontology: OntologyStore | str | Path,
    output: str | Path | None = None,
    *,
    name: str = "spans",
    entities: Sequence[str] | None = None,
    seen: Collection[str] | None = None,
    content_only: bool = True,
    ks: Sequence[int] = ACCURACY_AT,
    lang: str = "en",
    resamples: int = 1000,
    seed: int = 0,
    command: str = "",
) -> SpanReport:
    """Ask each system for the spans of the gold entities of each text, and for scores of all
    entities, and report.

    systems: by name, the first is the one that the others are compared with. A system without
        `spans` or `scores` has no part in the tables of that kind. Several of one name are trained
        with different seeds: their pairs are counted together, which gives their mean, with an
        interval over documents. One of a kind stands beside each.
    docs: a .spacy file or a folder of them, or docs of a language's vocabulary (a bare one knows no
        stop words). Their entities are in `doc.cats`, their gold spans are what `gold_mentions`
        finds: a pair without any counts for linking only.
    output: a folder for the report and the records; None writes nothing.
    entities: ids of those that are ranked (the paper's universe); all of the ontology by default.
    seen: ids of the entities that training showed, for the slices seen and unseen.
    content_only: leave stop words and punctuation out of predicted and gold tokens, see
        `span_figures`.
    ks: of accuracy at k. lang: whose stop words, for a file. resamples, seed: of the bootstrap over
        documents.

    Raises KrisselError K006 (no system), K106 (an entity that the ontology does not hold), K736 (no
    pairs), and what `read_doc_bins` and `run_span_system` raise.
    """
    runs = {
        title: list(each) if isinstance(each, Sequence) else [each]
        for title, each in systems.items()
    }
    n_runs = max((len(each) for each in runs.values()), default=0)
    if not n_runs or any(len(each) not in (1, n_runs) for each in runs.values()):
        expected = "at least one, 1 or n of each"
        raise KrisselError(
            Errors.K006.format(setting="systems", found=dict(systems), expected=expected)
        )
    if output is not None:
        check_report(output, name)
    store = ontology if isinstance(ontology, OntologyStore) else OntologyStore(ontology)
    ranked = (
        list(store.ids)
        if entities is None
        else list(dict.fromkeys(store.get(id_).id for id_ in entities))
    )
    known = None if seen is None else {store.resolve(id_) or id_ for id_ in seen}
    source = f"'{docs}'" if isinstance(docs, (str, Path)) else "the corpus"
    read = read_doc_bins(docs, spacy.blank(lang).vocab) if isinstance(docs, (str, Path)) else docs
    every = [GoldText(doc, store, known) for doc in read]
    texts = [text for text in every if text.pairs]
    pairs = [record for text in texts for record in text.pairs]
    if not pairs:
        raise KrisselError(Errors.K736.format(n_docs=len(every), source=source))
    _warn_of_unknown(pairs, set(ranked))
    settings: dict[str, Any] = {"resamples": resamples, "seed": seed}
    records = {}
    for title, each in runs.items():
        found = [run_span_system(system, texts, ranked, name=title) for system in each]
        records[title] = [record for i in range(n_runs) for record in found[i % len(found)]]
    first = next(iter(records))
    figures: dict[str, Any] = {}
    for title, own in records.items():
        figures[title] = {
            "spans": span_figures(own, content_only=content_only, **settings),
            "linking": link_figures(own, ks=ks, **settings),
        }
        if title != first:
            options = {"name": title, "content_only": content_only, "ks": ks, **settings}
            figures[title]["behind"] = span_leads(records[first], own, **options)
    data = {
        "name": name,
        "version": __version__,
        "command": command,
        "content_only": content_only,
        "ks": list(ks),
        **settings,
        "n_runs": n_runs,
        "n": len(pairs),
        "n_docs": len(texts),
        "n_gold": sum(record.gold is not None for record in pairs),
        "n_entities": len(ranked),
        "n_seen": None if known is None else len(known),
        "slices": {title: int(mask.sum()) for title, mask in slice_pairs(pairs).items()},
        "systems": figures,
    }
    report = SpanReport(name, data, records)
    if output is not None:
        report.save(output)
    return report


def _warn_of_unknown(pairs: Sequence[SpanRecord], known: Collection[str]) -> None:
    lost = [record for record in pairs if record.entity not in known]
    if lost:
        examples = ", ".join(f"{record.entity} in {record.doc}" for record in lost[:MAX_LISTED])
        counts = {"n": len(lost), "total": len(pairs), "n_entities": len(known)}
        warnings.warn(
            Warnings.KW731.format(examples=examples, **counts), KrisselWarning, stacklevel=3
        )


def linked_texts(paths: Sequence[str | Path], vocab: Vocab) -> set[str]:
    """The ids of the entities in the docs of .spacy files, as written there (`document_entities`).

    Raises KrisselError K721 for a file without any, and what `read_doc_bins` raises.
    """
    entities: set[str] = set()
    for path in paths:
        docs = list(read_doc_bins(path, vocab))
        found = {entity for doc in docs for entity in document_entities(doc)}
        if not found:
            raise KrisselError(Errors.K721.format(source=f"'{path}'", n_docs=len(docs)))
        entities |= found
    return entities
