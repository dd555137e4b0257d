"""SapBERT's training step: metric learning over the names of a batch, labelled by entity (§2, eq. 1
and 2)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from spacy.training import Example
from thinc.api import get_array_module
from thinc.types import Floats2d, Ints1d

from ...losses.masked import Loss, Miner
from ...ontology.store import OntologyStore
from ...util.settings import Count, checked
from ...views import View, name_view
from ..data.examples import linked_mentions
from ..data.gold_corpus import seen_entities
from ..passes import update_in_chunks
from ..scores import cosines, label_pairs
from .krissbert import PAIRS
from .protocol import BatchCount, EncoderModel, require_ontology

# Alternative to an ontology, in errors.
ALTERNATIVE = ", or `n_negatives` to 0"


@checked
@dataclass(eq=False)
class SelfAlignmentObjective:
    """A loss over the cosines of a batch's names, without their contexts, labelled by entity.

    Any two names of one entity are a positive pair, from any examples. A repeated name is encoded
    once. A name of two entities counts for the first, since the encoder cannot distinguish them.

    loss: of each name with all others, such as `spacy-krissel.MultiSimilarity.v1`.
    miner: picks the pairs that count, such as `spacy-krissel.HardPairMiner.v1`; None: all of them.
    chunk_size: names encoded together (`update_in_chunks`); 0: all at once; null: as many as fill a
        pass.
    n_negatives: maximum number of other entities of the ontology with one name each, the entity
        drawn first, so that entities with few names are not rare (OSLAT §3.1); 0: the names of the
        batch alone.
    seen: a .spacy file of the training texts, whose entities are the negatives (OSLAT). None: any
        of the ontology.
    seed: seed of the negatives.
    """

    loss: Loss
    miner: Miner | None = None
    chunk_size: Count | None = 0
    n_negatives: Count = 0
    seen: str | Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._store: OntologyStore | None = None
        self._rows = np.zeros(0, dtype=np.int64)
        self._batches = BatchCount("entity with two names", PAIRS)
        self._random = np.random.default_rng(self.seed)

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Set the ontology that negatives are drawn from; the other names are in the examples.

        Raises KrisselError K639 if negatives are wanted and there is no ontology, or it contains no
        entity of `seen`.
        """
        if self.n_negatives:
            store = require_ontology(ontology, ALTERNATIVE)
            ids = None if self.seen is None else seen_entities(self.seen, store)
            self._rows = (
                np.arange(len(store))
                if ids is None
                else np.asarray([store.row(id_) for id_ in ids])
            )
        self._store = ontology

    def update(
        self, model: EncoderModel, examples: Sequence[Example], spans_key: str = ""
    ) -> float:
        """Accumulate the gradient of the loss over the names in `examples`. RETURNS: the loss; 0 if
        no entity has two names among them.

        Raises KrisselError K639 if there is no ontology to draw negatives from.
        """
        views, labels = self.labelled_names(examples, spans_key)
        if self._batches.is_empty({label for label, count in Counter(labels).items() if count > 1}):
            return 0.0
        for entity, name in self._negatives({view.mention for view in views}, set(labels)):
            views.append(name_view(name))
            labels.append(entity)
        numbers = cast(Ints1d, np.unique(labels, return_inverse=True)[1])
        return update_in_chunks(
            model, views, lambda vectors: self.label_loss(vectors, numbers), self.chunk_size
        )

    def label_loss(self, vectors: Floats2d, labels: Ints1d) -> tuple[Floats2d, float]:
        """Compute the loss of vectors (n, d) of any length, labelled (n,) by entity. RETURNS: the
        gradient (n, d), and the loss."""
        scores, backprop = cosines(vectors)
        xp: Any = get_array_module(scores)
        pairs = label_pairs(xp.asarray(labels))
        if self.miner is not None:
            pairs = self.miner(scores, *pairs)
        d_scores, value = self.loss(scores, *pairs)
        return backprop(d_scores), value

    def _negatives(self, names: set[str], entities: set[str]) -> Iterator[tuple[str, str]]:
        """Yield one name each of entities other than these, none of them among these names."""
        if not self.n_negatives:
            return
        store = require_ontology(self._store, ALTERNATIVE)
        n = min(self.n_negatives, len(self._rows))
        for row in self._rows[self._random.choice(len(self._rows), n, replace=False)].tolist():
            entity = store.entity_at(row)
            name = entity.names[self._random.integers(len(entity.names))]
            if entity.id not in entities and name not in names:
                names.add(name)
                yield entity.id, name

    def labelled_names(
        self, examples: Sequence[Example], spans_key: str = ""
    ) -> tuple[list[View], list[str]]:
        """Return the distinct names of a batch, and the entity of each."""
        owners: dict[str, str] = {}
        for example in examples:
            for entity, view in linked_mentions(example.reference, spans_key):
                owners.setdefault(view.mention, entity)
        return [name_view(name) for name in owners], list(owners.values())
