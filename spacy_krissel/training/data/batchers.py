"""Batchers of each objective: pairs of mentions (KRISSBERT), single mentions (PEL), pairs of
synonyms (SapBERT)."""

import random
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field
from spacy.training import Example

from ...errors import Errors, KrisselError
from ...ontology.build import open_ontology
from ...ontology.store import OntologyStore
from ...util.settings import Count, PositiveInt, checked
from ...views import View
from .examples import Linked, linked_mentions, linked_views, single_mentions, view_examples

# Entities need other entities as negatives.
AtLeastTwo = Annotated[int, Field(ge=2)]
# An entity and two views of it.
Pair = tuple[str, View, View]


@checked
@dataclass(eq=False)
class PairBatcher:
    """Group linked mentions into batches of `pairs` entities with two views each (KRISSBERT §3.2:
    2N mentions of N entities). A pair is one example with two linked mentions.

    A list of examples is divided as a whole; spaCy passes one unless `training.max_epochs` is -1. A
    stream is read in parts of `buffer_size` mentions, and pairs are made within a part. If the
    mentions of an entity are adjacent in the stream, they stay in one part. One part, up to the end
    of its last entity, and the pending pairs are held in memory.

    Invariants: an entity has exactly one pair in a batch. Two entities that share a name (folded)
    are never in one batch, since each would be a false negative of the other. Every mention of an
    entity with at least two in a part is used, except for `max_pairs` and if there is no other
    entity; an odd mention is paired with a mention drawn again. A last pair left alone is joined by
    a pair of another entity. Batches are full, except at the end and if `buffer_size` pairs are
    pending. The same seed and input give the same batches.

    pairs: N, the number of entities in a batch.
    ontology: path of the ontology store that knows shared names; without it, entities that share
        names may meet in a batch.
    max_pairs: maximum number of pairs per entity, drawn in each epoch; 0 for all. Without a limit,
        the few entities that are frequent in a gold corpus are left over for many nearly empty
        batches.
    spans_key: linked mentions are the spans of `doc.spans[spans_key]`; "" for `doc.ents`.
    seed: seed of the order and the pairs.
    buffer_size: number of mentions of a stream that are shuffled together.
    """

    pairs: AtLeastTwo = 64
    ontology: str | Path | None = None
    max_pairs: Count = 0
    spans_key: str = ""
    seed: int = 0
    buffer_size: PositiveInt = 2**16

    def __post_init__(self) -> None:
        self._epoch = 0
        self._ontology = open_ontology(self.ontology) if self.ontology else None
        self._shared: dict[str, tuple[int, ...]] | None = None

    def __call__(self, examples: Iterable[Example]) -> Iterator[list[Example]]:
        """Yield the batches. Raises KrisselError K634 if there is none: training would wait
        forever."""
        rng = random.Random(f"{self.seed}-{self._epoch}")
        self._epoch += 1
        n_batches = n_left_out = 0
        size = sys.maxsize if isinstance(examples, Sequence) else self.buffer_size
        parts = self._parts(linked_views(examples, self.spans_key), size, rng)
        pairs: list[Pair] = []
        queue: deque[Pair] = deque()
        deferred: deque[Pair] = deque()
        while True:
            batch: list[Pair] = []
            blocked: set[str | int] = set()
            waiting: deque[Pair] = deque()
            # Pairs that did not fit an earlier batch go first, so that none starves.
            while len(batch) < self.pairs and len(waiting) < size:
                if not deferred and not queue:
                    if not (more := next(parts, None)):
                        break
                    pairs = [*pairs[-self.pairs :], *more]
                    queue.extend(more)
                pair = deferred.popleft() if deferred else queue.popleft()
                keys = self._keys(pair[0])
                if not blocked.isdisjoint(keys):
                    waiting.append(pair)
                    continue
                blocked.update(keys)
                batch.append(pair)
            if not batch:
                break
            deferred = waiting + deferred
            if len(batch) == 1:
                # A single entity has no negatives: a pair that can join it is used a second time.
                others = [pair for pair in pairs if blocked.isdisjoint(self._keys(pair[0]))]
                if not others:
                    n_left_out += 1
                    continue
                batch.append(rng.choice(others))
            n_batches += 1
            groups = (((id_, first), (id_, second)) for id_, first, second in batch)
            yield list(view_examples(groups, self.spans_key, texts=False))
        if not n_batches:
            raise KrisselError(Errors.K634.format(found=n_left_out, what="mention"))

    def _keys(self, entity: str) -> tuple[str | int, ...]:
        """Return the keys that only one entity of a batch may have: its id and its shared names."""
        if self._shared is None:
            self._shared = {} if self._ontology is None else shared_names(self._ontology)
        return entity, *self._shared.get(entity, ())

    def _parts(
        self, linked: Iterable[Linked], size: int, rng: random.Random
    ) -> Iterator[list[Pair]]:
        """Yield the pairs of each part of `size` mentions that has any; a part ends after its last
        entity."""
        by_entity: dict[str, list[View]] = {}
        n, last = 0, ""
        for entity, view in linked:
            if n >= size and entity != last:
                if pairs := self._pairs(by_entity, rng):
                    yield pairs
                by_entity, n = {}, 0
            by_entity.setdefault(entity, []).append(view)
            n, last = n + 1, entity
        if pairs := self._pairs(by_entity, rng):
            yield pairs

    def _pairs(self, by_entity: dict[str, list[View]], rng: random.Random) -> list[Pair]:
        pairs: list[Pair] = []
        for entity, views in by_entity.items():
            if len(views) < 2:
                continue
            rng.shuffle(views)
            if self.max_pairs:
                views = views[: 2 * self.max_pairs]
            if len(views) % 2:
                views.append(rng.choice(views[:-1]))
            pairs.extend((entity, views[i], views[i + 1]) for i in range(0, len(views), 2))
        rng.shuffle(pairs)
        return pairs


