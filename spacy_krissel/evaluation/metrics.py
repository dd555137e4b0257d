"""The measures of a report, from link records only."""

import random
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from ..errors import Errors, KrisselError
from ..mentions.gold_ids import NIL
from ..ontology.folding import fold_name
from ..ontology.store import OntologyStore
from .bootstrap import Bootstrap
from .nil import nil_curve, top_scores
from .records import LinkRecord, counted, record_keys
from .slices import Find, cached_find, slice_mentions

RECALL_AT = (1, 5, 20, 64)
# Enough for a stable mean, at a negligible cost.
N_SHUFFLES = 20


def is_strict(record: LinkRecord) -> bool:
    """The one predicted id is a gold id. Several ids tied at the top are wrong, and so is a missing prediction."""
    tied = len(record.ties) > 1 and record.prediction != NIL
    return bool(record.prediction) and not tied and record.prediction in record.gold


def random_accuracy(record: LinkRecord) -> float:
    """The probability of a gold entity when one of those tied at the top is drawn at random (KRISSBERT §4.5); between
    strict, which counts ties as wrong, and lenient."""
    if record.prediction in ("", NIL) or len(record.ties) < 2:
        return float(is_strict(record))
    answers = {record.prediction, *record.ties}
    return len(answers.intersection(record.gold)) / len(answers)


def is_lenient(record: LinkRecord, find: Find) -> bool:
    """Any entity with the winning prototype's surface form as a name, or tied at the top, is a gold entity: as in the
    SapBERT paper, a name is right for each entity that shares it."""
    if record.prediction in ("", NIL):
        return is_strict(record)
    answers = {record.prediction, *record.ties, *find(record.prototype_surface)}
    return not answers.isdisjoint(record.gold)


def macro_accuracy(records: Sequence[LinkRecord]) -> float | None:
    """The unweighted mean of the labels' strict accuracies; None for fewer than two labels. It is the accuracy of
    ZESHEL, whose labels are worlds (PEL, appendix B)."""
    by_label: dict[str, list[float]] = {}
    for record in records:
        by_label.setdefault(record.label, []).append(float(is_strict(record)))
    return sum(sum(right) / len(right) for right in by_label.values()) / len(by_label) if len(by_label) > 1 else None


def gold_rank(record: LinkRecord) -> int | None:
    """The rank of the first gold entity among the distinct candidates, from 0; None when there is none."""
    for rank, entity in enumerate(dict.fromkeys(record.ranked)):
        if entity in record.gold:
            return rank
    return None


