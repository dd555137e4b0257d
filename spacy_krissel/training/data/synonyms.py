"""SapBERT's training data: pairs of synonyms of an ontology, streamed."""

import random
from heapq import nsmallest
from pathlib import Path
from typing import Callable, Iterator, Literal, Tuple

import numpy as np
from spacy.language import Language
from spacy.training import Example

from ...errors import Errors, KrisselError
from ...ontology.entity import Entity
from ...ontology.held_out import HeldOut
from ...ontology.store import OntologyStore
from ...util.hashing import stable_hash
from ...views import name_view
from .self_supervised import view_example
from .synonym_pairs import SynonymPair, different_names, draw_pairs, pair_examples, shuffled


class SynonymCorpus:
    """Pairs of names that one entity bears (split "train"), or names to be linked to their entities ("dev").

    Training: entities in random order, all pairs of an entity's names or `pairs_per_entity` of them, the same in every
    epoch, mixed with those of other entities in a buffer. In memory are that buffer and a number for each entity.
    With `training.max_epochs = -1` spaCy streams from it, so that an ontology may have any number of names.

    Development: held-out names without context.

    ontology: path of the ontology store.
    pairs_per_entity: so many pairs of an entity at most, drawn by seed (0: all).
    lowercase: names in lower case.
    held_out: fraction of the aliases kept for the development set (`HeldOut`); the paper has none.
    buffer_size: pairs that are mixed.
    limit: so many examples at most (0: all).
    max_entities: ask for so many entities only (0: all), the same ones that `PrototypeSource` with the same seed puts
        into a bounded knowledge base.
    spans_key: the names are spans of `doc.spans[spans_key]`; "" for entities of `doc.ents`.
    Raises KrisselError K006 for settings that make no sense.
    """

    def __init__(
        self,
        ontology: Path,
        *,
        split: str = "train",
        pairs_per_entity: int = 50,
        lowercase: bool = True,
        held_out: float = 0.0,
        buffer_size: int = 2**16,
        limit: int = 0,
        spans_key: str = "",
        seed: int = 0,
        max_entities: int = 0,
    ) -> None:
        if split not in ("train", "dev"):
            raise KrisselError(Errors.K006.format(setting="split", found=split, expected="'train' or 'dev'"))
        if buffer_size < 1:
            raise KrisselError(Errors.K006.format(setting="buffer_size", found=buffer_size, expected="at least 1 pair"))
        limits = {"pairs_per_entity": pairs_per_entity, "limit": limit, "max_entities": max_entities}
        for setting, value in limits.items():
            if value < 0:
                raise KrisselError(Errors.K006.format(setting=setting, found=value, expected="0 or more"))
        self.ontology = ontology
        self.split = split
        self.pairs_per_entity = pairs_per_entity
        self.lowercase = lowercase
        self.held_out = HeldOut.checked(held_out, seed)
        self.buffer_size = buffer_size
        self.limit = limit
        self.spans_key = spans_key
        self.seed = seed
        self.max_entities = max_entities
        self.epoch = 0

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Raises KrisselError K001 to K004 (ontology), K608 when there is nothing."""
        store = OntologyStore(self.ontology)
        examples = self._dev(store, nlp) if self.split == "dev" else pair_examples(self.pairs(store), self.spans_key)
        count = 0
        for example in examples:
            yield example
            count += 1
            if count == self.limit:
                break
        if not count:
            todo = "Set `held_out` above 0." if self.split == "dev" else "It has no entity with two names."
            raise KrisselError(Errors.K608.format(split=self.split, path=self.ontology, todo=todo))
        self.epoch += 1

    def pairs(self, store: OntologyStore) -> Iterator[SynonymPair]:
        """The pairs of one epoch, in the order of that epoch."""
        order = np.random.default_rng([self.seed, self.epoch]).permutation(len(store))
        found = (pair for row in order for pair in self.entity_pairs(store.entity_at(int(row))))
        return shuffled(found, self.buffer_size, random.Random(f"{self.seed}-{self.epoch}"))

    def entity_pairs(self, entity: Entity) -> Iterator[SynonymPair]:
        """The pairs of one entity, the same in every epoch."""
        names = [name for name in entity.names if not self.held_out(entity, name)]
        rng = random.Random(stable_hash(self.seed, entity.id))
        for first, second in draw_pairs(different_names(names, self.lowercase), self.pairs_per_entity, rng):
            yield SynonymPair(entity.id, first, second)

    def _dev(self, store: OntologyStore, nlp: Language) -> Iterator[Example]:
        found = self._held_out_names(store)
        # All that is kept is what can be among the first.
        ranked = nsmallest(self.limit, found) if self.limit else sorted(found)
        for _, entity, name in ranked:
            yield view_example(nlp, entity, name_view(name), self.spans_key)

    def _held_out_names(self, store: OntologyStore) -> Iterator[Tuple[int, str, str]]:
        chosen = None
        if self.max_entities:
            ranked = ((stable_hash(self.seed, id_), id_) for id_ in store.ids)
            chosen = {id_ for _, id_ in nsmallest(self.max_entities, ranked)}
        for entity in store:
            if chosen is not None and entity.id not in chosen:
                continue
            held_out = [name for name in entity.names if self.held_out(entity, name)]
            for name in different_names(held_out, self.lowercase):
                yield stable_hash(self.seed, entity.id), entity.id, name


def make_synonym_corpus(
    ontology: Path,
    split: Literal["train", "dev"] = "train",
    pairs_per_entity: int = 50,
    lowercase: bool = True,
    held_out: float = 0.0,
    buffer_size: int = 2**16,
    limit: int = 0,
    spans_key: str = "",
    seed: int = 0,
    max_entities: int = 0,
) -> Callable[[Language], Iterator[Example]]:
    """Registered as the reader `spacy-krissel.SynonymCorpus.v1`; see `SynonymCorpus`."""
    return SynonymCorpus(
        ontology,
        split=split,
        pairs_per_entity=pairs_per_entity,
        lowercase=lowercase,
        held_out=held_out,
        buffer_size=buffer_size,
        limit=limit,
        spans_key=spans_key,
        seed=seed,
        max_entities=max_entities,
    )
