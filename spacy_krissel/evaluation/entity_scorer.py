"""The scorer of the span extractor, for `spacy train` and `spacy evaluate`."""

from typing import Any, Callable, Dict, Iterable, Optional

from spacy.training import Example

from ..mentions.discontinuous import gold_pieces, read_pieces
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
        for mention in gold_pieces(example.reference):
            wanted.setdefault(mention.kb_id, set()).update(mention.tokens)
        for mention in read_pieces(example.predicted, spans_key):
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
