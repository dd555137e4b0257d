"""Run a pipeline over gold documents and record its answer for each mention."""

import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from spacy.language import Language
from spacy.tokens import Doc, Span

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import MINED
from ..mentions.annotations import spans_of
from ..mentions.gold_ids import Resolver
from ..mentions.gold_mentions import primary_id, split_gold
from ..pipeline.pipeline_io import link_writers, mention_setters, of_length
from ..util.settings import Count, PositiveInt, checked
from ..views import mention_view
from .gold import GoldDoc, without_links
from .records import LinkRecord, counted

# Characters of context that an error in the report is shown with.
SHOWN_CONTEXT = 90
MAX_PLACES = 3


@dataclass
class Run:
    """The records of a run, the number of gold mentions that are not counted, and the speed."""

    records: list[LinkRecord]
    n_left_out: int
    mentions_per_second: float


@checked
def run_pipeline(
    nlp: Language,
    gold: Sequence[GoldDoc],
    store: Resolver,
    *,
    mentions: Literal["gold", "predicted"] = "gold",
    labels: list[str] | None = None,
    gold_nil: bool = False,
    n_candidates: PositiveInt = 64,
    batch_size: PositiveInt | None = None,
    disable: Sequence[str] = (),
    timed_mentions: Count = 2000,
) -> Run:
    """Link the mentions of `gold` with `nlp`.

    store: resolves gold and predicted ids to primary ids, which are compared; an ontology, or a knowledge base.
    mentions: "gold" gives the pipeline the gold mentions without ids, and switches off the components that would set
        others; "predicted" gives it the text only. Predicted mentions are kept if their label is in `labels` (ignoring
        case), and not counted where a gold mention has no concept. Documents longer than `nlp.max_length` are skipped
        (KW620).
    A linker with a `spans_key` reads and writes the spans of that group instead of `doc.ents`.
    n_candidates: candidates kept by the linkers during the run, for recall. A re-ranker still re-ranks as many as the
        linker's own setting.
    timed_mentions: speed is measured in a second pass with the linker's own settings, over the first documents with
        this many mentions.

    Raises KrisselError K006 (a wrong setting) and K703 (nothing in the pipeline links). Warns KW720 when
    none of the mentions was linked.
    """
    linkers = link_writers(nlp)
    if not linkers:
        raise KrisselError(Errors.K703.format(pipes=", ".join(nlp.pipe_names) or "none"))
    spans_key = next((cfg["spans_key"] for cfg in _settings(nlp, linkers) if cfg.get("spans_key")), "")
    off = [name for name in disable if name in nlp.pipe_names]
    if mentions == "gold":
        off += [name for name in mention_setters(nlp) if name not in off]
    else:
        gold = list(of_length(nlp, gold, lambda item: (item.doc.text, item.id)))
    with nlp.select_pipes(disable=off):
        with many_candidates(nlp, linkers, n_candidates):
            records, n_left_out = (_link_gold if mentions == "gold" else _link_predicted)(
                nlp, gold, store, spans_key, labels, gold_nil, batch_size
            )
        speed = _mentions_per_second(nlp, gold, mentions, spans_key, batch_size, timed_mentions)
    # Lost gold mentions have their own warning.
    linked = [record for record in counted(records) if record.found or mentions == "predicted"]
    if linked and not any(record.prediction for record in records):
        message = Warnings.KW720.format(n=len(records), pipes=", ".join(linkers))
        warnings.warn(message, KrisselWarning, stacklevel=3)
    return Run(records, n_left_out, speed)


def _link_gold(nlp, gold, store, spans_key, labels, gold_nil, batch_size) -> tuple[list[LinkRecord], int]:
    copies = [(item, copy) for item in gold for copy in without_links(item, nlp, spans_key)]
    linked: dict[int, list[Doc]] = defaultdict(list)
    docs = nlp.pipe((copy for _, copy in copies), batch_size=batch_size)
    for (item, _), doc in zip(copies, docs, strict=True):
        linked[id(item)].append(doc)
    records, n_left_out, lost = [], 0, []
    for item in gold:
        found: dict[tuple[int, int, str], list[Span]] = defaultdict(list)
        for doc in linked[id(item)]:
            for span in spans_of(doc, spans_key):
                found[span.start_char, span.end_char, span.label_].append(span)
        for mention in item.mentions:
            ids = split_gold(mention.kb_id, store, gold_nil=gold_nil)
            if not ids:
                n_left_out += 1
                continue
            span = item.doc[mention.start : mention.end]
            there = found[span.start_char, span.end_char, mention.label]
            records.append(_record(item, span, mention.label, ids, there.pop(0) if there else None, store))
            if not records[-1].found:
                lost.append(records[-1])
    if lost:
        places = ", ".join(f"{record.doc} {record.start}-{record.end}" for record in lost[:MAX_PLACES])
        message = Warnings.KW701.format(n=len(lost), total=len(records), places=places)
        warnings.warn(message, KrisselWarning, stacklevel=3)
    return records, n_left_out


