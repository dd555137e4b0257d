"""Scorers of the linker and the span extractor, for `spacy train` and `spacy evaluate`."""

import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from spacy.tokens import Doc, Span
from spacy.training import Example

from ..errors import KrisselWarning, Warnings
from ..mentions.annotations import NIL, spans_of
from ..mentions.discontinuous import read_fragments
from ..mentions.gold_ids import is_nil, split_ids
from ..mentions.gold_mentions import gold_mentions
from .metrics import precision_recall


def make_entity_scorer() -> Callable[..., dict[str, Any]]:
    """The registered factory of `_score_entities`, scorer `spacy-krissel.EntityScorer.v1`."""
    return _score_entities


def _score_entities(
    examples: Iterable[Example], *, spans_key: str = "krissel_entities", **settings: Any
) -> dict[str, Any]:
    """Score the entities that were found in texts, and their tokens.

    krissel_entity_p/r/f: (text, entity) pairs found, against the categories of the gold doc.
    krissel_token_p/r/f: their tokens, against those of the gold mentions; tokens of a found entity
    without gold mentions in the text are not counted. The predicted doc must have the gold doc's
    tokens.

    A score without gold is None. Other settings that spaCy passes are ignored.
    """
    pairs: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    for example in examples:
        gold = {entity for entity, value in example.reference.cats.items() if value > 0.5}
        found = {each["id"] for each in example.predicted._.krissel_entities}
        pairs.update(right=len(gold & found), predicted=len(found), gold=len(gold))
        wanted: dict[str, set[Any]] = defaultdict(set)
        for mention in gold_mentions(example.reference):
            wanted[mention.kb_id].update(mention.tokens)
        for mention in read_fragments(example.predicted, spans_key):
            if mention.kb_id in wanted:
                tokens.update(
                    right=len(wanted[mention.kb_id] & mention.tokens), predicted=len(mention.tokens)
                )
        tokens.update(gold=sum(map(len, wanted.values())))
    return {**_prf("krissel_entity", pairs), **_prf("krissel_token", tokens)}


def _prf(name: str, counts: Counter[str]) -> dict[str, float | None]:
    scores = (
        precision_recall(counts["right"], counts["predicted"], counts["gold"])
        if counts["gold"]
        else {}
    )
    return {f"{name}_{key[0]}": scores.get(key) for key in ("precision", "recall", "f1")}


# Represents several tied ids; no id looks like this.
TIED = "\0tied"


def make_link_scorer() -> Callable[..., dict[str, Any]]:
    """The registered factory of `score_links`, scorer `spacy-krissel.LinkScorer.v1`."""
    return score_links


def score_links(
    examples: Iterable[Example], *, spans_key: str = "", **settings: Any
) -> dict[str, Any]:
    """Score links against gold ids by character offsets, on `doc.ents` or on
    `doc.spans[spans_key]`.

    krissel_acc: accuracy on gold mentions with a concept: the one predicted id is correct (any of a
        composite id).
    krissel_nil_p/r/f: NIL among gold mentions; the gold of a mention without a concept is "NIL",
    `-1` or `-`.
    krissel_span_p/r/f: predicted links with the correct offsets and id, with any label; "NIL" is no
    link, and predictions do not count if a gold mention there has no concept.

    Gold mentions without any id do not count. A missing prediction ("") is wrong, and so are
    several ids tied at the top. A score without gold is None. All are None, with warning KW034, if
    no predicted doc has anything to link. Ids are compared as strings. Other settings that spaCy
    passes are ignored. Gold documents are not changed.

    For a span group, names contain its key, as in spaCy's own span scorers:
    `krissel_<spans_key>_acc` and so on. The plain names have the same scores, unless entities of
    the docs are linked too: then the entities' scores. With several groups, plain names are those
    of the last group with gold.
    """
    examples = list(examples)
    links: Counter[str] = Counter()
    nil: Counter[str] = Counter()
    for example in examples:
        _count(example, spans_key, links, nil)
    n_gold = links["gold"] + nil["gold"]
    if n_gold and not any(spans_of(example.predicted, spans_key) for example in examples):
        what = f"span in doc.spans['{spans_key}']" if spans_key else "entity"
        message = Warnings.KW034.format(what=what, docs=len(examples), mentions=n_gold)
        warnings.warn(message, KrisselWarning, stacklevel=2)
        links.clear()
        nil.clear()
    accuracy = links["right"] / links["gold"] if links["gold"] else None
    scores = {"acc": accuracy, **_prf("nil", nil), **_prf("span", links)}
    plain = {f"krissel_{name}": score for name, score in scores.items()}
    if not spans_key:
        return plain
    if any(
        ent.kb_id_ and ent._.krissel_candidates
        for example in examples
        for ent in example.predicted.ents
    ):
        plain = {}
    # None would replace another group's score.
    found = {name: score for name, score in plain.items() if score is not None}
    return {**found, **{f"krissel_{spans_key}_{name}": score for name, score in scores.items()}}


def _count(example: Example, spans_key: str, links: Counter[str], nil: Counter[str]) -> None:
    predicted: dict[tuple[int, int], list[Span]] = defaultdict(list)
    key = _span_keys(example.predicted)
    for span in spans_of(example.predicted, spans_key):
        predicted[key(span)].append(span)
    key = _span_keys(example.reference)
    for span in spans_of(example.reference, spans_key):
        # Gold mentions with equal offsets and different ids: each takes the answer that fits it, if
        # any.
        there = predicted[key(span)]
        gold = _gold_ids(span.kb_id_)
        taken = next(
            (other for other in there if _answer(other) in gold), there[0] if there else None
        )
        if taken is not None:
            there.remove(taken)
        answer = "" if taken is None else _answer(taken)
        if is_nil(span.kb_id_):
            nil.update(gold=1, right=answer == NIL, predicted=answer == NIL)
        elif gold:
            links.update(gold=1, right=answer in gold, predicted=answer not in ("", NIL))
            nil.update(predicted=answer == NIL)
    # The remaining links match no gold mention.
    links.update(
        predicted=sum(
            _answer(span) not in ("", NIL) for there in predicted.values() for span in there
        )
    )


def _span_keys(doc: Doc) -> Callable[[Span], tuple[int, int]]:
    # Offsets in characters without white space, in which the two docs may differ.
    before = [0]
    for char in doc.text:
        before.append(before[-1] + (not char.isspace()))
    return lambda span: (before[span.start_char], before[span.end_char])


def _gold_ids(kb_id: str) -> list[str]:
    if is_nil(kb_id) or not kb_id.strip():
        return []
    # The whole id too: without an ontology, a composite id looks like an id with a separator.
    return [*split_ids(kb_id), kb_id.strip()]


def _answer(span: Span) -> str:
    """Return the predicted id; several ids tied at the top are a link that is never correct."""
    if (
        span.kb_id_ not in ("", NIL)
        and Span.has_extension("krissel_ties")
        and len(span._.krissel_ties or ()) > 1
    ):
        return TIED
    return span.kb_id_
