"""Runs of a pipeline over gold documents, with a record of its answer for each mention."""

import platform
import time
import warnings
from collections import defaultdict
from collections.abc import Container, Iterator, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import date
from itertools import accumulate, groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Literal, NamedTuple

import spacy
from spacy.language import Language
from spacy.tokens import Doc, Span

from ..about import __version__
from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..kb.candidates import prototype_surface
from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import MINED_KINDS
from ..mentions.annotations import NIL, spans_of
from ..mentions.gold_ids import Resolver
from ..mentions.gold_mentions import primary_id, split_gold
from ..pipeline.card import describe
from ..pipeline.pipe import link_writers
from ..pipeline.pipeline_io import mention_setters, within_max_length
from ..util.progress import progress_bar
from ..util.settings import Count, PositiveInt, checked
from ..views import mention_view
from .gold import GoldDoc, Source, without_links
from .records import LinkRecord, counted

# Number of characters of context shown with an error in the report.
SHOWN_CONTEXT = 90
# Number of candidates kept for recall, and of mentions that speed is measured on.
N_CANDIDATES, TIMED_MENTIONS = 64, 2000
MAX_LISTED = 3


class Run(NamedTuple):
    """Records of a run, the number of gold mentions that are not counted, and the speed."""

    records: list[LinkRecord]
    n_left_out: int
    mentions_per_second: float


def report_head(nlp: Language, name: str, command: str) -> dict[str, Any]:
    """Return the first entries of each report: what was run, when, and by which versions."""
    return {
        "name": name,
        "version": __version__,
        "software": {"spaCy": spacy.__version__, "Python": platform.python_version()},
        "date": date.today().isoformat(),
        "pipeline": describe(nlp),
        "command": command,
    }


@checked
def run_pipeline(
    nlp: Language,
    gold: Sequence[GoldDoc],
    store: Resolver,
    *,
    mentions: Literal["gold", "predicted"],
    labels: list[str] | None = None,
    gold_nil: bool = False,
    n_candidates: PositiveInt = N_CANDIDATES,
    batch_size: PositiveInt | None = None,
    disable: Sequence[str] = (),
    timed_mentions: Count = TIMED_MENTIONS,
    progress: bool = False,
) -> Run:
    """Link the mentions of `gold` with `nlp`.

    store: resolves gold and predicted ids to primary ids, which are compared; an ontology, or a
        knowledge base.
    mentions: "gold" passes the gold mentions without ids to the pipeline, and disables the
        components that would set others; "predicted" passes only the text. Predicted mentions are
        kept if their label is in `labels` (ignoring case), and not counted if a gold mention there
        has no concept. Documents longer than `nlp.max_length` are skipped (KW620).
    A linker with a `spans_key` reads and writes the spans of that group instead of `doc.ents`.
    n_candidates: number of candidates kept by the linkers during the run, for recall; at least the
        `top_k` of a re-ranker.
    timed_mentions: speed is measured in a second pass with the linker's own settings, over the
        first documents with this many mentions.
    progress: show a progress bar.

    Raises KrisselError K006 (a wrong setting) and K703 (nothing in the pipeline links). Warns KW720
    if none of the mentions was linked.
    """
    linkers = link_writers(nlp)
    if not linkers:
        raise KrisselError(Errors.K703.format(pipes=", ".join(nlp.pipe_names) or "none"))
    spans_key = next(
        (cfg["spans_key"] for cfg in _settings(nlp, linkers) if cfg.get("spans_key")), ""
    )
    off = [name for name in disable if name in nlp.pipe_names]
    if mentions == "gold":
        off += [name for name in mention_setters(nlp) if name not in off]
    else:
        gold = list(within_max_length(nlp, gold, lambda item: (item.doc.text, item.id)))

    def inputs(item: GoldDoc) -> list[Doc]:
        return (
            without_links(item, nlp, spans_key)
            if mentions == "gold"
            else [nlp.make_doc(item.doc.text)]
        )

    wanted = (
        None if labels is None or mentions == "gold" else {label.casefold() for label in labels}
    )
    records: list[LinkRecord] = []
    with nlp.select_pipes(disable=off):
        with min_candidates(nlp, linkers, n_candidates):
            docs = ((doc, number) for number, item in enumerate(gold) for doc in inputs(item))
            piped = nlp.pipe(docs, as_tuples=True, batch_size=batch_size)
            groups = groupby(piped, key=itemgetter(1))
            for number, group in progress_bar(
                groups, show=progress, total=len(gold), desc="Linking", unit=" docs"
            ):
                spans = [span for doc, _ in group for span in spans_of(doc, spans_key)]
                if wanted is not None:
                    spans = [span for span in spans if span.label_.casefold() in wanted]
                records += _records(
                    gold[number], spans, store, gold_nil, predicted=mentions == "predicted"
                )
        speed = _mentions_per_second(nlp, gold, inputs, spans_key, batch_size, timed_mentions)
    linked = counted(records)
    if mentions == "gold" and (lost := [record for record in records if not record.found]):
        examples = ", ".join(
            f"{record.doc} {record.start}-{record.end}" for record in lost[:MAX_LISTED]
        )
        message = Warnings.KW701.format(n=len(lost), total=len(records), examples=examples)
        warnings.warn(message, KrisselWarning, stacklevel=3)
    # Lost gold mentions have their own warning.
    if any(record.found or mentions == "predicted" for record in linked) and not any(
        r.prediction for r in records
    ):
        message = Warnings.KW720.format(n=len(records), pipes=", ".join(linkers))
        warnings.warn(message, KrisselWarning, stacklevel=3)
    return Run(records, sum(len(item.mentions) for item in gold) - len(linked), speed)


