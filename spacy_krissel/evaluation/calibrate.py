"""Calibration of a linker's NIL threshold on a development set: the function behind `krissel
calibrate`."""

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field
from spacy.language import Language

from ..about import __version__
from ..corpora.doc_bins import GoldSplit
from ..errors import KrisselWarning, Warnings
from ..mentions.annotations import NIL
from ..pipeline.pipe import link_writers
from ..pipeline.pipeline_io import (
    configure,
    find_linker,
    open_to_change,
    save_pipeline,
)
from ..pipeline.reranker import KrisselReranker
from ..pipeline.settings import LINKER
from ..util.atomic import check_file, write_text
from ..util.outputs import writes
from ..util.settings import Count, checked
from .gold import GoldDoc, Source, read_gold, without_own_gold
from .metrics import nil_scores
from .nil import NilCurve, NilShare, call_nil, fit_threshold, nil_curve, top_scores
from .records import LinkRecord
from .run import check_counted, override_setting, run_pipeline, warn_of_unknown_ids
from .tables import nil_line, strict_line


class Calibration(NamedTuple):
    """A fitted threshold, and its results on the mentions it was fitted to.

    threshold, threshold_before: of the linker's score; None before: the linker linked every
        mention.
    data: record for the pipeline's meta: both thresholds, the criterion and the corpus, `n` and
        `n_nil` mentions, and `before` and `after`, each as `nil_scores` returns it.
    curve: precision and recall of NIL at every threshold.
    """

    threshold: float
    threshold_before: float | None
    data: dict[str, Any]
    curve: NilCurve


@writes("metrics", folders=["output"], keeps="pipeline")
@checked
def calibrate(
    pipeline: Language | str | Path,
    gold: Source,
    output: Path | None = None,
    *,
    precision: Annotated[float, Field(gt=0, le=1)] | None = None,
    nil_share: NilShare | None = None,
    name: str = LINKER,
    spans_key: str = "",
    labels: list[str] | None = None,
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    seed: Count = 0,
    metrics: Path | None = None,
    command: str = "",
    progress: bool = False,
) -> Calibration:
    """Fit the threshold for NIL to a gold corpus.

    The fit uses its mentions without an entity (PEL, §5.3) and the linker's own scores; a re-ranker
    leaves NIL unchanged. Calibrate last: another encoder, knowledge base or weight changes the
    scores.

    pipeline: a pipeline with a knowledge base: a path, or the pipeline, which is changed
    gold: gold corpus with NIL mentions, reserved for calibration: .spacy, PubTator or BioC, or
        `Doc`s; mentions whose gold id is "NIL", `-1` or `-` are NIL, those without any
        id are left out
    output: folder to save the pipeline with its threshold
    precision: fit the best recall of NIL at this precision; None fits the best F1
    nil_share: expected fraction of NIL among mentions, if it differs from the gold corpus: the best
        threshold depends on this fraction
    name: name of the linker in the pipeline
    spans_key: gold mentions are in `doc.spans[spans_key]`; "" takes all mentions of the corpus, as
        `convert` writes them, else `doc.ents`
    labels: use gold mentions with these labels only
    held_out: use only the documents that training with this `dev_share` held out of the corpus
        (`GoldSplit`); 0 uses all
    seed: random seed of that split
    metrics: write the results and the curve to this .json file
    command: command line, for this file
    progress: show a progress bar

    If a re-ranker has a `nil_score`, it predicts NIL too. The threshold is fitted to the linker's
    scores, while `before` and `after` include the re-ranker. Other components that write links are
    disabled. Gold prototypes of these documents are not used meanwhile (`without_own_gold`).

    `nlp.meta["krissel"]["calibration"][name]` is the calibration's `data`. spaCy saves it with the
    pipeline and keeps ten decimals of its numbers and of the threshold.

    Raises KrisselError K001, K212 (the gold corpus), K006 (a wrong setting), K610 (no such linker),
    K701 (no mention), and those of `open_to_change`, `fit_threshold`, `convert` and `run_pipeline`;
    the pipeline is then unchanged. Warns KW711 of gold ids missing from the knowledge base, KW712
    if the best threshold makes all mentions NIL.
    """
    if metrics is not None:
        check_file(metrics)
    nlp = open_to_change(pipeline, output)
    linker = find_linker(nlp, name)
    part = GoldSplit("dev" if held_out else "all", held_out, seed)
    docs = [
        each for each in read_gold(gold, nlp, spans_key=spans_key, labels=labels) if part(each.doc)
    ]
    # Re-rankers of the same spans reorder this linker's candidates.
    key = linker.cfg["spans_key"]
    rerankers = [
        each
        for each, pipe in nlp.pipeline
        if isinstance(pipe, KrisselReranker) and pipe.cfg["spans_key"] == key
    ]
    with without_own_gold(nlp, docs):
        linked = _linked(nlp, docs, progress, name)
        final = _linked(nlp, docs, progress, name, *rerankers) if rerankers and linked else linked
    check_counted(linked, gold, len(docs), labels)
    warn_of_unknown_ids(linked, linker.kb, Warnings.KW711)
    # The linker keeps a candidate per mention here, so each has a score.
    scores = np.array(top_scores(linked))
    is_nil = np.array([record.gold == (NIL,) for record in linked])
    threshold = fit_threshold(scores, is_nil, precision, nil_share)
    if (scores < threshold).all():
        warnings.warn(Warnings.KW712.format(n=len(linked)), KrisselWarning, stacklevel=3)
    curve = nil_curve(scores, is_nil, nil_share)
    before: float | None = linker.cfg["threshold"]

    def figures(threshold: float | None) -> dict[str, Any]:
        # From the linker's scores, not those of a re-ranker.
        called = nil_scores(call_nil(final, scores, threshold), nil_share)
        return {**called, "aupr": curve.average_precision}

    data = {
        "version": __version__,
        "gold": Path(gold).name if isinstance(gold, (str, Path)) else None,
        "held_out": held_out,
        "n": len(linked),
        "n_nil": int(is_nil.sum()),
        "fitted": "best F1" if precision is None else "best recall at a precision",
        "precision": precision,
        "nil_share": nil_share,
        "rerankers": rerankers,
        "threshold": threshold,
        "threshold_before": before,
        "before": figures(before),
        "after": figures(threshold),
    }
    configure(nlp, name, threshold=threshold)
    nlp.meta.setdefault("krissel", {}).setdefault("calibration", {})[name] = data
    if output is not None:
        save_pipeline(nlp, output, name=name)
    if metrics is not None:
        shown = {key: values.tolist() for key, values in curve._asdict().items()}
        write_text(
            metrics, json.dumps({"command": command, **data, "curve": shown}, indent=2) + "\n"
        )
    return Calibration(threshold, before, data, curve)


