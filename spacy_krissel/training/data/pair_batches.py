"""Batches in which every entity stands twice and no two entities can be taken for each other."""

import random
from collections import deque
from pathlib import Path
from typing import Callable, Deque, Dict, Iterable, Iterator, List, Optional, Set, Tuple, Union

from spacy.training import Example

from ...errors import Errors, KrisselError
from ...ontology.store import OntologyStore
from .linked import single_mentions


class PairBatcher:
    """Group examples into batches of `pairs` entities with two views each (KRISSBERT §3.2: 2N mentions of N entities).

    An example with several linked mentions, such as a document of a gold corpus, is taken for as many examples of one
    linked mention each.

    Invariants: an entity has exactly two examples in a batch; two entities that share a name (folded) never meet in
    one, since either would be a false negative of the other; every example of an entity that has at least two is used,
    an odd one out with a partner drawn again, a pair left alone at the end with a pair of another entity; same seed and
    same input, same batches.

    pairs: N, the number of entities in a batch.
    ontology: path of the ontology store that knows which names are shared; without it no entities are kept apart.
    buffer_size: group within so many examples at a time (0: all of an epoch), for streams that do not fit in memory.
    max_pairs: so many pairs of one entity at a time at most, drawn anew each time (0: all). The few entities that are
        frequent in a gold corpus would otherwise be left over for many batches of next to nothing.
    spans_key: the linked mentions of an example are those of `doc.spans[spans_key]`; "" for `doc.ents`.
    Raises KrisselError K006 for a wrong setting.
    """

    def __init__(
        self,
        *,
        pairs: int = 64,
        ontology: Optional[Union[str, Path]] = None,
        buffer_size: int = 0,
        max_pairs: int = 0,
        spans_key: str = "",
        seed: int = 0,
    ) -> None:
        if pairs < 2:
            raise KrisselError(Errors.K006.format(setting="pairs", found=pairs, expected="at least 2 entities a batch"))
        for setting, value in {"max_pairs": max_pairs, "buffer_size": buffer_size}.items():
            if value < 0:
                raise KrisselError(Errors.K006.format(setting=setting, found=value, expected="0 or more"))
        self.pairs = pairs
        self.buffer_size = buffer_size
        self.max_pairs = max_pairs
        self.spans_key = spans_key
        self.epoch = 0
        self.seed = seed
        self._homonyms = homonym_groups(OntologyStore(ontology)) if ontology else {}

    def __call__(self, examples: Iterable[Example]) -> Iterator[List[Example]]:
        rng = random.Random(f"{self.seed}-{self.epoch}")
        self.epoch += 1
        for buffer in _buffers(examples, self.buffer_size):
            yield from self._batches(buffer, rng)

    def _batches(self, examples: List[Example], rng: random.Random) -> Iterator[List[Example]]:
        pairs = _pairs(examples, rng, self.spans_key, self.max_pairs)
        queue: Deque[Tuple[str, Example, Example]] = deque(pairs)
        deferred: Deque[Tuple[str, Example, Example]] = deque()
        while queue or deferred:
            batch: List[Example] = []
            blocked: Set[str] = set()
            waiting: Deque[Tuple[str, Example, Example]] = deque()
            # Pairs that did not fit an earlier batch go first, so that none starves.
            while (deferred or queue) and len(batch) < 2 * self.pairs:
                pair = deferred.popleft() if deferred else queue.popleft()
                entity = pair[0]
                if entity in blocked:
                    waiting.append(pair)
                    continue
                blocked.add(entity)
                blocked |= self._homonyms.get(entity, set())
                batch.extend(pair[1:])
            waiting.extend(deferred)
            deferred = waiting
            if len(batch) == 2:
                # One entity has no negatives: a pair that can stand beside it comes a second time.
                others = [pair for pair in pairs if pair[0] not in blocked]
                if not others:
                    continue
                batch.extend(rng.choice(others)[1:])
            yield batch


def homonym_groups(ontology: OntologyStore) -> Dict[str, Set[str]]:
    """Entity id → ids of the other entities that bear one of its names."""
    groups: Dict[str, Set[str]] = {}
    for _, ids in ontology.shared_names():
        for id_ in ids:
            groups.setdefault(id_, set()).update(other for other in ids if other != id_)
    return groups


def make_pair_batcher(
    pairs: int = 64,
    ontology: Optional[Path] = None,
    buffer_size: int = 0,
    max_pairs: int = 0,
    spans_key: str = "",
    seed: int = 0,
) -> Callable[[Iterable[Example]], Iterable[List[Example]]]:
    """Registered as the batcher `spacy-krissel.PairBatcher.v1`; see `PairBatcher`."""
    settings = {"buffer_size": buffer_size, "max_pairs": max_pairs, "seed": seed}
    return PairBatcher(pairs=pairs, ontology=ontology, spans_key=spans_key, **settings)


def _buffers(examples: Iterable[Example], size: int) -> Iterator[List[Example]]:
    buffer: List[Example] = []
    for example in examples:
        buffer.append(example)
        if size and len(buffer) >= size:
            yield buffer
            buffer = []
    if buffer:
        yield buffer


def _pairs(
    examples: List[Example], rng: random.Random, spans_key: str, max_pairs: int
) -> List[Tuple[str, Example, Example]]:
    by_entity: Dict[str, List[Example]] = {}
    for example in examples:
        for entity, alone in single_mentions(example, spans_key):
            by_entity.setdefault(entity, []).append(alone)
    pairs: List[Tuple[str, Example, Example]] = []
    for entity, views in by_entity.items():
        if len(views) < 2:
            continue
        rng.shuffle(views)
        if max_pairs:
            views = views[: 2 * max_pairs]
        if len(views) % 2:
            views.append(rng.choice(views[:-1]))
        pairs.extend((entity, views[i], views[i + 1]) for i in range(0, len(views), 2))
    rng.shuffle(pairs)
    return pairs
