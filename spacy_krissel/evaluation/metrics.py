"""Measures of a report, computed from link records only."""

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..errors import Errors, KrisselError
from ..mentions.annotations import NIL
from ..ontology.store import OntologyStore
from .bootstrap import RESAMPLES, Bootstrap
from .nil import nil_curve, share_weights, top_scores
from .records import LinkRecord, counted, record_keys
from .slices import Find, primary_ids, slice_mentions

RECALL_AT = (1, 5, 20, 64)
# Number of equal bins of the confidences from 0 to 1.
N_BINS = 10
# Names of the outcomes of two systems on a mention: (this is correct, the other is).
OUTCOMES = {
    (True, True): "both",
    (True, False): "this",
    (False, True): "other",
    (False, False): "neither",
}


def is_strict(record: LinkRecord) -> bool:
    """Return whether the one predicted id is a gold id. Several ids tied at the top are wrong, and
    so is a missing prediction."""
    tied = len(record.ties) > 1 and record.prediction != NIL
    return bool(record.prediction) and not tied and record.prediction in record.gold


def random_accuracy(record: LinkRecord) -> float:
    """Return the probability of a gold entity if one of those tied at the top is drawn at random
    (KRISSBERT §4.5). It lies between strict, which counts ties as wrong, and lenient."""
    if record.prediction in ("", NIL) or len(record.ties) < 2:
        return float(is_strict(record))
    answers = {record.prediction, *record.ties}
    return len(answers.intersection(record.gold)) / len(answers)


def is_lenient(record: LinkRecord, find: Find) -> bool:
    """Return whether any entity with the winning prototype's surface form as a name, or tied at the
    top, is a gold entity. As in the SapBERT paper, a name is correct for each entity that shares
    it."""
    if record.prediction in ("", NIL):
        return is_strict(record)
    answers = {record.prediction, *record.ties, *find(record.prototype_surface)}
    return not answers.isdisjoint(record.gold)


def macro_accuracy(records: Sequence[LinkRecord]) -> float | None:
    """Return the unweighted mean of the labels' strict accuracies; None for fewer than two labels.
    It is ZESHEL's accuracy, where labels are worlds (PEL, appendix B)."""
    by_label: dict[str, list[bool]] = defaultdict(list)
    for record in records:
        by_label[record.label].append(is_strict(record))
    return (
        sum(sum(right) / len(right) for right in by_label.values()) / len(by_label)
        if len(by_label) > 1
        else None
    )


def gold_rank(record: LinkRecord) -> int | None:
    """Return the rank of the first gold entity among the distinct candidates, from 0; None if there
    is none."""
    return next(
        (rank for rank, entity in enumerate(dict.fromkeys(record.ranked)) if entity in record.gold),
        None,
    )


def reliability(records: Sequence[LinkRecord]) -> dict[str, Any] | None:
    """Return the reliability of confidences: the best candidates of `n` mentions in `bins` of 0.1
    ("n", mean "confidence", fraction "right"), and "ece", the expected calibration error: the mean
    difference weighted by n. For a NIL mention no candidate is correct. None if no mention has a
    confidence."""
    known = [record for record in counted(records) if record.confidence is not None]
    if not known:
        return None
    confidence = np.array([record.confidence for record in known], dtype=float)
    right = np.array(
        [bool(record.ranked) and record.ranked[0] in record.gold for record in known], dtype=float
    )
    of_bin = np.minimum((confidence * N_BINS).astype(int), N_BINS - 1)
    bins = []
    for number in np.unique(of_bin):
        inside = of_bin == number
        figures = {
            "confidence": float(confidence[inside].mean()),
            "right": float(right[inside].mean()),
        }
        bins.append({"n": int(inside.sum()), **figures})
    ece = sum(each["n"] * abs(each["confidence"] - each["right"]) for each in bins) / len(known)
    return {"n": len(known), "ece": ece, "bins": bins}


