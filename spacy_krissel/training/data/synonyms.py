"""SapBERT's training data: pairs of names of one entity, from the ontology (§3.1) or with gold
mentions (§2)."""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice, product
from math import comb, isqrt
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from spacy.language import Language
from spacy.training import Example

from ...errors import Errors, KrisselError
from ...ontology.build import open_ontology
from ...ontology.entity import Entity
from ...ontology.held_out import HeldOut
from ...ontology.store import OntologyStore
from ...util.hashing import stable_hash
from ...util.settings import Count, Fraction, PositiveInt, checked
from ...views import name_view
from .examples import Linked, linked_mentions, text_example, view_examples
from .gold_corpus import GoldCorpus, Split, seen_entities

Item = TypeVar("Item")
# Two names of one entity, each as a view.
Pair = tuple[Linked, Linked]


@checked
@dataclass(eq=False)
class SynonymCorpus:
    """Pairs of names of one entity (split "train"), or single names to be linked to their entities
    ("dev").

    Training: entities in random order, with all pairs of an entity's names or `pairs_per_entity` of
    them, the same in every epoch, shuffled with those of other entities in a buffer. That buffer
    and one number per entity are held in memory. With `training.max_epochs = -1`, spaCy streams the
    pairs, so an ontology may have any number of names.

    Development: held-out names without context.

    ontology: path of the ontology store.
    split: "train" or "dev".
    pairs_per_entity: maximum number of pairs per entity, drawn by seed; 0 for all.
    lowercase: names in lower case.
    held_out: fraction of the aliases kept for the development set (`HeldOut`); none in the paper.
    buffer_size: number of pairs shuffled together.
    limit: maximum number of examples; 0 for all.
    spans_key: the names are spans of `doc.spans[spans_key]`; "" for entities of `doc.ents`.
    seed: seed of the pairs and their order.
    seen: a .spacy file of the training texts, which gives the entities, as in OSLAT's first stage.
        None: those of the ontology.
    max_entities: number of entities in "dev", the same that `PrototypeSource` with this seed puts
        into a bounded knowledge base; 0 for all.
    """

    ontology: str | Path
    split: Literal["train", "dev"] = "train"
    pairs_per_entity: Count = 50
    lowercase: bool = True
    held_out: Fraction = 0.0
    buffer_size: PositiveInt = 2**16
    limit: Count = 0
    spans_key: str = ""
    seed: int = 0
    seen: str | Path | None = None
    max_entities: Count = 0

    def __post_init__(self) -> None:
        self._epoch = 0
        self._held_out = HeldOut(self.held_out, self.seed)

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the examples. Raises KrisselError K001 to K004 (ontology), K608 if there is
        none."""
        store = open_ontology(self.ontology)
        if self.split == "dev":
            examples = (
                text_example(nlp, each, self.spans_key) for each in self._held_out_names(store)
            )
        else:
            examples = view_examples(self.pairs(store), self.spans_key)
        is_empty = True
        for example in islice(examples, self.limit or None):
            is_empty = False
            yield example
        if is_empty:
            todo = (
                "Set `held_out` above 0."
                if self.split == "dev"
                else "It has no entity with two names."
            )
            raise KrisselError(Errors.K608.format(split=self.split, path=self.ontology, todo=todo))
        self._epoch += 1

    def pairs(self, store: OntologyStore) -> Iterator[Pair]:
        """Return the pairs of one epoch, in the order of that epoch."""
        rows: Any = (
            len(store)
            if self.seen is None
            else [store.row(id_) for id_ in seen_entities(self.seen, store)]
        )
        order = np.random.default_rng([self.seed, self._epoch]).permutation(rows)
        found = (pair for row in order for pair in self._entity_pairs(store.entity_at(int(row))))
        return shuffled(found, self.buffer_size, random.Random(f"{self.seed}-{self._epoch}"))

    def _entity_pairs(self, entity: Entity) -> Iterator[Pair]:
        """Yield the pairs of one entity, the same in every epoch."""
        names = [name for name in entity.names if not self._held_out(entity, name)]
        rng = random.Random(stable_hash(self.seed, entity.id))
        for first, second in draw_pairs(
            different_names(names, self.lowercase), self.pairs_per_entity, rng
        ):
            yield synonym_pair(entity.id, first, second)

    def _held_out_names(self, store: OntologyStore) -> Iterator[Linked]:
        """Yield the held-out names, in the order of a hash of their entities."""
        ids = store.ids if self.seen is None else seen_entities(self.seen, store)
        ranked = sorted((stable_hash(self.seed, id_), id_) for id_ in ids)
        for _, id_ in ranked[: self.max_entities or None]:
            entity = store.get(id_)
            held_out = [name for name in entity.names if self._held_out(entity, name)]
            for name in sorted(different_names(held_out, self.lowercase)):
                yield id_, name_view(name)


@checked
@dataclass(eq=False)
class GoldSynonymCorpus(GoldCorpus):
    """SapBERT's fine-tuning data: each gold mention with each name of its entity in the ontology
    (§2), once.

    Composite mentions and those without an id of the ontology are left out. The corpus of names for
    development is `spacy-krissel.GoldCorpus.v1`.

    path, ontology, split, dev_share, seed, dev, spans_key: as in `spacy-krissel.GoldCorpus.v1`;
        `seed` also of the pairs and their order.
    lowercase: names and mentions in lower case.
    """

    split: Split = "train"
    lowercase: bool = True

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Yield the pairs in random order. Raises KrisselError K201, K212 (file), K608 (no linked
        mention, or no pair)."""
        store = open_ontology(self.ontology)
        mentions: dict[str, list[str]] = {}
        for example in super().__call__(nlp):
            for entity, view in linked_mentions(example.reference, self.spans_key):
                if "|" not in entity:
                    mentions.setdefault(entity, []).append(view.mention)
        pairs: list[Pair] = []
        for entity, found in mentions.items():
            forms = different_names(found, self.lowercase)
            names = different_names(store.get(entity).names, self.lowercase)
            distinct = {
                frozenset(pair): pair for pair in product(forms, names) if pair[0] != pair[1]
            }
            pairs.extend(synonym_pair(entity, *pair) for pair in distinct.values())
        if not pairs:
            todo = "No entity that is mentioned has two names."
            raise KrisselError(Errors.K608.format(split=self.split, path=self.path, todo=todo))
        random.Random(self.seed).shuffle(pairs)
        yield from view_examples(pairs, self.spans_key)