def _records(
    item: GoldDoc, spans: Sequence[Span], store: Resolver, gold_nil: bool, *, predicted: bool
) -> Iterator[LinkRecord]:
    """Yield the records of the document's gold mentions, given the linked spans, and of spans that
    match no gold mention."""
    found: dict[tuple[int, int, str], list[Span]] = defaultdict(list)

    def key(span: Span) -> tuple[int, int, str]:
        return span.start_char, span.end_char, "" if predicted else span.label_

    for span in spans:
        found[key(span)].append(span)
    for mention in item.mentions:
        there = found[key(mention)]
        ids = split_gold(mention.kb_id_, store, gold_nil=gold_nil)
        answer = there[0] if there else None
        if predicted:
            answer = next((span for span in there if primary_id(span.kb_id_, store) in ids), answer)
        if answer is not None:
            there.remove(answer)
        if ids:
            yield _record(item, mention, ids, answer, store)
    if predicted:
        for there in found.values():
            for span in there:
                yield _record(item, span, (), span, store)


def _record(
    item: GoldDoc, mention: Span, gold: tuple[str, ...], linked: Span | None, store: Resolver
) -> LinkRecord:
    """Return the record of the gold (or, without gold, predicted) `mention`, with the answer
    `linked`."""
    view = mention_view(mention.doc.text, mention.start_char, mention.end_char, SHOWN_CONTEXT)
    record = LinkRecord(
        doc=item.id,
        start=mention.start_char,
        end=mention.end_char,
        text=mention.text,
        label=mention.label_,
        gold=gold,
        left=view.left,
        right=view.right,
        found=linked is not None,
    )
    if linked is None:
        return record
    record.prediction = primary_id(linked.kb_id_, store) if linked.kb_id_ else ""
    candidates = (
        (linked._.krissel_candidates or []) if Span.has_extension("krissel_candidates") else []
    )
    if not candidates:
        # The linker writes no candidates, or none for this mention.
        record.ranked = [record.prediction] if store.resolve(record.prediction) is not None else []
        return record
    record.ranked = [primary_id(candidate["id"], store) for candidate in candidates]
    record.scores = [float(candidate["score"]) for candidate in candidates]
    record.confidence = candidates[0].get("confidence")
    if Span.has_extension("krissel_ties"):
        record.ties = [primary_id(entity, store) for entity in linked._.krissel_ties or ()]
    # The winning prototype is the predicted entity's; with NIL, the best candidate's.
    winner = record.ranked.index(record.prediction) if record.prediction in record.ranked else 0
    record.prototype = candidates[winner]["evidence"]
    record.prototype_kind = candidates[winner]["kind"]
    record.prototype_surface = prototype_surface(candidates[winner])
    return record


