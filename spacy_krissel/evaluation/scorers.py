"""The scorer of the span extractor, for `spacy train` and `spacy evaluate`."""

import warnings
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

from spacy.tokens import Doc, Span
from spacy.training import Example

from ..errors import KrisselWarning, Warnings
from ..mentions.annotations import spans_of
from ..mentions.discontinuous import read_fragments
from ..mentions.gold_ids import NIL, is_nil, split_ids
from ..mentions.gold_mentions import gold_mentions
from .metrics import precision_recall


def make_entity_scorer() -> Callable[..., Dict[str, Any]]:
    """The registered maker of `score_entities`, scorer `spacy-krissel.EntityScorer.v1`."""
    return score_entities


def score_entities(
    examples: Iterable[Example], *, spans_key: str = "krissel_entities", **settings: Any
) -> Dict[str, Any]:
    """Score the entities that were found in texts, and their tokens.

    krissel_entity_p/r/f: (text, entity) pairs found, against the categories of the gold doc.
    krissel_token_p/r/f: their tokens, against those of the gold pieces, over texts that have such; of an entity that is
        found and has no gold pieces there, tokens are not counted. The predicted doc must have the gold doc's tokens.

    A figure without gold is None. Settings of the component that spaCy passes along are accepted and not used.
    """
    pairs, tokens = [0, 0, 0], [0, 0, 0]
    for example in examples:
        gold = {entity for entity, value in example.reference.cats.items() if value > 0.5}
        found = {each["id"] for each in example.predicted._.krissel_entities}
        _add(pairs, len(gold & found), len(found), len(gold))
        wanted: Dict[str, set] = {}
        for mention in gold_mentions(example.reference):
            wanted.setdefault(mention.kb_id, set()).update(mention.tokens)
        for mention in read_fragments(example.predicted, spans_key):
            if mention.kb_id in wanted:
                there = wanted[mention.kb_id]
                _add(tokens, len(there & mention.tokens), len(mention.tokens), 0)
        tokens[2] += sum(map(len, wanted.values()))
    return {**_prf("entity", *pairs), **_prf("token", *tokens)}


def _add(counts: list, n_right: int, n_predicted: int, n_gold: int) -> None:
    counts[0] += n_right
    counts[1] += n_predicted
    counts[2] += n_gold


def _prf(name: str, n_right: int, n_predicted: int, n_gold: int) -> Dict[str, Optional[float]]:
    scores = precision_recall(n_right, n_predicted, n_gold) if n_gold else {}
    return {f"krissel_{name}_{key[0]}": scores.get(key) for key in ("precision", "recall", "f1")}


# Stands for several ids in the place of one; no id is written like this.
TIED = "\0tied"


def make_link_scorer() -> Callable[..., Dict[str, Any]]:
    """The registered maker of `score_links`, scorer `spacy-krissel.LinkScorer.v1`."""
    return score_links


