"""Fit a linker's threshold for NIL to a development set: the plain function behind `krissel calibrate`."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field
from spacy.language import Language

from .. import __version__
from ..corpora.doc_bins import GoldSplit
from ..errors import KrisselWarning, Warnings
from ..mentions.gold_ids import NIL
from ..pipeline.pipeline_io import configure, find_linker, link_writers
from ..pipeline.reranker.component import KrisselReranker
from ..pipeline.settings import LINKER
from ..util.settings import Count, checked
from .gold import GoldDoc, Source, read_gold, without_own_gold
from .metrics import nil_scores
from .nil import NilCurve, NilShare, call_nil, fit_threshold, nil_curve, top_scores
from .records import LinkRecord
from .run import changed, check_counted, run_pipeline, warn_of_unknown_ids


class Calibration(NamedTuple):
    """A fitted threshold, and what it does on the mentions that it was fitted to.

    threshold, threshold_before: of the linker's score; before, None may stand for a linker that linked every mention.
    data: what is kept in the pipeline's meta: both thresholds, what was fitted and to what, `n` and `n_nil` mentions,
        and `before` and `after`, each as `nil_scores` gives it.
    curve: precision and recall of NIL at every threshold.
    """

    threshold: float
    threshold_before: float | None
    data: dict[str, Any]
    curve: NilCurve


@checked
def calibrate(
    nlp: Language,
    docs: Source,
    *,
    precision: Annotated[float, Field(gt=0, le=1)] | None = None,
    nil_share: NilShare | None = None,
    name: str = LINKER,
    spans_key: str = "",
    labels: list[str] | None = None,
    held_out: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    seed: Count = 0,
    progress: bool = False,
) -> Calibration:
    """Fit the linker's NIL threshold to a gold corpus (PEL, §5.3), set it, and note it in `nlp.meta`.

    nlp: a pipeline with a knowledge base
    docs: gold corpus as `read_gold` takes it, other than the one evaluated on later; mentions whose gold id is "NIL",
        `-1` or `-` are NIL, those without any id are left out
    precision: fit the best recall of NIL at this precision; None fits the best F1
    nil_share: share of NIL among the mentions that the pipeline will meet, where it is not that of the gold corpus: the
        best threshold depends on it
    name: name of the linker in the pipeline
    spans_key: gold mentions are in `doc.spans[spans_key]`; "" takes all mentions of the corpus (`read_gold`)
    labels: use gold mentions with these labels only
    held_out: use only the documents that training with this `dev_share` held out of the corpus (`GoldSplit`); 0 uses
        all
    seed: random seed of that split
    progress: show a progress bar

    The threshold applies to the linker's own scores, also where a re-ranker follows, which leaves NIL as it is (with a
    `nil_score` it adds to it): it is fitted to these scores, while `before` and `after` include the re-ranker. Other
    components that write links are switched off. Gold prototypes of these documents are not used meanwhile
    (`without_own_gold`).

    `nlp.meta["krissel"]["calibration"][name]` is the calibration's `data`. spaCy saves it with the pipeline, and keeps
    ten decimals of it and of the threshold.

    Raises KrisselError K006 (a wrong setting), K610 (no such linker), K701 (no mention), what `fit_threshold`,
    `read_gold` and `run_pipeline` raise; the pipeline is then unchanged. Warns KW711 of gold ids missing from the
    knowledge base, KW712 where the best threshold makes all mentions NIL.
    """
    linker = find_linker(nlp, name)
    part = GoldSplit("dev" if held_out else "all", held_out, seed)
    gold = [each for each in read_gold(docs, nlp, spans_key=spans_key, labels=labels) if part(each.doc)]
    # Those of the same spans put this linker's candidates in order.
    key = linker.cfg["spans_key"]
    rerankers = [
        each for each, pipe in nlp.pipeline if isinstance(pipe, KrisselReranker) and pipe.cfg["spans_key"] == key
    ]
    with without_own_gold(nlp, gold):
        linked = _linked(nlp, gold, progress, name)
        final = _linked(nlp, gold, progress, name, *rerankers) if rerankers and linked else linked
    check_counted(linked, docs, len(gold), labels)
    warn_of_unknown_ids(linked, linker.kb, Warnings.KW711)
    # The linker keeps a candidate of each mention here, so that each has a score.
    scores = np.array(top_scores(linked))
    is_nil = np.array([record.gold == (NIL,) for record in linked])
    threshold = fit_threshold(scores, is_nil, precision, nil_share)
    if (scores < threshold).all():
        warnings.warn(Warnings.KW712.format(n=len(linked)), KrisselWarning, stacklevel=3)
    curve = nil_curve(scores, is_nil, nil_share)
    before: float | None = linker.cfg["threshold"]

    def figures(threshold: float | None) -> dict[str, Any]:
        # Of the linker's scores, not of those that a re-ranker left.
        called = nil_scores(call_nil(final, scores, threshold), nil_share)
        return {**called, "aupr": curve.average_precision}

    data = {
        "version": __version__,
        "gold": Path(docs).name if isinstance(docs, (str, Path)) else None,
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
    return Calibration(threshold, before, data, curve)


def _linked(nlp: Language, gold: Sequence[GoldDoc], progress: bool, name: str, *rerankers: str) -> list[LinkRecord]:
    """The records of the gold mentions as the linker and these re-rankers link them without a threshold."""
    linker = find_linker(nlp, name)
    off = [pipe for pipe in link_writers(nlp) if pipe not in (name, *rerankers)]
    with nlp.select_pipes(disable=off), changed(linker.cfg, "threshold", None):
        # As many candidates as the linker retrieves by itself: among more, lexical similarity may find a better first.
        own: dict[str, Any] = {"n_candidates": 1, "timed_mentions": 0, "progress": progress}
        return run_pipeline(nlp, gold, linker.kb, mentions="gold", gold_nil=True, **own).records