def measure(
    records: Sequence[LinkRecord],
    store: OntologyStore,
    *,
    seen: Collection[str] | None = None,
    mined: Collection[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Return all measures of one system.

    seen: ids of entities seen in training, for the slices seen and unseen.
    mined: ids of entities with mined mentions as prototypes, for the slices mined and unmined, and
        for `winners`.
    RETURNS: a JSON-ready dict with `n`, `strict`, `lenient`, `random`, `macro`, `recall` by k,
    `slices` (each with its own `recall`), `winners`, `nil`, `reliability`, `linked`, `intervals`
    and counts; None without mentions. Intervals are 95 %, from `resamples` resamples of documents.
    """
    gold = counted(records)
    find = cache(store.find)
    seen, mined = (None if ids is None else primary_ids(ids, store) for ids in (seen, mined))
    bootstrap = Bootstrap([record.doc for record in gold], resamples=resamples, seed=seed)
    one = np.ones(len(gold))
    strict = np.array([is_strict(record) for record in gold], dtype=float)
    lenient = np.array([is_lenient(record, find) for record in gold], dtype=float)
    at_random = np.array([random_accuracy(record) for record in gold], dtype=float)
    # Recall is over mentions with an entity.
    linked = np.array([record.gold != (NIL,) for record in gold], dtype=float)
    ranks = np.array([gold_rank(record) for record in gold], dtype=float)
    hits = {str(k): (ranks < k).astype(float) for k in RECALL_AT}
    slices = {}
    for name, members in slice_mentions(gold, store, find, seen=seen, mined=mined).items():
        if any(members):
            inside = np.array(members, dtype=float)
            slices[name] = {
                "n": sum(members),
                "strict": _ratio(strict * inside, inside),
                "lenient": _ratio(lenient * inside, inside),
                "random": _ratio(at_random * inside, inside),
                "interval": bootstrap.interval(strict * inside, inside),
                "recall": {
                    k: _ratio(values * inside, linked * inside) for k, values in hits.items()
                },
            }
    return {
        "n": len(gold),
        "n_docs": len({record.doc for record in gold}),
        "n_composite": sum(len(record.gold) > 1 for record in gold),
        "n_missing": sum(not record.prediction for record in gold),
        "n_tied": sum(len(record.ties) > 1 for record in gold),
        "strict": _ratio(strict, one),
        "lenient": _ratio(lenient, one),
        "random": _ratio(at_random, one),
        "macro": macro_accuracy(gold),
        "recall": {k: _ratio(values, linked) for k, values in hits.items()},
        "nil": nil_scores(gold),
        "reliability": reliability(gold),
        "linked": _linked(gold),
        "slices": slices,
        "winners": winners(gold, mined=mined),
        "intervals": {
            "strict": bootstrap.interval(strict, one),
            "lenient": bootstrap.interval(lenient, one),
            "random": bootstrap.interval(at_random, one),
            "recall": {k: bootstrap.interval(values, linked) for k, values in hits.items()},
        },
    }


def _linked(gold: Sequence[LinkRecord]) -> dict[str, float | None]:
    """Return the fraction of mentions that are linked to an entity, and the precision of these
    links."""
    links = [record for record in gold if record.prediction not in ("", NIL)]
    return {
        "share": len(links) / len(gold) if gold else None,
        "precision": _mean([*map(is_strict, links)]),
    }


def same_mentions(
    records: Sequence[LinkRecord], others: Sequence[LinkRecord], *, name: str
) -> list[LinkRecord]:
    """Return the records of `others` for the counted mentions of `records`, in their order.

    Raises KrisselError K705 if `others` lacks a mention.
    """
    theirs = counted(others)
    by_key = dict(zip(record_keys(theirs), theirs, strict=True))
    keys = list(record_keys(counted(records)))
    missing = [key for key in keys if key not in by_key]
    if missing:
        first = "{} {}-{}".format(*missing[0][:3])
        raise KrisselError(
            Errors.K705.format(name=name, n_missing=len(missing), n=len(keys), first=first)
        )
    return [by_key[key] for key in keys]


def paired_outcome(record: LinkRecord, other: LinkRecord) -> str:
    return OUTCOMES[is_strict(record), is_strict(other)]


def compare(
    records: Sequence[LinkRecord],
    others: Sequence[LinkRecord],
    *,
    name: str = "the other system",
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Return the strict accuracy of `records` minus that of `others` on the same mentions, with its
    paired 95 % interval.

    RETURNS: {"strict": difference, "interval": [low, high], "right": {"both": n, "this": n,
    "other": n, "neither": n}}, where "right" counts the mentions that these systems link correctly.
    Raises KrisselError K705 if `others` lacks a mention.
    """
    ours = counted(records)
    pairs = list(zip(ours, same_mentions(records, others, name=name), strict=True))
    gains = [float(is_strict(record)) - is_strict(other) for record, other in pairs]
    right = Counter(paired_outcome(record, other) for record, other in pairs)
    bootstrap = Bootstrap([record.doc for record in ours], resamples=resamples, seed=seed)
    return {
        "strict": _mean(gains),
        "interval": bootstrap.interval(gains, np.ones(len(ours))),
        "right": {who: right[who] for who in OUTCOMES.values()},
    }


def winners(
    records: Sequence[LinkRecord], *, mined: Collection[str] | None = None
) -> dict[str, Any]:
    """Return statistics of the links to entities by kind of the winning prototype (`kinds`), and,
    with `mined`, of links to entities without mined mentions (`unmined`).

    RETURNS: for each the number `n` of links, their `share` of all links, and their `strict`
    accuracy.
    """
    linked = [record for record in records if record.prediction not in ("", NIL)]

    def part(members: Sequence[LinkRecord]) -> dict[str, Any]:
        right = [float(is_strict(record)) for record in members]
        return {
            "n": len(members),
            "share": len(members) / len(linked) if linked else None,
            "strict": _mean(right),
        }

    kinds = sorted({record.prototype_kind for record in linked} - {""})
    found: dict[str, Any] = {
        "kinds": {
            kind: part([record for record in linked if record.prototype_kind == kind])
            for kind in kinds
        }
    }
    if mined is not None:
        found["unmined"] = part([record for record in linked if record.prediction not in mined])
    return found


def nil_scores(records: Sequence[LinkRecord], share: float | None = None) -> dict[str, Any]:
    """Return the scores of NIL detection among gold mentions; all None if no gold mention is NIL
    (PEL, Table 4).

    share: fraction of NIL among mentions that the figures are computed for, if it differs from the
        corpus (`nil_curve`).

    RETURNS: `precision`, `recall` and `f1` of predicted NIL; `aupr`, the average precision over all
    thresholds on the top scores (`nil_curve`), None for a system without scores; `strict`, accuracy
    over all classes with NIL, and `strict_linked`, on mentions with an entity only; `share`, of
    NIL, which precision, F1 and auPR depend on; `n_gold` and `n_predicted`.
    With a re-ranker the top scores are its own, or the linker's for mentions that the linker
    predicted as NIL.
    """
    is_nil = np.array([record.gold == (NIL,) for record in records], dtype=bool)
    called = np.array([record.prediction == NIL for record in records], dtype=bool)
    n_gold, n_predicted = int(is_nil.sum()), int(called.sum())
    scores: dict[str, Any] = dict.fromkeys(
        ("precision", "recall", "f1", "aupr", "strict", "strict_linked", "share")
    )
    if n_gold:
        top, weights = top_scores(records), share_weights(is_nil, share)
        n_right, n_called = weights @ (called & is_nil), weights @ called
        scores.update(precision_recall(n_right, n_called, weights @ is_nil))
        scores["aupr"] = None if top is None else nil_curve(top, is_nil, share).average_precision
        strict = np.array([is_strict(record) for record in records])
        scores["strict"] = float(np.average(strict, weights=weights))
        scores["strict_linked"] = None if is_nil.all() else float(strict[~is_nil].mean())
        scores["share"] = float(weights @ is_nil / weights.sum())
    return {**scores, "n_gold": n_gold, "n_predicted": n_predicted}


def span_scores(
    records: Sequence[LinkRecord], *, resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any]:
    """Return precision, recall and F1 of span and id: exact offsets and the strictly correct id,
    with any label.

    Predictions are links; NIL and missing predictions are none. Gold mentions are those with a
    concept.
    """
    predicted = np.array(
        [record.found and record.prediction not in ("", NIL) for record in records], dtype=int
    )
    gold = np.array([record.gold not in ((), (NIL,)) for record in records], dtype=int)
    right = np.array([is_strict(record) for record in records], dtype=int) * predicted * gold
    n_predicted, n_gold = int(predicted.sum()), int(gold.sum())
    # F1 is a ratio too: 2 TP / (predicted + gold).
    bootstrap = Bootstrap([record.doc for record in records], resamples=resamples, seed=seed)
    interval = bootstrap.interval(2 * right, predicted + gold)
    scores = precision_recall(int(right.sum()), n_predicted, n_gold)
    return {**scores, "interval": interval, "n_gold": n_gold, "n_predicted": n_predicted}


def precision_recall(n_right: float, n_predicted: float, n_gold: float) -> dict[str, float]:
    """Return precision, recall and F1; 0 if the denominator is 0."""
    return {
        "precision": n_right / n_predicted if n_predicted else 0.0,
        "recall": n_right / n_gold if n_gold else 0.0,
        "f1": 2 * n_right / (n_predicted + n_gold) if n_predicted + n_gold else 0.0,
    }


def _ratio(numerators: np.ndarray, denominators: np.ndarray) -> float | None:
    return float(numerators.sum() / denominators.sum()) if denominators.any() else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