def mined_entities(nlp: Language) -> list[str] | None:
    """Return the ids of entities with mined mentions as prototypes; None without a knowledge base
    of prototypes."""
    for name in nlp.pipe_names:
        kb = getattr(nlp.get_pipe(name), "kb", None)
        if isinstance(kb, PrototypeKB):
            return list(kb.entity_ids.take(kb.prototypes.entities_of(MINED_KINDS)))
    return None


def linked_keys(nlp: Language) -> list[str]:
    """Return the groups of `doc.spans` that the linkers write to; "" stands for `doc.ents`."""
    linkers = link_writers(nlp)
    settings = _settings(nlp, linkers)
    keys = dict.fromkeys(cfg.get("spans_key") or "" for cfg in settings)
    # A component without settings links entities.
    return [*keys, *([""] if len(settings) < len(linkers) and "" not in keys else [])]


def _settings(nlp: Language, names: Sequence[str]) -> list[MutableMapping[str, Any]]:
    settings = (getattr(nlp.get_pipe(name), "cfg", None) for name in names)
    return [cfg for cfg in settings if isinstance(cfg, MutableMapping)]


@contextmanager
def min_candidates(nlp: Language, linkers: Sequence[str], n_candidates: int) -> Iterator[None]:
    """Make linkers keep at least `n_candidates` candidates, and as many as re-rankers read, inside
    this context."""
    settings = _settings(nlp, linkers)
    wanted = max([n_candidates, *(cfg["top_k"] for cfg in settings if "top_k" in cfg)])
    with ExitStack() as stack:
        for cfg in settings:
            if "n_candidates" in cfg:
                stack.enter_context(
                    override_setting(cfg, "n_candidates", max(cfg["n_candidates"] or 0, wanted))
                )
        yield


@contextmanager
def override_setting(cfg: MutableMapping[str, Any], setting: str, value: Any) -> Iterator[None]:
    """Set the setting to another value inside this context."""
    before = cfg[setting]
    cfg[setting] = value
    try:
        yield
    finally:
        cfg[setting] = before


def _mentions_per_second(nlp, gold, inputs, spans_key, batch_size, timed_mentions) -> float:
    counts = accumulate((len(item.mentions) for item in gold), initial=0)
    docs = [
        doc
        for item, n in zip(gold, counts, strict=False)
        if n < timed_mentions
        for doc in inputs(item)
    ]
    start = time.perf_counter()
    n_linked = sum(len(spans_of(doc, spans_key)) for doc in nlp.pipe(docs, batch_size=batch_size))
    return n_linked / (time.perf_counter() - start)


def check_counted(
    records: Sequence[LinkRecord], source: Source, n_docs: int, labels: list[str] | None
) -> None:
    """Raise KrisselError K701 if there are no records."""
    if not records:
        found = f"'{source}'" if isinstance(source, (str, Path)) else "the corpus"
        detail = f" among the labels {sorted(labels)}" if labels else ""
        raise KrisselError(Errors.K701.format(source=found, n_docs=n_docs, detail=detail))


def warn_of_unknown_ids(records: Sequence[LinkRecord], known: Container[str], message: str) -> int:
    """Warn with `message` of gold mentions none of whose ids is known. RETURNS: their number."""
    lost = [
        record
        for record in records
        if record.gold != (NIL,) and not any(id_ in known for id_ in record.gold)
    ]
    if lost:
        examples = ", ".join(
            f"{each.doc} {each.start}-{each.end} {each.gold[0]}" for each in lost[:MAX_LISTED]
        )
        text = message.format(n=len(lost), total=len(records), examples=examples)
        warnings.warn(text, KrisselWarning, stacklevel=4)
    return len(lost)