def measure(
    records: Sequence[LinkRecord],
    store: OntologyStore,
    *,
    seen: Collection[str] | None = None,
    mined: Collection[str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """All measures of one system.

    seen: ids of entities seen in training, for the slices seen and unseen.
    mined: ids of entities with mined mentions as prototypes, for the slices mined and unmined, and for `winners`.
    RETURNS: a JSON-ready dict with `n`, `strict`, `lenient`, `random`, `macro`, `recall` by k, `slices` (each with its
        own `recall`), `winners`, `nil`, `intervals` and counts; None for a measure without mentions. Intervals are
        95 %, from `resamples` resamples of documents.
    """
    gold = counted(records)
    find = cached_find(store)
    bootstrap = Bootstrap([record.doc for record in gold], resamples=resamples, seed=seed)
    one = [1.0] * len(gold)
    strict = [float(is_strict(record)) for record in gold]
    at_random = [random_accuracy(record) for record in gold]
    lenient = [float(is_lenient(record, find)) for record in gold]
    # Recall is over mentions with an entity.
    linked = [float(record.gold != (NIL,)) for record in gold]
    ranks = [gold_rank(record) for record in gold]
    hits = {str(k): [float(rank is not None and rank < k) for rank in ranks] for k in RECALL_AT}
    recall = {k: _ratio(values, linked) for k, values in hits.items()}
    recall_intervals = {k: _listed(bootstrap.interval(values, linked)) for k, values in hits.items()}
    slices = {}
    for name, members in slice_mentions(gold, store, find, seen=seen, mined=mined).items():
        if any(members):
            inside = [float(member) for member in members]
            strict_inside = [value * member for value, member in zip(strict, inside, strict=True)]
            linked_inside = [value * member for value, member in zip(linked, inside, strict=True)]
            slices[name] = {
                "n": sum(members),
                "strict": _ratio(strict_inside, inside),
                "lenient": _ratio([value * member for value, member in zip(lenient, inside, strict=True)], inside),
                "interval": _listed(bootstrap.interval(strict_inside, inside)),
                "recall": {
                    k: _ratio([value * member for value, member in zip(values, inside, strict=True)], linked_inside)
                    for k, values in hits.items()
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
        "recall": recall,
        "nil": nil_scores(gold),
        "slices": slices,
        "winners": winners(gold, store, mined=mined),
        "intervals": {
            "strict": _listed(bootstrap.interval(strict, one)),
            "lenient": _listed(bootstrap.interval(lenient, one)),
            "random": _listed(bootstrap.interval(at_random, one)),
            "recall": recall_intervals,
        },
    }


def compare(
    records: Sequence[LinkRecord],
    others: Sequence[LinkRecord],
    *,
    name: str = "the other system",
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Strict accuracy of `records` minus that of `others` on the same mentions, with its paired 95 % interval.

    RETURNS: {"strict": difference, "interval": [low, high]}.
    Raises KrisselError K705 when `others` lacks a mention.
    """
    ours = counted(records)
    by_key = dict(zip(record_keys(counted(others)), counted(others), strict=True))
    keys = list(record_keys(ours))
    missing = [key for key in keys if key not in by_key]
    if missing:
        first = "{} {}-{}".format(*missing[0][:3])
        raise KrisselError(Errors.K705.format(name=name, n_missing=len(missing), n=len(keys), first=first))
    mine = [float(is_strict(record)) for record in ours]
    theirs = [float(is_strict(by_key[key])) for key in keys]
    one = [1.0] * len(ours)
    bootstrap = Bootstrap([record.doc for record in ours], resamples=resamples, seed=seed)
    difference = (sum(mine) - sum(theirs)) / len(ours) if ours else None
    return {"strict": difference, "interval": _listed(bootstrap.difference(mine, theirs, one))}


def shuffled_scores(
    records: Sequence[LinkRecord], store: OntologyStore, *, seed: int = 0, n_shuffles: int = N_SHUFFLES
) -> dict[str, Any]:
    """Strict accuracy after exchanging contexts among mentions of one surface form (mean of `n_shuffles` shuffles).

    On the slice `homonym`, a system that uses context falls to chance: a perfect system to `perfect` (some mentions get
    the context of another mention of the same entity), a random choice among the entities with the mention's text as a
    name to `chance`. A system that ignores context stays where it was.
    """
    gold = counted(records)
    find = cached_find(store)
    bearers = [find(record.text) for record in gold]
    inside = {
        "ambiguous": [i for i, ids in enumerate(bearers) if len(ids) != 1],
        "homonym": [i for i, ids in enumerate(bearers) if len(ids) > 1],
    }
    right = [0.0] * len(gold)
    same = [0.0] * len(gold)
    for n in range(n_shuffles):
        for i, record in enumerate(shuffle_contexts(gold, seed=seed + n)):
            right[i] += is_strict(record) / n_shuffles
            same[i] += bool(set(record.gold).intersection(gold[i].gold)) / n_shuffles
    guesses = [len(set(bearers[i]).intersection(gold[i].gold)) / len(bearers[i]) for i in inside["homonym"]]
    return {
        "strict": _mean(right),
        "slices": {
            name: {"n": len(members), "strict": _mean([right[i] for i in members])} for name, members in inside.items()
        },
        "chance": {"homonym": _mean(guesses)},
        "perfect": {"homonym": _mean([same[i] for i in inside["homonym"]])},
    }


def shuffle_contexts(records: Sequence[LinkRecord], seed: int = 0) -> list[LinkRecord]:
    """Give every gold mention the context of a random mention with the same surface form (perhaps its own).

    Since the surface form is the same, this equals taking over the other mention's gold: the records come back with
    their gold exchanged and what the system said about each place kept.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for i, record in enumerate(records):
        groups[fold_name(record.text)].append(i)
    rng = random.Random(seed)
    gold = [record.gold for record in records]
    for group in groups.values():
        for i, other in zip(group, rng.sample(group, len(group)), strict=True):
            gold[i] = records[other].gold
    return [replace(record, gold=each) for record, each in zip(records, gold, strict=True)]


def winners(
    records: Sequence[LinkRecord], store: OntologyStore, *, mined: Collection[str] | None = None
) -> dict[str, Any]:
    """The links to entities by kind of the winning prototype (`kinds`), and, with `mined`, to entities without mined
    mentions (`unmined`).

    RETURNS: for each the number `n` of links, their `share` of all links, and their `strict` accuracy.
    """
    linked = [record for record in records if record.prediction not in ("", NIL)]

    def part(members: Sequence[LinkRecord]) -> dict[str, Any]:
        right = [float(is_strict(record)) for record in members]
        return {"n": len(members), "share": len(members) / len(linked) if linked else None, "strict": _mean(right)}

    kinds = sorted({record.prototype_kind for record in linked} - {""})
    found: dict[str, Any] = {
        "kinds": {kind: part([record for record in linked if record.prototype_kind == kind]) for kind in kinds}
    }
    if mined is not None:
        known = {store.resolve(entity) or entity for entity in mined}
        found["unmined"] = part([record for record in linked if record.prediction not in known])
    return found


def nil_scores(records: Sequence[LinkRecord]) -> dict[str, Any]:
    """Detection of NIL among gold mentions; all None when no gold mention is NIL (PEL, Table 4).

    RETURNS: `precision`, `recall` and `f1` of predicted NIL; `aupr`, the average precision over all thresholds on the
        top scores (`nil_curve`), None for a system without scores; `strict`, accuracy over all classes with NIL, and
        `strict_linked`, on mentions with an entity only; `n_gold` and `n_predicted`.
    With a re-ranker the top scores are its own, and the linker's where the linker predicted NIL.
    """
    n_gold = sum(record.gold == (NIL,) for record in records)
    n_predicted = sum(record.prediction == NIL for record in records)
    n_right = sum(record.gold == (NIL,) and record.prediction == NIL for record in records)
    scores: dict[str, Any] = dict.fromkeys(("precision", "recall", "f1", "aupr", "strict", "strict_linked"))
    if n_gold:
        top = top_scores(records)
        is_nil = [record.gold == (NIL,) for record in records]
        scores.update(precision_recall(n_right, n_predicted, n_gold))
        scores["aupr"] = None if top is None else nil_curve(top, is_nil).average_precision
        scores["strict"] = _mean([float(is_strict(record)) for record in records])
        scores["strict_linked"] = _mean([float(is_strict(record)) for record in records if record.gold != (NIL,)])
    return {**scores, "n_gold": n_gold, "n_predicted": n_predicted}


def span_scores(records: Sequence[LinkRecord], *, resamples: int = 1000, seed: int = 0) -> dict[str, Any]:
    """Precision, recall and F1 of span and id: exact offsets and the strictly right id, whatever the label.

    Predictions are links; NIL and missing predictions are none. Gold are the mentions with a concept.
    """
    predicted = [float(record.found and record.prediction not in ("", NIL)) for record in records]
    gold = [float(bool(record.gold) and record.gold != (NIL,)) for record in records]
    right = [float(is_strict(record)) * p * g for record, p, g in zip(records, predicted, gold, strict=True)]
    bootstrap = Bootstrap([record.doc for record in records], resamples=resamples, seed=seed)
    scores = precision_recall(sum(right), sum(predicted), sum(gold))
    # F1 is a ratio too: 2 TP / (predicted + gold).
    interval = bootstrap.interval([2 * value for value in right], [p + g for p, g in zip(predicted, gold, strict=True)])
    return {**scores, "interval": _listed(interval), "n_gold": int(sum(gold)), "n_predicted": int(sum(predicted))}


def precision_recall(n_right: float, n_predicted: float, n_gold: float) -> dict[str, float]:
    """Precision, recall and F1; 0 where the denominator is 0."""
    return {
        "precision": n_right / n_predicted if n_predicted else 0.0,
        "recall": n_right / n_gold if n_gold else 0.0,
        "f1": 2 * n_right / (n_predicted + n_gold) if n_predicted + n_gold else 0.0,
    }


def _ratio(numerators: Sequence[float], denominators: Sequence[float]) -> float | None:
    return sum(numerators) / sum(denominators) if any(denominators) else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _listed(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)
