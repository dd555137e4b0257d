"""Batches of synonym pairs in which no two entities can be taken for each other."""

from collections import deque
from pathlib import Path
from typing import Callable, Deque, Iterable, Iterator, List, Optional, Set, Union

from spacy.training import Example

from ...errors import Errors, KrisselError
from ...ontology.store import OntologyStore
from .linked import linked_mentions
from .pair_batches import homonym_groups


class SynonymBatcher:
    """Group a stream of pairs, an example each, into batches of `pairs` of them (SapBERT §3.1: 256, 512 names).

    Invariants: pairs stay whole and in order, but that a pair waits for the next batch when one of its entity's names
    is borne by another entity of this batch, where it would be a false negative; an entity may have several pairs in a
    batch; a batch of one entity alone, which has no negatives, is left out.

    pairs: examples in a batch.
    ontology: path of the ontology store that knows which names are shared; without it no entities are kept apart.
    spans_key: the names of an example are those of `doc.spans[spans_key]`; "" for `doc.ents`.
    """

    def __init__(self, *, pairs: int = 256, ontology: Optional[Union[str, Path]] = None, spans_key: str = "") -> None:
        if pairs < 2:
            raise KrisselError(Errors.K006.format(setting="pairs", found=pairs, expected="at least 2 pairs a batch"))
        self.pairs = pairs
        self.spans_key = spans_key
        self._homonyms = homonym_groups(OntologyStore(ontology)) if ontology else {}

    def __call__(self, examples: Iterable[Example]) -> Iterator[List[Example]]:
        """Raises KrisselError K634 where there are pairs and no batch: training would wait for one for ever."""
        stream = iter(examples)
        n_left_out = n_batches = 0
        waiting: Deque[Example] = deque()
        while True:
            batch: List[Example] = []
            entities: Set[str] = set()
            blocked: Set[str] = set()
            again: Deque[Example] = deque()
            # A stream of nothing but homonyms shall not be read to its end.
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


def make_synonym_batcher(
    pairs: int = 256, ontology: Optional[Path] = None, spans_key: str = ""
) -> Callable[[Iterable[Example]], Iterable[List[Example]]]:
    """Registered as the batcher `spacy-krissel.SynonymBatcher.v1`; see `SynonymBatcher`."""
    return SynonymBatcher(pairs=pairs, ontology=ontology, spans_key=spans_key)
