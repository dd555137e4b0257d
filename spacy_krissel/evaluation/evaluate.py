"""Evaluation of a pipeline on a gold corpus: the function behind `krissel evaluate`."""

import json
import weakref
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from spacy.language import Language

from ..errors import Errors, KrisselError, Warnings, wrong_setting
from ..kb.prototype_kb import PrototypeKB
from ..mentions.gold_mentions import split_gold
from ..ontology.build import open_ontology
from ..ontology.store import OntologyStore, write_store
from ..pipeline.card import add_evaluation, write_licences
from ..pipeline.pipeline_io import load_pipeline
from ..util.atomic import check_file, write_text
from ..util.settings import Count, PositiveInt, checked
from .baselines import link_by_baselines
from .bootstrap import RESAMPLES
from .distance import link_distance
from .end_to_end import evaluate_texts
from .end_to_end_report import EndToEndReport
from .gold import (
    Source,
    count_discontinuous,
    linked_entities,
    linked_mentions,
    read_gold,
    warn_of_own_names,
    without_own_gold,
)
from .metrics import compare as compare_systems
from .metrics import measure, span_scores
from .records import LinkRecord, counted, read_records
from .report import Report, count_errors
from .run import (
    N_CANDIDATES,
    TIMED_MENTIONS,
    check_counted,
    mined_entities,
    report_head,
    run_pipeline,
    warn_of_unknown_ids,
)
from .slices import primary_ids
from .tables import check_report

Compared = Mapping[str, Sequence[LinkRecord] | str | Path]