@checked
@dataclass(eq=False)
class MentionBatcher:
    """Shuffle the linked mentions of an epoch and divide them into batches of `size`, the last one
    smaller.

    An example with several linked mentions, such as a document of a gold corpus, becomes one
    example per mention. The same seed and input give the same batches; each epoch has its own
    order.

    size: number of mentions in a batch.
    spans_key: linked mentions are the spans of `doc.spans[spans_key]`; "" for `doc.ents`.
    seed: seed of the order.
    """

    size: PositiveInt = 32
    spans_key: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        self._epoch = 0

    def __call__(self, examples: Iterable[Example]) -> Iterator[list[Example]]:
        rng = random.Random(f"{self.seed}-{self._epoch}")
        self._epoch += 1
        mentions = [
            alone for example in examples for _, alone in single_mentions(example, self.spans_key)
        ]
        rng.shuffle(mentions)
        for start in range(0, len(mentions), self.size):
            yield mentions[start : start + self.size]


@checked
@dataclass(eq=False)
class SynonymBatcher:
    """Group a stream of synonym pairs, one example each, into batches of `pairs` (SapBERT §3.1:
    256, 512 names).

    Invariants: pairs stay whole and in order. A pair waits for the next batch if another entity of
    this batch has a name of its entity, and so would be a false negative. An entity may have
    several pairs in a batch. A batch of one entity is skipped, since it has no negatives.

    pairs: number of examples in a batch.
    ontology: path of the ontology store that knows shared names; without it, entities that share
        names may meet in a batch.
    spans_key: names are the spans of `doc.spans[spans_key]`; "" for `doc.ents`.
    """

    pairs: AtLeastTwo = 256
    ontology: str | Path | None = None
    spans_key: str = ""

    def __post_init__(self) -> None:
        self._homonyms = homonym_groups(open_ontology(self.ontology)) if self.ontology else {}

    def __call__(self, examples: Iterable[Example]) -> Iterator[list[Example]]:
        """Yield the batches. Raises KrisselError K634 if there are pairs but no batch: training
        would wait forever."""
        stream = iter(examples)
        n_left_out = n_batches = 0
        waiting: deque[Example] = deque()
        while True:
            batch: list[Example] = []
            entities: set[str] = set()
            blocked: set[str] = set()
            again: deque[Example] = deque()
            # A stream of homonyms only must not be read to its end.
            while len(batch) < self.pairs and len(again) < self.pairs:
                example = waiting.popleft() if waiting else next(stream, None)
                if example is None:
                    break
                found = {entity for entity, _ in linked_mentions(example.reference, self.spans_key)}
                if found & blocked:
                    again.append(example)
                    continue
                batch.append(example)
                entities |= found
                blocked.update(*(self._homonyms.get(entity, ()) for entity in found))
            if not batch:
                break
            waiting = again + waiting
            if len(entities) > 1:
                n_batches += 1
                yield batch
            else:
                n_left_out += len(batch)
        if n_left_out and not n_batches:
            raise KrisselError(Errors.K634.format(found=n_left_out, what="synonym"))


def shared_names(ontology: OntologyStore) -> dict[str, tuple[int, ...]]:
    """Map each entity id to the numbers of its names that other entities have too, in memory
    proportional to these names."""
    columns = ontology.homonym_entries()
    rows, starts = np.unique(columns["row"], return_index=True)
    numbers = np.split(columns["homonym"], starts)[1:]
    return {
        ontology.id_at(row): tuple(found.tolist())
        for row, found in zip(rows.tolist(), numbers, strict=True)
    }


def homonym_groups(ontology: OntologyStore) -> dict[str, set[str]]:
    """Map each entity id to the ids of the other entities that have one of its names."""
    groups: dict[str, set[str]] = {}
    for _, ids in ontology.shared_names():
        for id_ in ids:
            groups.setdefault(id_, set()).update(other for other in ids if other != id_)
    return groups
