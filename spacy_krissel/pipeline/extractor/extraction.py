"""What label attention says of a text, in tokens of spaCy's."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from spacy.tokens import Doc

from ...mentions.annotations import ENTITIES
from ...mentions.discontinuous import DocMention, join_fragments, write_fragments

# What a text speaks of, for what displays a group, in the group's attributes.
GROUP_ATTR = "entities"


class FoundEntity(NamedTuple):
    """An entity that a text speaks of.

    score: the probability that it does.
    pieces: (start, end) in tokens, none where no token has enough of the attention.
    attention: (n,) the share of each token of the doc, the mean over the entity's names (§6.1).
    """

    id: str
    name: str
    score: float
    pieces: tuple[tuple[int, int], ...]
    attention: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """Python's own types alone: anything else would not survive `Doc.to_bytes`."""
        pieces = [list(piece) for piece in self.pieces]
        attention = [round(share, 4) for share in self.attention.tolist()]
        return {"id": self.id, "name": self.name, "score": self.score, "pieces": pieces, "attention": attention}


def token_rows(doc: Doc, places: np.ndarray) -> np.ndarray:
    """(m,) in which of the doc's tokens each of m places begins, in characters (m, 2) and in order."""
    starts = np.asarray([token.idx for token in doc], dtype=np.int64)
    return np.searchsorted(starts, places[:, 0], side="right") - 1


def by_token(weights: np.ndarray, rows: np.ndarray, n_tokens: int) -> np.ndarray:
    """(n_tokens,) of the attention (m,) of places in these tokens (m,): a token has what its places have."""
    return np.bincount(rows, weights, n_tokens).astype(np.float32)


def content_tokens(doc: Doc) -> np.ndarray:
    """(n,) which tokens can be part of an entity: no stop words, no punctuation, no white space (§6.1)."""
    return np.asarray([not (token.is_stop or token.is_punct or token.is_space) for token in doc], dtype=bool)


def pieces_of(attention: np.ndarray, content: np.ndarray, threshold: float) -> tuple[tuple[int, int], ...]:
    """The runs of tokens with at least `threshold` of the attention (n,), among those that are `content` (n,)."""
    return join_fragments((int(i), int(i) + 1) for i in np.flatnonzero((attention >= threshold) & content))


def write_entities(doc: Doc, found: Sequence[FoundEntity], *, spans_key: str, label: str) -> None:
    """Write entities to `doc.spans[spans_key]`, the pieces of each with its id, and all of them to
    `doc._.krissel_entities`, as `FoundEntity.to_dict` has them. What an earlier run left there is gone; a doc in which
    nothing was or is found stays as it was."""
    if not found and spans_key not in doc.spans and not doc._.get(ENTITIES):
        return
    write_fragments(doc, [DocMention(each.id, label, each.pieces) for each in found], spans_key)
    doc.spans[spans_key].attrs[GROUP_ATTR] = [{"id": each.id, "name": each.name, "score": each.score} for each in found]
    doc._.set(ENTITIES, [each.to_dict() for each in found])


def runs(content: np.ndarray, longest: int) -> list[tuple[int, int]]:
    """The runs of one to `longest` tokens that begin and end with one that is `content` (n,), as (start, end)."""
    places = np.flatnonzero(content).tolist()
    return [(i, j + 1) for n, i in enumerate(places) for j in places[n : n + longest] if j < i + longest]