def score_links(examples: Iterable[Example], *, spans_key: str = "", **settings: Any) -> Dict[str, Any]:
    """Score links against gold ids by character offsets, on `doc.ents` or on `doc.spans[spans_key]`.

    krissel_acc: share of the gold mentions with a concept whose one predicted id is right (any of a composite id).
    krissel_nil_p/r/f: NIL among gold mentions, whose gold says "NIL", `-1` or `-` when there is no concept.
    krissel_span_p/r/f: predicted links whose offsets and id are both right, labels not looked at; "NIL" is no link,
        and what is predicted at the place of a gold mention without a concept is left out.

    A gold mention without any id is left out as well. A missing prediction ("") is never
    right; neither are several ids tied at the top. A figure without gold is None, and so are all where no predicted doc
    has anything to link, with a warning, KW034. Ids are compared as they are written.
    Settings of the component that spaCy passes along are accepted and not used. Gold documents are only read.

    Of a group, names hold its key, as those of spaCy's own scorers of spans do: `krissel_<spans_key>_acc` and so on.
    The plain names hold the same figures, unless entities of the docs are linked too: then they are the entities'. Of
    several groups, plain names are those of the last one that has gold.
    """
    examples = list(examples)
    counts: Dict[str, int] = dict.fromkeys(("gold", "right", "predicted", "nil_gold", "nil_predicted", "nil_right"), 0)
    for example in examples:
        _count(example, spans_key, counts)
    n_gold = counts["gold"] + counts["nil_gold"]
    if n_gold and not any(spans_of(example.predicted, spans_key) for example in examples):
        what = f"span in doc.spans['{spans_key}']" if spans_key else "entity"
        warnings.warn(
            Warnings.KW034.format(what=what, docs=len(examples), mentions=n_gold), KrisselWarning, stacklevel=2
        )
        counts = dict.fromkeys(counts, 0)
    scores: Dict[str, Any] = {"acc": counts["right"] / counts["gold"] if counts["gold"] else None}
    scores.update(_link_prf("nil", counts["nil_right"], counts["nil_predicted"], counts["nil_gold"]))
    scores.update(_link_prf("span", counts["right"], counts["predicted"], counts["gold"]))
    plain = {f"krissel_{name}": score for name, score in scores.items()}
    if not spans_key:
        return plain
    if any(ent.kb_id_ and ent._.krissel_candidates for example in examples for ent in example.predicted.ents):
        plain = {}
    # None would take the place of another group's figure.
    found = {name: score for name, score in plain.items() if score is not None}
    return {**found, **{f"krissel_{spans_key}_{name}": score for name, score in scores.items()}}


def _count(example: Example, spans_key: str, counts: Dict[str, int]) -> None:
    predicted: Dict[Tuple[int, int], List[Span]] = {}
    place = _places(example.predicted)
    for span in spans_of(example.predicted, spans_key):
        predicted.setdefault(place(span), []).append(span)
    place = _places(example.reference)
    for span in spans_of(example.reference, spans_key):
        # Two gold mentions may stand at one place with different ids: each takes the answer that fits it, if any.
        there = predicted.get(place(span), [])
        gold = _gold_ids(span.kb_id_)
        taken = next((other for other in there if _answer(other) in gold), there[0] if there else None)
        if taken is not None:
            there.remove(taken)
        answer = "" if taken is None else _answer(taken)
        if is_nil(span.kb_id_):
            counts["nil_gold"] += 1
            counts["nil_right"] += answer == NIL
            counts["nil_predicted"] += answer == NIL
        elif gold:
            counts["gold"] += 1
            counts["right"] += answer in gold
            counts["predicted"] += answer not in ("", NIL)
            counts["nil_predicted"] += answer == NIL
    # What is left stands where no gold mention is.
    counts["predicted"] += sum(_answer(span) not in ("", NIL) for there in predicted.values() for span in there)


def _link_prf(name: str, n_right: int, n_predicted: int, n_gold: int) -> Dict[str, Optional[float]]:
    scores = precision_recall(n_right, n_predicted, n_gold) if n_gold else {}
    return {f"{name}_{key[0]}": scores.get(key) for key in ("precision", "recall", "f1")}


def _places(doc: Doc) -> Callable[[Span], Tuple[int, int]]:
    # Counted in characters that are not white space: the two docs may differ in white space, never in their text.
    before = [0]
    for char in doc.text:
        before.append(before[-1] + (not char.isspace()))
    return lambda span: (before[span.start_char], before[span.end_char])


def _gold_ids(kb_id: str) -> List[str]:
    if is_nil(kb_id) or not kb_id.strip():
        return []
    # The whole as well: there is no ontology here to tell a composite from an id that holds one of the joints.
    return [*split_ids(kb_id), kb_id.strip()]


def _answer(span: Span) -> str:
    """The predicted id; several that are tied at the top are a link that is never right."""
    if span.kb_id_ not in ("", NIL) and Span.has_extension("krissel_ties") and len(span._.krissel_ties or ()) > 1:
        return TIED
    return span.kb_id_
