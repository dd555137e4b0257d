"""Interface of systems for spans and for linking without spans: one of two methods, or both."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from spacy.tokens import Doc

from spacy_krissel.mentions.discontinuous import DocMention, join_fragments
from spacy_krissel.mentions.gold_ids import Resolver
from spacy_krissel.mentions.gold_mentions import document_id, gold_mentions, primary_id, split_gold

from ..errors import Errors, KrisselError
from .records import Pieces, SpanRecord, tokens_of

# Number of scores in memory at a time (float64: 128 MiB), for any number of entities.
BLOCK_CELLS = 2**24


@runtime_checkable
class SpanFinder(Protocol):
    """System that finds the tokens of the entities known to be in a text (OSLAT's task 1)."""

    def spans(self, doc: Doc, entity_ids: Sequence[str]) -> Mapping[str, Sequence[tuple[int, int]]]:
        """Return the fragments (start, end) in tokens of each of `entity_ids`; an entity that is
        not found has none, or is left out."""


@runtime_checkable
class EntityRanker(Protocol):
    """System that scores how likely a text refers to each entity (OSLAT's task 2)."""

    def scores(self, docs: Sequence[Doc], entity_ids: Sequence[str]) -> np.ndarray:
        """Return (docs, entities), higher is more likely; columns in the order of `entity_ids`."""


SpanSystem = SpanFinder | EntityRanker


class GoldText:
    """A document and its pairs: the entities of `doc.cats` (1.0), by primary id, with the gold
    pieces of each."""

    def __init__(self, doc: Doc, store: Resolver, seen: Collection[str] | None = None) -> None:
        self.doc = doc
        self._ignored = frozenset(
            token.i for token in doc if token.is_stop or token.is_punct or token.is_space
        )
        mentions: dict[str, list[DocMention]] = {}
        for mention in gold_mentions(doc):
            for entity in split_gold(mention.kb_id, store):
                mentions.setdefault(entity, []).append(mention)
        id_ = document_id(doc)
        self.pairs: list[SpanRecord] = []
        for entity in dict.fromkeys(
            primary_id(cat, store) for cat, value in doc.cats.items() if value >= 0.5
        ):
            known = None if seen is None else entity in seen
            record = SpanRecord(id_, entity, seen=known)
            if own := mentions.get(entity):
                record.gold = join_fragments(
                    piece for mention in own for piece in mention.fragments
                )
                record.disjoint = any(mention.is_discontinuous for mention in own)
            self.pairs.append(self._with_ignored(record))

    def answered(self, record: SpanRecord, pieces: Pieces | None, rank: int | None) -> SpanRecord:
        return self._with_ignored(replace(record, predicted=pieces, rank=rank))

    def _with_ignored(self, record: SpanRecord) -> SpanRecord:
        tokens = tokens_of(record.gold) | tokens_of(record.predicted)
        return replace(record, ignored=tuple(sorted(tokens & self._ignored)))


def run_span_system(
    system: SpanSystem,
    texts: Sequence[GoldText],
    entities: Sequence[str],
    *,
    name: str = "the system",
) -> list[SpanRecord]:
    """Return the pairs of `texts`, in order, with the results of `system`.

    entities: the ids that are ranked, all different; entities of pairs that are not among them are
        not found. Equal scores are ordered by id; a score that is no number is the lowest.
    Raises KrisselError K733 (a system without either method), K734 (fragments outside of a
    document), K735 (scores of another shape).
    """
    if not isinstance(system, (SpanFinder, EntityRanker)):
        raise KrisselError(Errors.K733.format(name=name, found=type(system).__name__))
    known = set(entities)
    spans: list[Mapping[str, Any]] = []
    if isinstance(system, SpanFinder):
        for text in texts:
            asked = [record.entity for record in text.pairs if record.entity in known]
            spans.append(system.spans(text.doc, asked) if asked else {})
    ranks: list[dict[str, int]] = []
    if isinstance(system, EntityRanker):
        ranks = _ranks(system, texts, entities, name)
    records = []
    for i, text in enumerate(texts):
        for record in text.pairs:
            found = (
                _checked(spans[i].get(record.entity, ()), record, text.doc, name) if spans else None
            )
            records.append(
                text.answered(record, found, ranks[i].get(record.entity) if ranks else None)
            )
    return records


def _ranks(
    system: EntityRanker, texts: Sequence[GoldText], entities: Sequence[str], name: str
) -> list[dict[str, int]]:
    """Return the rank, from 1, of each text's own entities."""
    column = {entity: i for i, entity in enumerate(entities)}
    rank = np.empty(len(entities), dtype=np.int64)
    rank[sorted(range(len(entities)), key=entities.__getitem__)] = np.arange(len(entities))
    ranks = []
    size = max(1, BLOCK_CELLS // max(1, len(entities)))
    for start in range(0, len(texts), size):
        block = texts[start : start + size]
        scores = np.asarray(system.scores([text.doc for text in block], entities), dtype=np.float64)
        if scores.shape != (len(block), len(entities)):
            expected = (len(block), len(entities))
            raise KrisselError(Errors.K735.format(name=name, found=scores.shape, expected=expected))
        scores = np.where(np.isnan(scores), -np.inf, scores)
        for text, row in zip(block, scores, strict=True):
            own = {}
            for record in text.pairs:
                if (i := column.get(record.entity)) is not None:
                    before = (row > row[i]) | ((row == row[i]) & (rank < rank[i]))
                    own[record.entity] = int(before.sum()) + 1
            ranks.append(own)
    return ranks


def _checked(pieces: Sequence[tuple[int, int]], record: SpanRecord, doc: Doc, name: str) -> Pieces:
    if any(not 0 <= start < end <= len(doc) for start, end in pieces):
        what = {
            "entity": record.entity,
            "pieces": list(pieces),
            "doc": record.doc,
            "n_tokens": len(doc),
        }
        raise KrisselError(Errors.K734.format(name=name, **what))
    return join_fragments((int(start), int(end)) for start, end in pieces)
