"""Training and development examples from mined mentions and ontology names, without gold labels."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
from spacy.language import Language
from spacy.training import Example

from ...errors import Errors, KrisselError
from ...mining.shards import MentionShards, MinedEntities
from ...ontology.build import open_ontology
from ...ontology.entity import Entity
from ...ontology.held_out import HELD_OUT, HeldOut
from ...ontology.store import OntologyStore
from ...util.settings import Count, Fraction, checked
from ...views import View, name_view
from .examples import Linked, LinkedExamples, text_example

# Number of neighbours in the shards that are read together, and of entities shuffled at a time.
BLOCK, CHUNK = 16, 2**14


@checked
@dataclass(eq=False)
class SelfSupervisedCorpus:
    """Examples of one mention each: a mined mention in its context, or a name of the ontology
    alone.

    Training: entities in random order, the examples of an entity together. Order, mentions and
    names are drawn again in each epoch. One chunk of entities and a few numbers per entity are held
    in memory. With `training.max_epochs = -1`, spaCy streams the examples, so there may be any
    number of mentions; with 0 it holds the examples of the first epoch.

    Development: mentions of held-out names, for the entities that `PrototypeSource` with the same
    shards and seed puts first into a bounded knowledge base. They are chosen once and held.

    ontology: path of the ontology store.
    mentions: path of the mined shards; null for names alone.
    split: "train" leaves out every held-out name and its mentions; "dev" has the mentions of
        held-out names only.
    mentions_per_entity, names_per_entity: maximum per entity, drawn by seed; 0 for none.
    held_out: fraction of the aliases kept for the development set (`HeldOut`).
    limit: maximum number of examples; 0 for all.
    read_ahead: number of training examples that a separate process reads ahead; 0 reads them in the
        training process.
    spans_key: the mention is a span of `doc.spans[spans_key]`; "" for an entity of `doc.ents`.
    seed: seed of the sample and its order.
    """

    ontology: str | Path
    mentions: str | Path | None = None
    split: Literal["train", "dev"] = "train"
    mentions_per_entity: Count = 3
    names_per_entity: Count = 4
    held_out: Fraction = HELD_OUT
    limit: Count = 0
    read_ahead: Count = 0
    spans_key: str = ""
    seed: Count = 0

    def __post_init__(self) -> None:
        self._epoch = 0
        self._held_out = HeldOut(self.held_out, self.seed)
        self._mined: MinedEntities | None = None
        self._dev: list[Linked] = []
        self._ahead: Any = None

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Return the examples. Raises KrisselError K608 if there is none."""
        if self.split == "dev":
            return (text_example(nlp, each, self.spans_key) for each in self.linked_views())
        return LinkedExamples(self.linked_views(), self.spans_key)

    def linked_views(self) -> Iterator[Linked]:
        """Yield (entity id, view) of each example of an epoch. Raises KrisselError K608 if there is
        none."""
        if self.read_ahead and self.split == "train":
            if self._ahead is None:
                from ...distributed.workers import ReadAhead

                self._ahead = ReadAhead(replace(self, read_ahead=0).epoch_views, self.read_ahead)
            yield from self._ahead.epoch(self._epoch)
        else:
            yield from self.epoch_views(self._epoch)
        self._epoch += 1

    def epoch_views(self, epoch: int) -> Iterator[Linked]:
        """Yield the same as `linked_views`, for the epoch of this number."""
        store = open_ontology(self.ontology)
        if self._mined is None and self.mentions and self.mentions_per_entity:
            self._mined = MinedEntities(MentionShards(self.mentions), store)
        is_empty = True
        linked_views = self._train(store, epoch) if self.split == "train" else self._development()
        for linked in islice(linked_views, self.limit or None):
            is_empty = False
            yield linked
        if is_empty:
            todo = (
                "Mine more text, raise `held_out`, or lower the limits."
                if self.mentions
                else "Set `mentions` (--paths.mentions)."
            )
            raise KrisselError(
                Errors.K608.format(split=self.split, path=self.mentions or self.ontology, todo=todo)
            )

    def _development(self) -> list[Linked]:
        if not self._dev and self._mined is not None:
            rng = random.Random(f"{self.seed}-{self.split}")
            chosen: list[tuple[str, int]] = []
            for id_, mentions in self._mined.held_out(self._held_out):
                chosen += [(id_, mention) for mention in self._sample(mentions, rng)]
                if self.limit and len(chosen) >= self.limit:
                    break
            views = self._mined.views([mention for _, mention in chosen])
            self._dev = [(id_, view) for (id_, _), view in zip(chosen, views, strict=True)]
        return self._dev

    def _train(self, store: OntologyStore, epoch: int) -> Iterator[Linked]:
        # Mined entities in the order of the shards, then the others if their names are wanted.
        rows = np.zeros(0, dtype=np.int64) if self._mined is None else self._mined.rows
        n_mined = len(rows)
        if self.names_per_entity:
            rows = np.append(rows, np.delete(np.arange(len(store)), rows))
        draws = np.random.default_rng([self.seed, epoch])
        blocks = draws.permutation(-(-len(rows) // BLOCK))
        for first in range(0, len(blocks), CHUNK // BLOCK):
            rng = random.Random(f"{self.seed}-{epoch}-{first}")
            numbers = np.add.outer(
                blocks[first : first + CHUNK // BLOCK] * BLOCK, np.arange(BLOCK)
            ).ravel()
            numbers = draws.permutation(numbers[numbers < len(rows)])
            chosen: dict[int, list[int]] = {}
            views: Iterator[View] = iter(())
            if self._mined is not None:
                mined = numbers[numbers < n_mined]
                # An entity may have any number of mentions: draw a few more than wanted, and drop
                # held-out ones.
                draw = partial(self._sample, rng=rng, more=self.mentions_per_entity + 8)
                found = self._mined.choose(mined, draw, self._held_out, hidden=False)
                chosen = {
                    number: mentions[: self.mentions_per_entity]
                    for number, mentions in found.items()
                }
                views = iter(
                    self._mined.views(
                        [mention for mentions in chosen.values() for mention in mentions]
                    )
                )
            for number in numbers.tolist():
                row = int(rows[number])
                id_ = store.id_at(row)
                for view in islice(views, len(chosen.get(number, ()))):
                    yield id_, view
                if self.names_per_entity:
                    for name in self._names(store.entity_at(row), rng):
                        yield id_, name_view(name)

    def _sample(self, mentions: Sequence[int], rng: random.Random, more: int = 0) -> list[int]:
        return rng.sample(mentions, min(len(mentions), self.mentions_per_entity + more))

    def _names(self, entity: Entity, rng: random.Random) -> list[str]:
        names = [name for name in entity.names if not self._held_out(entity, name)]
        if len(names) > self.names_per_entity:
            # The preferred name always stays: prototypes of unmined entities are made from it.
            names = [names[0], *rng.sample(names[1:], self.names_per_entity - 1)]
        return names
