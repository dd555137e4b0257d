"""Text-level labels: which entities a text speaks of, and not where."""

from typing import Dict, Tuple

from spacy.tokens import Doc

from ..mentions.discontinuous import gold_pieces
from ..mentions.gold_ids import split_ids


def text_labels(doc: Doc) -> Dict[str, float]:
    """1.0 for each entity that `doc` mentions, in one piece or several, in the form of `doc.cats`.

    Each concept of a composite is one. Mentions without an id, or with one that says "no concept", add nothing. Those
    of mentions in one piece come first, in order.
    """
    return {concept: 1.0 for mention in gold_pieces(doc) for concept in split_ids(mention.kb_id)}


def text_entities(doc: Doc) -> Tuple[str, ...]:
    """The entities that a doc speaks of, sorted: its `cats`, or else the concepts of its gold mentions."""
    if doc.cats:
        return tuple(sorted(id_ for id_, value in doc.cats.items() if value >= 0.5))
    return tuple(sorted(text_labels(doc)))