def synonym_pair(entity: str, first: str, second: str) -> Pair:
    return (entity, name_view(first)), (entity, name_view(second))


def different_names(names: Iterable[str], lowercase: bool = True) -> list[str]:
    """Return the distinct names, lower-cased if asked. Names that differ in punctuation are
    distinct (SapBERT §3.1)."""
    one_line = (" ".join(name.split()) for name in names)
    return list(dict.fromkeys(name.lower() if lowercase else name for name in one_line))


def draw_pairs(names: Sequence[str], limit: int, rng: random.Random) -> list[tuple[str, str]]:
    """Return all pairs of different names, or `limit` of them (0: all), without making the
    others."""
    total = comb(len(names), 2)
    if not limit or total <= limit:
        return list(combinations(names, 2))
    return [_pair_at(names, k) for k in rng.sample(range(total), limit)]


def _pair_at(names: Sequence[str], k: int) -> tuple[str, str]:
    """Return pair k of (0, 1), (0, 2), (1, 2), (0, 3), …"""
    j = (1 + isqrt(1 + 8 * k)) // 2
    return names[k - comb(j, 2)], names[j]


def shuffled(items: Iterable[Item], buffer_size: int, rng: random.Random) -> Iterator[Item]:
    """Yield the items in random order, each drawn from a buffer of `buffer_size`."""
    buffer: list[Item] = []
    for item in items:
        if len(buffer) < buffer_size:
            buffer.append(item)
            continue
        i = rng.randrange(buffer_size)
        yield buffer[i]
        buffer[i] = item
    rng.shuffle(buffer)
    yield from buffer
