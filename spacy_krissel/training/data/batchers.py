"""Batches for each objective: pairs of mentions (KRISSBERT), single mentions (PEL), pairs of synonyms (SapBERT)."""

import random
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field
from spacy.training import Example

from ...errors import Errors, KrisselError
from ...ontology.store import OntologyStore
from ...util.settings import Count, PositiveInt, checked
from .examples import linked_mentions, single_mentions

# Entities need others as their negatives.
AtLeastTwo = Annotated[int, Field(ge=2)]
# An entity and two examples of it.
Pair = tuple[str, Example, Example]


@checked
@dataclass(eq=False)
class PairBatcher:
    """Group examples into batches of `pairs` entities with two views each (KRISSBERT §3.2: 2N mentions of N entities).

    An example with several linked mentions, such as a document of a gold corpus, becomes one example per mention.

    Invariants: an entity has exactly two examples in a batch; two entities that share a name (folded) are never in one
    batch, since each would be a false negative of the other; every example of an entity that has at least two is used,
    an odd one with a partner drawn again, a pair left alone at the end with a pair of another entity; same seed and
    same input, same batches.

    pairs: N, the number of entities in a batch.
    ontology: path of the ontology store that knows which names are shared; without it no entities are kept apart.
    max_pairs: maximum number of pairs per entity, drawn in each epoch; 0 for all. The few entities that are frequent in
        a gold corpus would otherwise be left over for many nearly empty batches.
    spans_key: the linked mentions of an example are those of `doc.spans[spans_key]`; "" for `doc.ents`.
    seed: of the order and the pairs.
    """

    pairs: AtLeastTwo = 64
    ontology: str | Path | None = None
    max_pairs: Count = 0
    spans_key: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        self._epoch = 0
        self._homonyms = homonym_groups(OntologyStore(self.ontology)) if self.ontology else {}

    def __call__(self, examples: Iterable[Example]) -> Iterator[list[Example]]:
        rng = random.Random(f"{self.seed}-{self._epoch}")
        self._epoch += 1
        pairs = self._pairs(examples, rng)
        queue: deque[Pair] = deque(pairs)
        deferred: deque[Pair] = deque()
        while queue or deferred:
            batch: list[Example] = []
            blocked: set[str] = set()
            waiting: deque[Pair] = deque()
            # Pairs that did not fit an earlier batch go first, so that none starves.
            while (deferred or queue) and len(batch) < 2 * self.pairs:
                pair = deferred.popleft() if deferred else queue.popleft()
                if pair[0] in blocked:
                    waiting.append(pair)
                    continue
                blocked |= {pair[0], *self._homonyms.get(pair[0], ())}
                batch.extend(pair[1:])
            deferred = waiting + deferred
            if len(batch) == 2:
                # One entity has no negatives: a pair that can join it comes a second time.
                others = [pair for pair in pairs if pair[0] not in blocked]
                if not others:
                    continue
                batch.extend(rng.choice(others)[1:])
            yield batch

    def _pairs(self, examples: Iterable[Example], rng: random.Random) -> list[Pair]:
        by_entity: dict[str, list[Example]] = {}
        for example in examples:
            for entity, alone in single_mentions(example, self.spans_key):
                by_entity.setdefault(entity, []).append(alone)
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
    """Shuffle the linked mentions of an epoch and divide them into batches of `size`, the last one smaller.

    An example with several linked mentions, such as a document of a gold corpus, becomes one example per mention. Same
    seed and same input, same batches; each epoch has its own order.

    size: mentions in a batch.
    spans_key: the linked mentions of an example are those of `doc.spans[spans_key]`; "" for `doc.ents`.
    seed: of the order.
    """

    size: PositiveInt = 32
    spans_key: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        self._epoch = 0

    def __call__(self, examples: Iterable[Example]) -> Iterator[list[Example]]:
        rng = random.Random(f"{self.seed}-{self._epoch}")
        self._epoch += 1
        mentions = [alone for example in examples for _, alone in single_mentions(example, self.spans_key)]
        rng.shuffle(mentions)
        for start in range(0, len(mentions), self.size):
            yield mentions[start : start + self.size]


@checked
@dataclass(eq=False)
class SynonymBatcher:
    """Group a stream of synonym pairs, one example each, into batches of `pairs` (SapBERT §3.1: 256, 512 names).

    Invariants: pairs stay whole and in order, except that a pair waits for the next batch when another entity of this
    batch has a name of its entity and would be a false negative; an entity may have several pairs in a batch; a batch
    of one entity, which has no negatives, is left out.

    pairs: examples in a batch.
    ontology: path of the ontology store that knows which names are shared; without it no entities are kept apart.
    spans_key: the names of an example are those of `doc.spans[spans_key]`; "" for `doc.ents`.
    """

    pairs: AtLeastTwo = 256
    ontology: str | Path | None = None
    spans_key: str = ""

    def __post_init__(self) -> None:
        self._homonyms = homonym_groups(OntologyStore(self.ontology)) if self.ontology else {}

    def __call__(self, examples: Iterable[Example]) -> Iterator[list[Example]]:
        """Raises KrisselError K634 where there are pairs and no batch: training would wait for one for ever."""
        stream = iter(examples)
        n_left_out = n_batches = 0
        waiting: deque[Example] = deque()
        while True:
            batch: list[Example] = []
            entities: set[str] = set()
            blocked: set[str] = set()
            again: deque[Example] = deque()
            # A stream of homonyms alone must not be read to its end.
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
            raise KrisselError(Errors.K634.format(found=n_left_out))


def homonym_groups(ontology: OntologyStore) -> dict[str, set[str]]:
    """Entity id → ids of the other entities that have one of its names."""
    groups: dict[str, set[str]] = {}
    for _, ids in ontology.shared_names():
        for id_ in ids:
            groups.setdefault(id_, set()).update(other for other in ids if other != id_)
    return groups
