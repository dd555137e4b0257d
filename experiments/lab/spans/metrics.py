"""Figures of extracted spans and of linking without spans, from span records alone (OSLAT, §6.2 and
§7.2).

Spans are counted in tokens, micro-averaged: overlaps are summed over all pairs of a text and an
entity before anything is divided. Stop words and punctuation are left out of predicted and gold
tokens alike (the paper leaves them out of the predictions), so that "swelling in knee" and the
pieces "swelling", "knee" are the same answer.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from spacy_krissel.evaluation.bootstrap import Bootstrap, Interval

from ..errors import Errors, KrisselError
from .records import SpanRecord, pair_keys, tokens_of

SPAN_FIGURES = ("precision", "recall", "f1", "exact")
ACCURACY_AT = (1, 5, 10)

Ratio = tuple[np.ndarray, np.ndarray]


def slice_pairs(records: Sequence[SpanRecord]) -> dict[str, np.ndarray]:
    """Return, for each slice with any pair, a mask (n,) of its pairs.

    all; contiguous / disjoint: no / any gold mention of the pair is discontinuous; seen / unseen:
    training showed the entity or did not; and both together, as in "disjoint unseen". A pair for
    which this is unknown is in neither.
    """
    shapes = {"contiguous": False, "disjoint": True}
    masks = {"all": np.ones(len(records), dtype=bool)}
    for name, value in shapes.items():
        masks[name] = np.array([record.disjoint is value for record in records], dtype=bool)
    for name, value in {"seen": True, "unseen": False}.items():
        masks[name] = np.array([record.seen is value for record in records], dtype=bool)
        for shape in shapes:
            masks[f"{shape} {name}"] = masks[shape] & masks[name]
    return {name: mask for name, mask in masks.items() if mask.any()}


def span_figures(
    records: Sequence[SpanRecord],
    *,
    content_only: bool = True,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Token-level micro precision, recall and F1 (OSLAT, Table 3 and D.1), and exact sets of
    pieces, by slice.

    exact: the share of pairs whose predicted pieces are the gold ones, no more and no fewer.
    content_only: leave stop words and punctuation out of predicted and gold tokens; a pair whose
        gold has no other token is then not counted. Without it, tokens count as they are.
    RETURNS: `n` counted pairs, `n_without_content`, and `slices`: for each `n`, the four figures,
        and their 95 % `intervals` from resamples of documents. A figure with nothing to divide by
        is None. No slices for a system that gives no spans.
    """
    overlaps = _overlaps(records, content_only)
    bootstrap = Bootstrap([record.doc for record in records], resamples=resamples, seed=seed)
    slices = {}
    for name, mask in slice_pairs(records).items():
        n = int(overlaps.counted[mask].sum())
        if n:
            slices[name] = {"n": n, **_figures(overlaps.ratios(mask), bootstrap)}
    without = (
        sum(record.gold is not None for record in records) - int(overlaps.counted.sum())
        if slices
        else 0
    )
    return {"n": int(overlaps.counted.sum()), "n_without_content": without, "slices": slices}