def _link_predicted(nlp, gold, store, spans_key, labels, gold_nil, batch_size) -> tuple[list[LinkRecord], int]:
    wanted = None if labels is None else {label.casefold() for label in labels}
    docs = nlp.pipe((nlp.make_doc(item.doc.text) for item in gold), batch_size=batch_size)
    records, n_left_out = [], 0
    for item, doc in zip(gold, docs, strict=True):
        found: dict[tuple[int, int], list[Span]] = defaultdict(list)
        for span in spans_of(doc, spans_key):
            if wanted is None or span.label_.casefold() in wanted:
                found[span.start_char, span.end_char].append(span)
        for mention in item.mentions:
            span = item.doc[mention.start : mention.end]
            there = found[span.start_char, span.end_char]
            ids = split_gold(mention.kb_id, store, gold_nil=gold_nil)
            predicted = next((other for other in there if primary_id(other.kb_id_, store) in ids), None)
            if predicted is None and there:
                predicted = there[0]
            if predicted is not None:
                there.remove(predicted)
            if ids:
                records.append(_record(item, span, mention.label, ids, predicted, store))
            else:
                n_left_out += 1
        for spans in found.values():
            records.extend(_record(item, span, span.label_, (), span, store) for span in spans)
    return records, n_left_out


def _record(
    item: GoldDoc, place: Span, label: str, gold: tuple[str, ...], linked: Span | None, store: Resolver
) -> LinkRecord:
    """The record of the gold (or, without gold, predicted) mention at `place`, with the answer `linked`."""
    view = mention_view(place.doc.text, place.start_char, place.end_char, SHOWN_CONTEXT)
    record = LinkRecord(
        doc=item.id,
        start=place.start_char,
        end=place.end_char,
        text=place.text,
        label=label,
        gold=gold,
        left=view.left,
        right=view.right,
        found=linked is not None,
    )
    if linked is None:
        return record
    record.prediction = primary_id(linked.kb_id_, store) if linked.kb_id_ else ""
    candidates = (linked._.krissel_candidates or []) if Span.has_extension("krissel_candidates") else []
    if not candidates:
        # A linker without candidates, or without any for this mention.
        record.ranked = [record.prediction] if store.resolve(record.prediction) is not None else []
        return record
    record.ranked = [primary_id(candidate["id"], store) for candidate in candidates]
    record.scores = [float(candidate["score"]) for candidate in candidates]
    if Span.has_extension("krissel_ties"):
        record.ties = [primary_id(entity, store) for entity in linked._.krissel_ties or ()]
    # The winning prototype is the predicted entity's; with NIL, the best candidate's.
    winner = record.ranked.index(record.prediction) if record.prediction in record.ranked else 0
    record.prototype = candidates[winner]["evidence"]
    record.prototype_kind = candidates[winner]["kind"]
    record.prototype_surface = prototype_surface(candidates[winner])
    return record


def prototype_surface(candidate: dict[str, Any]) -> str:
    """The surface form of a prototype: the marked part of its evidence, or the entity's name for a reference."""
    if candidate["kind"] == "reference":
        return candidate["name"]
    _, opened, rest = candidate["evidence"].partition("⟦")
    surface, closed, _ = rest.partition("⟧")
    return surface if opened and closed else candidate["name"]


def mined_entities(nlp: Language) -> list[str] | None:
    """Ids of entities with mined mentions as prototypes; None without a knowledge base of prototypes."""
    for name in nlp.pipe_names:
        kb = getattr(nlp.get_pipe(name), "kb", None)
        if isinstance(kb, PrototypeKB):
            return list(kb.entity_ids.take(kb.prototypes.entities_of(MINED)))
    return None


def _settings(nlp: Language, names: Sequence[str]) -> list[MutableMapping[str, Any]]:
    settings = (getattr(nlp.get_pipe(name), "cfg", None) for name in names)
    return [cfg for cfg in settings if isinstance(cfg, MutableMapping)]


@contextmanager
def many_candidates(nlp: Language, linkers: Sequence[str], n_candidates: int) -> Iterator[None]:
    settings = _settings(nlp, linkers)
    before = [(cfg, name, cfg[name]) for cfg in settings for name in ("n_candidates", "top_k") if name in cfg]
    kept = min((value for _, name, value in before if name == "n_candidates"), default=0)
    try:
        for cfg, name, value in before:
            # A re-ranker does not see the candidates kept for recall.
            cfg[name] = max(value, n_candidates) if name == "n_candidates" else min(value, max(kept, 2))
        yield
    finally:
        for cfg, name, value in before:
            cfg[name] = value


def _mentions_per_second(nlp, gold, mentions, spans_key, batch_size, timed_mentions) -> float:
    docs: list[Doc] = []
    n_gold = 0
    for item in gold:
        if n_gold >= timed_mentions:
            break
        n_gold += len(item.mentions)
        docs.extend(without_links(item, nlp, spans_key) if mentions == "gold" else [nlp.make_doc(item.doc.text)])
    start = time.perf_counter()
    n_linked = sum(len(spans_of(doc, spans_key)) for doc in nlp.pipe(docs, batch_size=batch_size))
    return n_linked / (time.perf_counter() - start)