def show_calibrate(found: Calibration, output: Path, name: str, metrics: Path | None) -> str:
    data = found.data
    rerankers = "".join(f", before {reranker}" for reranker in data["rerankers"])
    lines = [
        f"Threshold: {found.threshold:.6g} on the scores of {name}{rerankers}",
        (
            f"Fitted to {data['n']:,} mentions, {data['n_nil']:,} of them NIL; results on others "
            "tend to be lower"
        ),
    ]
    for when, threshold in (("before", found.threshold_before), ("after", found.threshold)):
        title = f"{when} ({'no threshold' if threshold is None else format(threshold, '.6g')})"
        lines.append(
            f"{title}\n  NIL     {nil_line(data[when])}\n  strict  {strict_line(data[when])}"
        )
    return "\n".join([*lines, f"Pipeline: {output}", *([f"Written: {metrics}"] if metrics else [])])


def _linked(
    nlp: Language, gold: Sequence[GoldDoc], progress: bool, name: str, *rerankers: str
) -> list[LinkRecord]:
    """Return the records of the gold mentions as linked by the linker and these re-rankers without
    a threshold."""
    linker = find_linker(nlp, name)
    off = [pipe for pipe in link_writers(nlp) if pipe not in (name, *rerankers)]
    with nlp.select_pipes(disable=off), override_setting(linker.cfg, "threshold", None):
        # The linker's own number of candidates: among more, lexical similarity may find a better
        # first.
        own: dict[str, Any] = {"n_candidates": 1, "timed_mentions": 0, "progress": progress}
        return run_pipeline(nlp, gold, linker.kb, mentions="gold", gold_nil=True, **own).records