def link_figures(
    records: Sequence[SpanRecord],
    *,
    ks: Sequence[int] = ACCURACY_AT,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Return accuracy at k of linking: the fraction of pairs whose entity is among the k highest
    scored (OSLAT, Table 4).

    All gold entities of a text compete for the same k ranks, so a text with two has at most one
    correct at 1. An entity that was not ranked is wrong.
    RETURNS: `n` pairs, and `slices`: for each `n`, `accuracy` by k and its 95 % `intervals`. No
    slices for a system that ranks nothing.
    """
    slices = {}
    if any(record.rank is not None for record in records):
        bootstrap = Bootstrap([record.doc for record in records], resamples=resamples, seed=seed)
        for name, mask in slice_pairs(records).items():
            figures = _figures(_hit_ratios(records, mask, ks), bootstrap)
            intervals = figures.pop("intervals")
            slices[name] = {"n": int(mask.sum()), "accuracy": figures, "intervals": intervals}
    return {"n": len(records) if slices else 0, "slices": slices}


def span_leads(
    records: Sequence[SpanRecord],
    others: Sequence[SpanRecord],
    *,
    name: str = "the other system",
    content_only: bool = True,
    ks: Sequence[int] = ACCURACY_AT,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """The figures of `records` minus those of `others` on the same pairs, with paired 95 %
    intervals.

    RETURNS: `spans` and `linking`, by slice and figure (or k)
        `{"lead": difference, "interval": [low, high]}`; empty where either system has no such
        figures.
    Raises KrisselError K732 when `others` lacks a pair.
    """
    by_key = dict(zip(pair_keys(others), others, strict=True))
    missing = [key for key in pair_keys(records) if key not in by_key]
    if missing:
        first = f"{missing[0][1]} in {missing[0][0]}"
        raise KrisselError(
            Errors.K732.format(name=name, n_missing=len(missing), n=len(records), first=first)
        )
    same = [by_key[key] for key in pair_keys(records)]
    bootstrap = Bootstrap([record.doc for record in records], resamples=resamples, seed=seed)
    ours, theirs = _overlaps(records, content_only), _overlaps(same, content_only)
    spans, linking = {}, {}
    for slice_, mask in slice_pairs(records).items():
        if ours.counted[mask].any() and theirs.counted[mask].any():
            spans[slice_] = _leads(ours.ratios(mask), theirs.ratios(mask), bootstrap)
        if all(any(record.rank is not None for record in side) for side in (records, same)):
            linking[slice_] = _leads(
                _hit_ratios(records, mask, ks), _hit_ratios(same, mask, ks), bootstrap
            )
    return {"spans": spans, "linking": linking}


class _Overlaps(NamedTuple):
    """Counts for each pair (n,): tokens that are correct, predicted, and gold; whether the sets are
    the same; whether the pair counts. All 0 for one that does not."""

    right: np.ndarray
    predicted: np.ndarray
    gold: np.ndarray
    exact: np.ndarray
    counted: np.ndarray

    def ratios(self, mask: np.ndarray) -> dict[str, Ratio]:
        """Numerators and denominators (n,) of each figure, 0 outside `mask`."""
        right, predicted, gold, exact, counted = (column * mask for column in self)
        return {
            "precision": (right, predicted),
            "recall": (right, gold),
            "f1": (2 * right, predicted + gold),
            "exact": (exact, counted),
        }


def _overlaps(records: Sequence[SpanRecord], content_only: bool) -> _Overlaps:
    table = np.zeros((5, len(records)))
    gives_spans = any(record.predicted is not None for record in records)
    for i, record in enumerate(records if gives_spans else ()):
        ignored = frozenset(record.ignored if content_only else ())
        gold, predicted = tokens_of(record.gold) - ignored, tokens_of(record.predicted) - ignored
        if gold:
            table[:, i] = len(gold & predicted), len(predicted), len(gold), gold == predicted, 1
    return _Overlaps(*table)


def _hit_ratios(
    records: Sequence[SpanRecord], mask: np.ndarray, ks: Sequence[int]
) -> dict[str, Ratio]:
    ranks = np.array([np.inf if record.rank is None else record.rank for record in records])
    return {str(k): ((ranks <= k) * mask.astype(float), mask.astype(float)) for k in ks}


def _figures(ratios: dict[str, Ratio], bootstrap: Bootstrap) -> dict[str, Any]:
    intervals = {name: bootstrap.interval(*ratio) for name, ratio in ratios.items()}
    return {**{name: _ratio(ratio) for name, ratio in ratios.items()}, "intervals": intervals}


def _leads(
    ours: dict[str, Ratio], theirs: dict[str, Ratio], bootstrap: Bootstrap
) -> dict[str, Any]:
    leads = {}
    for name in ours:
        mine, other = _ratio(ours[name]), _ratio(theirs[name])
        if mine is not None and other is not None:
            interval = ratio_difference(bootstrap, ours[name], theirs[name])
            leads[name] = {"lead": mine - other, "interval": interval}
    return leads


def ratio_difference(bootstrap: Bootstrap, ours: Ratio, theirs: Ratio) -> Interval:
    """Return the paired interval of one ratio minus another, over the resamples where both have a
    denominator."""
    (our_top, our_bottom), (their_top, their_bottom) = (
        map(bootstrap.sums, ratio) for ratio in (ours, theirs)
    )
    both = (our_bottom > 0) & (their_bottom > 0)
    return bootstrap.percentiles(
        our_top[both] / our_bottom[both] - their_top[both] / their_bottom[both]
    )


def _ratio(ratio: Ratio) -> float | None:
    top, bottom = ratio
    return float(top.sum() / bottom.sum()) if bottom.any() else None
