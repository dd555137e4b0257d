"""Evaluate a pipeline on a gold corpus: the plain function behind `python -m spacy krissel evaluate`."""

import platform
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Literal

import spacy
from spacy.language import Language

from .. import __version__
from ..errors import Errors, KrisselError, Warnings
from ..ontology.build import open_ontology
from ..ontology.store import OntologyStore
from ..pipeline.card import describe
from ..util.settings import Count, checked, passes_on
from .baselines import link_by_baselines
from .bootstrap import RESAMPLES
from .distance import link_distance
from .gold import Source, linked_entities, linked_mentions, read_gold, without_own_gold
from .metrics import compare as compare_systems
from .metrics import measure, span_scores
from .records import LinkRecord, counted, read_records
from .report import Report
from .run import check_counted, mined_entities, run_pipeline, warn_of_unknown_ids
from .slices import primary_ids
from .tables import check_report


@passes_on(run_pipeline, "n_candidates", "batch_size", "disable", "timed_mentions", "progress")
@checked
def evaluate(
    nlp: Language,
    docs: Source,
    ontology: OntologyStore | str | Path,
    output: str | Path | None = None,
    *,
    name: str = "evaluation",
    mentions: Literal["gold", "predicted"] = "gold",
    spans_key: str = "",
    labels: list[str] | None = None,
    baselines: bool = True,
    compare: Mapping[str, Sequence[LinkRecord] | str | Path] | None = None,
    seen: Collection[str] | None = None,
    train: str | Path | Sequence[Source] = (),
    gold_nil: bool = False,
    resamples: Count = RESAMPLES,
    seed: Count = 0,
    command: str = "",
    **settings: Any,
) -> Report:
    """Evaluate linking: strict and lenient accuracy, recall at k, slices, intervals, baselines, errors.

    nlp: a pipeline with a knowledge base
    docs: gold corpus: a .spacy file or a folder of them, a PubTator or BioC file, or `Doc`s, which are only read
    ontology: ontology store or file, or the name of a vocabulary: for primary ids, slices and baselines
    output: folder for the report: `<name>.json`, `.md`, `.html` and `.links.jsonl`; None writes nothing
    name: name of the report
    mentions: "gold" links the gold mentions, "predicted" those that the pipeline finds
    spans_key: gold mentions are in `doc.spans[spans_key]`; "" takes all mentions of the corpus (`read_gold`)
    labels: count gold mentions with these labels only
    baselines: add exact match and TF-IDF over the ontology's names, each also with abbreviations expanded
    compare: other systems by name: records of the same mentions, or the path of a `.links.jsonl`
    seen: ids of entities seen in training, for the slices seen and unseen
    train: gold corpora used in training, in any form of `docs`; entities linked there count as seen
    gold_nil: count gold mentions without a concept; "NIL" is their right answer
    resamples: bootstrap resamples
    seed: random seed of the bootstrap
    command: command line shown in the report

    Gold prototypes of the evaluated documents are not used meanwhile (`without_own_gold`).

    Raises KrisselError K006 (a wrong setting), K026 (`check_report`), K701 (no counted mention), K706 (no gold id is
    known), K721 (no linked mention in `train`), and what `read_gold`, `run_pipeline` and `compare` raise.
    """
    if output is not None:
        check_report(output, name)
    store = (
        ontology
        if isinstance(ontology, OntologyStore)
        else open_ontology(ontology, progress=settings.get("progress", False))
    )
    others = {
        title: read_records(other) if isinstance(other, (str, Path)) else other
        for title, other in (compare or {}).items()
    }
    trained = [train] if isinstance(train, (str, Path)) else list(train)
    if trained:
        seen = linked_entities(trained, nlp, store, spans_key=spans_key).union(seen or ())
    gold = read_gold(docs, nlp, spans_key=spans_key, labels=labels)
    ids = [id_ for _, id_ in linked_mentions(gold, store)]
    if ids and not any(id_ in store for id_ in ids):
        raise KrisselError(Errors.K706.format(n=len(ids), path=store.path, first=ids[0]))
    with without_own_gold(nlp, gold) as n_own_gold:
        run = run_pipeline(nlp, gold, store, mentions=mentions, labels=labels, gold_nil=gold_nil, **settings)
        mined = mined_entities(nlp)
    records = run.records
    check_counted(counted(records), docs, len(gold), labels)
    n_unknown = warn_of_unknown_ids(counted(records), store, Warnings.KW702)
    linked: dict[str, Sequence[LinkRecord]] = {}
    if baselines:
        documents = {item.id: item.doc.text for item in gold}
        linked = {**link_by_baselines(records, store, documents, progress=settings.get("progress", False))}
    resampled: dict[str, Any] = {"resamples": resamples, "seed": seed}
    data = {
        "name": name,
        "version": __version__,
        "software": {"spaCy": spacy.__version__, "Python": platform.python_version()},
        "date": date.today().isoformat(),
        "pipeline": describe(nlp),
        "command": command,
        "mentions": mentions,
        "spans_key": spans_key,
        "labels": None if labels is None else sorted(labels),
        "gold_nil": gold_nil,
        "n_seen": None if seen is None else len(primary_ids(seen, store)),
        **resampled,
        "n_left_out": run.n_left_out,
        "n_own_gold": n_own_gold,
        "n_unknown": n_unknown,
        **measure(records, store, seen=seen, mined=mined, **resampled),
        "distance": link_distance(records, store),
        "span": span_scores(records, **resampled) if mentions == "predicted" else None,
        "mentions_per_second": run.mentions_per_second,
        "baselines": {
            title: {
                **measure(other, store, seen=seen, **resampled),
                "difference": compare_systems(records, other, name=title, **resampled),
            }
            for title, other in {**linked, **others}.items()
        },
    }
    report = Report(name, data, records, others=others)
    report.titles = {id_: store.get(id_).name for id_ in sorted(report.shown_ids()) if id_ in store}
    if output is not None:
        report.save(output)
    return report