@checked
def evaluate(
    pipeline: Language | str | Path,
    gold: Source,
    ontology: OntologyStore | str | Path | None = None,
    output: str | Path | None = None,
    *,
    name: str = "evaluation",
    predicted: bool = False,
    end_to_end: bool = False,
    below: Sequence[str] = (),
    spans_key: str = "",
    labels: list[str] | None = None,
    baselines: bool = True,
    compare: Compared | Sequence[str] = (),
    seen: Collection[str] | None = None,
    train: str | Path | Sequence[Source] = (),
    gold_nil: bool = False,
    seed: Count = 0,
    n_candidates: PositiveInt = N_CANDIDATES,
    timed_mentions: Count = TIMED_MENTIONS,
    index_device: str | None = None,
    overrides: dict[str, Any] | None = None,
    write_meta: bool = False,
    command: str = "",
    progress: bool = False,
) -> Report | EndToEndReport:
    """Measure the accuracy of links on a gold corpus.

    Strict and lenient accuracy, recall at k, slices, intervals, baselines, errors.
    From text alone (`end_to_end`): precision, recall and F1 of links, and errors by kind.

    Further options override the pipeline's config: --components.krissel_linker.context none

    pipeline: a pipeline with a knowledge base, or its path
    gold: gold corpus: a .spacy file or a folder of them, a PubTator or BioC file, or `Doc`s, which
        are not changed
    ontology: ontology store or file, or the name of a vocabulary: for primary ids, slices and
        baselines. Default: the entities of the pipeline's knowledge base
    output: folder for the report: `<name>.json`, `.md`, `.html` and `.links.jsonl`; with
        `end_to_end` `<name>.json`, `.md` and `.errors.jsonl`. From Python, None writes nothing
    name: name of the report
    predicted: link the pipeline's own mentions, not the gold ones
    end_to_end: pass only the text to the pipeline, and score its links: ids per document, and spans
        with their id, next to a plain dictionary of the ontology's names. Excludes `predicted`,
        `compare`, `seen`, `train`, `gold_nil`, `write_meta`
    below: with `end_to_end`: count links to this entity and its descendants only
    spans_key: gold mentions are in `doc.spans[spans_key]`; "" takes all mentions of the corpus, as
        `convert` writes them, else `doc.ents`
    labels: count gold mentions with these labels only
    baselines: add exact match and TF-IDF over the ontology's names, each also with abbreviations
        expanded; with `end_to_end` the dictionary
    compare: name=path of another system's .links.jsonl; the page shows both systems' links side by
        side. From Python also records of the same mentions by the system's name
    seen: ids of entities seen in training, for the slices seen and unseen
    train: gold corpus used in training, in any form of `gold`; entities linked there count as seen
    gold_nil: count gold mentions without a concept; their correct answer is "NIL"
    seed: random seed of the bootstrap
    n_candidates, timed_mentions, progress: see `run_pipeline`
    index_device: device of the index of a loaded pipeline: cpu, cuda:0 or cuda:all; default: the
        pipeline's setting
    overrides: overrides of a loaded pipeline's config, by dotted key
    write_meta: add the results to the model card in the meta.json of the pipeline's folder
    command: command line shown in the report

    Gold prototypes of the evaluated documents are not used meanwhile (`without_own_gold`).

    Raises KrisselError K001, K212 (a gold corpus), K006 (a wrong setting), K026 (`check_report`),
    K701 (no counted mention), K706 (no gold id is known), K721 (no linked mention in `train`), and
    those of `load_pipeline`, `convert`, `run_pipeline`, `metrics.compare` and `evaluate_texts`.
    """
    compared = _compared(compare)
    _check_end_to_end(
        end_to_end,
        below,
        {
            "predicted": predicted,
            "compare": compared,
            "seen": seen,
            "train": train,
            "gold_nil": gold_nil,
            "write_meta": write_meta,
            "n_candidates": n_candidates != N_CANDIDATES and n_candidates,
            "timed_mentions": timed_mentions != TIMED_MENTIONS and timed_mentions,
        },
    )
    if output is not None:
        check_report(output, name)
    card = _card_of(pipeline, overrides) if write_meta else None
    nlp = (
        pipeline
        if isinstance(pipeline, Language)
        else load_pipeline(pipeline, overrides, index_device=index_device)
    )
    store = _open_store(ontology, nlp, progress)
    others = {
        title: read_records(other) if isinstance(other, (str, Path)) else other
        for title, other in compared.items()
    }
    trained = [train] if isinstance(train, (str, Path)) else list(train)
    if trained:
        seen = linked_entities(trained, nlp, store, spans_key=spans_key).union(seen or ())
    docs = read_gold(gold, nlp, spans_key=spans_key, labels=labels)
    ids = [id_ for _, id_ in linked_mentions(docs, store)]
    if ids and not any(id_ in store for id_ in ids):
        n = sum(bool(split_gold(each.kb_id_, store)) for item in docs for each in item.mentions)
        where = "the pipeline's ontology" if ontology is None else f"the ontology '{store.path}'"
        raise KrisselError(Errors.K706.format(n=n, where=where, first=ids[0]))
    if end_to_end:
        scored = evaluate_texts(
            nlp,
            docs,
            store,
            name=name,
            spans_key=spans_key,
            labels=labels,
            below=below,
            baselines=baselines,
            seed=seed,
            command=command,
            progress=progress,
        )
        if output is not None:
            scored.save(output)
        return scored
    mentions: Literal["gold", "predicted"] = "predicted" if predicted else "gold"
    with without_own_gold(nlp, docs) as n_own_gold:
        if predicted:
            warn_of_own_names(nlp, n_own_gold, len(docs))
        run = run_pipeline(
            nlp,
            docs,
            store,
            mentions=mentions,
            labels=labels,
            gold_nil=gold_nil,
            n_candidates=n_candidates,
            timed_mentions=timed_mentions,
            progress=progress,
        )
        mined = mined_entities(nlp)
    records = run.records
    n_discontinuous = 0 if spans_key else count_discontinuous(docs, labels)
    check_counted(counted(records), gold, len(docs), labels)
    n_unknown = warn_of_unknown_ids(counted(records), store, Warnings.KW702)
    linked: dict[str, Sequence[LinkRecord]] = {}
    if baselines:
        documents = {item.id: item.doc.text for item in docs}
        linked = {**link_by_baselines(records, store, documents, progress=progress)}
    resampled: dict[str, Any] = {"resamples": RESAMPLES, "seed": seed}
    data = {
        **report_head(nlp, name, command),
        "mentions": mentions,
        "spans_key": spans_key,
        "labels": None if labels is None else sorted(labels),
        "gold_nil": gold_nil,
        "n_seen": None if seen is None else len(primary_ids(seen, store)),
        **resampled,
        "n_left_out": run.n_left_out + n_discontinuous,
        "n_discontinuous": n_discontinuous,
        "n_own_gold": n_own_gold,
        "n_unknown": n_unknown,
        **measure(records, store, seen=seen, mined=mined, **resampled),
        "distance": link_distance(records, store),
        "errors": count_errors(records),
        "span": span_scores(records, **resampled) if predicted else None,
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
    report.titles = {
        id_: store.get(id_).name for id_ in sorted(report.page_entity_ids()) if id_ in store
    }
    if output is not None:
        report.save(output)
    if card is not None:
        # Results for some labels, for predicted mentions or with NIL are not those of the whole
        # corpus.
        corpus = Path(gold).stem if isinstance(gold, (str, Path)) else name
        some = [*sorted(labels or ()), spans_key, "predicted" * predicted, "nil" * gold_nil]
        add_evaluation(nlp, "-".join([corpus, *filter(None, some)]), data)
        write_text(card, json.dumps(nlp.meta, indent=2) + "\n")
        write_licences(nlp, card.parent)
    return report


def show_evaluate(
    report: Report | EndToEndReport, output: Path, name: str, pipeline: Path, write_meta: bool
) -> str:
    files = ", ".join(f".{suffix}" for suffix in report.suffixes)
    lines = [report.to_table(), f"Report: {output / name}{files}"]
    lines += [f"Model card: {pipeline / 'meta.json'}"] if write_meta else []
    if n := report.data["n_unknown"]:
        lines.append(
            f"⚠ {n:,} gold mentions have an id that is not in the ontology: they count as wrong "
            "[KW702]"
        )
    return "\n".join(lines)


def _check_end_to_end(
    end_to_end: bool, below: Sequence[str], excluded: Mapping[str, object]
) -> None:
    """Raise KrisselError K006 for settings that do not fit together."""
    if below and not end_to_end:
        raise wrong_setting("below", below, "only with end_to_end")
    if end_to_end and (given := next((name for name in excluded if excluded[name]), None)):
        raise wrong_setting(given, excluded[given], "none with end_to_end, which gives only texts")


def _open_store(
    ontology: OntologyStore | str | Path | None, nlp: Language, progress: bool
) -> OntologyStore:
    """Open the ontology, or write the entities of the pipeline's knowledge base to a temporary
    store, which is removed with its last reference.

    Raises KrisselError K006 for None if no knowledge base keeps names (`prototypes --no-details`).
    """
    if isinstance(ontology, OntologyStore):
        return ontology
    if ontology is not None:
        return open_ontology(ontology, progress=progress)
    kbs = (getattr(pipe, "kb", None) for _, pipe in nlp.pipeline)
    tables = (kb.entities for kb in kbs if isinstance(kb, PrototypeKB))
    table = next((table for table in tables if table.details is not None), None)
    if table is None:
        expected = "an ontology, since the pipeline has no knowledge base with all names"
        raise wrong_setting("ontology", ontology, expected)
    folder = TemporaryDirectory(prefix="krissel-")
    store = write_store(table, Path(folder.name) / "store", progress=progress)
    weakref.finalize(store, folder.cleanup)
    return store


def _compared(compare: Compared | Sequence[str]) -> Compared:
    """Parse `compare`. Raises KrisselError K006 for a text other than name=path."""
    if isinstance(compare, Mapping):
        return compare
    others: dict[str, str] = {}
    for pair in compare:
        title, _, others[title] = pair.partition("=")
        if not others[title]:
            raise wrong_setting("compare", pair, "name=path")
    return others


def _card_of(pipeline: Language | str | Path, overrides: dict[str, Any] | None) -> Path:
    """Return the path of a pipeline's card. Raises KrisselError K006 for a pipeline other than one
    in a folder, K026 if its card cannot be written."""
    if isinstance(pipeline, Language) or overrides or not Path(pipeline).is_dir():
        expected = (
            "false, except for a pipeline's folder (no installed package) with its own settings"
        )
        raise wrong_setting("write_meta", True, expected)
    card = Path(pipeline) / "meta.json"
    check_file(card)
    return card
