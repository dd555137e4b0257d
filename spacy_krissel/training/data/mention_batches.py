"""Batches of single mentions, for objectives that compare mentions with entities."""

import random
from typing import Callable, Iterable, Iterator, List, Tuple

from spacy.training import Example

from ...errors import Errors, KrisselError
from .linked import single_mentions


class MentionBatcher:
    """Shuffle the linked mentions of an epoch and cut them into batches of `size`, the last one smaller.

    An example with several linked mentions, such as a document of a gold corpus, is taken for as many examples of one
    linked mention each. Same seed and same input, same batches; each epoch has its own order.

    max_per_entity: so many mentions of one entity in an epoch at most, drawn anew each time (0: all).
    spans_key: the linked mentions of an example are those of `doc.spans[spans_key]`; "" for `doc.ents`.
    Raises KrisselError K006 for a wrong setting.
    """

    def __init__(self, *, size: int = 32, max_per_entity: int = 0, spans_key: str = "", seed: int = 0) -> None:
        if size < 1:
            raise KrisselError(Errors.K006.format(setting="size", found=size, expected="at least 1 mention a batch"))
        if max_per_entity < 0:
            raise KrisselError(Errors.K006.format(setting="max_per_entity", found=max_per_entity, expected="0 or more"))
        self.size = size
        self.max_per_entity = max_per_entity
        self.spans_key = spans_key
        self.seed = seed
        self.epoch = 0

    def __call__(self, examples: Iterable[Example]) -> Iterator[List[Example]]:
        rng = random.Random(f"{self.seed}-{self.epoch}")
        self.epoch += 1
        mentions = [each for example in examples for each in single_mentions(example, self.spans_key)]
        rng.shuffle(mentions)
        if self.max_per_entity:
            mentions = self._limited(mentions)
        for start in range(0, len(mentions), self.size):
            yield [example for _, example in mentions[start : start + self.size]]

    def _limited(self, mentions: List[Tuple[str, Example]]) -> List[Tuple[str, Example]]:
        counts: dict = {}
        kept = []
        for entity, example in mentions:
            counts[entity] = counts.get(entity, 0) + 1
            if counts[entity] <= self.max_per_entity:
                kept.append((entity, example))
        return kept


def make_mention_batcher(
    size: int = 32, max_per_entity: int = 0, spans_key: str = "", seed: int = 0
) -> Callable[[Iterable[Example]], Iterable[List[Example]]]:
    """Registered as the batcher `spacy-krissel.MentionBatcher.v1`; see `MentionBatcher`."""
    return MentionBatcher(size=size, max_per_entity=max_per_entity, spans_key=spans_key, seed=seed)
