"""Training and development examples from mined mentions and ontology names, without a gold label."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from spacy.language import Language
from spacy.training import Example

from ...errors import Errors, KrisselError
from ...mining.shards import MentionShards
from ...ontology.entity import Entity
from ...ontology.held_out import HELD_OUT, HeldOut
from ...ontology.store import OntologyStore
from ...util.settings import Count, Fraction, checked
from ...views import View, name_view
from .examples import Linked, text_example, view_examples


@checked
@dataclass(eq=False)
class SelfSupervisedCorpus:
    """Examples of one mention each: a mined mention in its context, or a name of the ontology alone.

    ontology: path of the ontology store.
    mentions: path of the mined shards; null for names alone.
    split: "train" leaves out every held-out name and its mentions; "dev" has the mentions of held-out names only.
    mentions_per_entity, names_per_entity: maximum per entity, drawn by seed; 0 for none.
    held_out: fraction of the aliases kept for the development set (`HeldOut`).
    limit: maximum number of examples; 0 for all.
    spans_key: the mention is a span of `doc.spans[spans_key]`; "" for an entity of `doc.ents`.
    seed: of the sample and its order.
    """

    ontology: str | Path
    mentions: str | Path | None = None
    split: Literal["train", "dev"] = "train"
    mentions_per_entity: Count = 3
    names_per_entity: Count = 4
    held_out: Fraction = HELD_OUT
    limit: Count = 0
    spans_key: str = ""
    seed: int = 0

    def __call__(self, nlp: Language) -> Iterator[Example]:
        """Raises KrisselError K608 when there is no example."""
        linked = self.linked_views()
        if self.split == "dev":
            return (text_example(nlp, each, self.spans_key) for each in linked)
        return view_examples(([each] for each in linked), self.spans_key)

    def linked_views(self) -> list[Linked]:
        """(entity id, view) of each example. Raises KrisselError K608 when there is none."""
        store, rng = OntologyStore(self.ontology), random.Random(f"{self.seed}-{self.split}")
        held_out = HeldOut(self.held_out, self.seed)
        by_entity: dict[str, list[View]] = {}
        entities: dict[str, Entity] = {}
        for mention in MentionShards(self.mentions) if self.mentions and self.mentions_per_entity else ():
            if mention.entity not in entities:
                entities[mention.entity] = store.get(mention.entity)
            if held_out(entities[mention.entity], mention.name) == (self.split == "dev"):
                by_entity.setdefault(mention.entity, []).append(mention.view)
        views: list[Linked] = []
        for entity_id, found in sorted(by_entity.items()):
            n = self.mentions_per_entity
            views.extend((entity_id, view) for view in (found if len(found) <= n else rng.sample(found, n)))
        if self.split == "train" and self.names_per_entity:
            for entity in store:
                names = [name for name in entity.names if not held_out(entity, name)]
                if len(names) > self.names_per_entity:
                    # The preferred name always stays: it is the one that prototypes of unmined entities rest on.
                    names = [names[0], *rng.sample(names[1:], self.names_per_entity - 1)]
                views.extend((entity.id, name_view(name)) for name in names)
        if not views:
            todo = "Mine more text, raise `held_out`, or lower the limits." if self.mentions else "Set `mentions`."
            raise KrisselError(Errors.K608.format(split=self.split, path=self.mentions or self.ontology, todo=todo))
        rng.shuffle(views)
        return views[: self.limit or None]
