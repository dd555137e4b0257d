"""KRISSBERT's training step: InfoNCE over two mentions of each entity, some masked, some replaced (§3.2–3.3)."""

import random
import warnings
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from spacy.training import Example
from thinc.types import Floats2d

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..ontology.store import OntologyStore
from ..sampling.held_out import HeldOut
from ..sampling.linked import linked_mentions
from ..views import View
from .cached import update_in_chunks
from .protocol import EncoderModel


class ContrastiveObjective:
    """Two views of each of N entities; each view a positive of the other, all 2(N-1) others negatives.

    loss: vectors (2N, d), pairs adjacent → (gradient, loss).
    p_mask: probability that a mention's surface form is hidden behind the mask; names without context are never masked.
    p_replace: probability that a mention is replaced with another name of its entity, its context kept.
    held_out: fraction of aliases never used as a replacement; the same as in the training corpus.
    chunk_size: views encoded together (`update_in_chunks`); 0 for all at once.
    spans_key: the mentions are those of `doc.spans[spans_key]`; "" for `doc.ents`.
    seed: of masking and replacement.
    """

    def __init__(
        self,
        loss: Callable[[Floats2d], Tuple[Floats2d, float]],
        *,
        p_mask: float = 0.2,
        p_replace: float = 0.2,
        held_out: float = 0.0,
        chunk_size: int = 0,
        spans_key: str = "",
        seed: int = 0,
    ) -> None:
        probabilities = {"p_mask": p_mask, "p_replace": p_replace, "p_mask + p_replace": p_mask + p_replace}
        for setting, value in probabilities.items():
            if not 0 <= value <= 1:
                raise KrisselError(Errors.K006.format(setting=setting, found=value, expected="a probability in [0, 1]"))
        if chunk_size < 0:
            raise KrisselError(Errors.K006.format(setting="chunk_size", found=chunk_size, expected="0 or more views"))
        self.loss = loss
        self.p_mask = p_mask
        self.p_replace = p_replace
        self.chunk_size = chunk_size
        self.spans_key = spans_key
        self.held_out = HeldOut.checked(held_out, seed)
        self._rng = random.Random(seed)
        self._ontology: Optional[OntologyStore] = None
        self._names: Dict[str, Tuple[str, ...]] = {}
        self._warned = False

    def initialize(self, ontology: Optional[OntologyStore]) -> None:
        """Take the ontology whose names replace mentions; raises KrisselError K606 when it is needed and missing."""
        if ontology is None and self.p_replace:
            raise KrisselError(Errors.K606.format(found=self.p_replace))
        self._ontology = ontology
        self._names = {}

    def update(self, model: EncoderModel, examples: Sequence[Example]) -> float:
        """Accumulate the gradient of eq. 2 over the pairs in `examples`. RETURNS: the loss.

        Raises KrisselError K602 when no entity has two mentions among the examples, K606 when a mention is to be
        replaced and `initialize` was never called; warns KW602, once, when some examples are of no use.
        """
        views = self.pair_views(examples)
        if not views:
            raise KrisselError(Errors.K602.format(found=len(examples)))
        return update_in_chunks(model, views, self.loss, self.chunk_size)

    def pair_views(self, examples: Sequence[Example]) -> List[View]:
        """2N views of N entities, pairs adjacent. An entity's third and later mentions in the batch are not used."""
        by_entity: Dict[str, List[Tuple[int, View]]] = {}
        for i, example in enumerate(examples):
            for entity, view in linked_mentions(example.reference, self.spans_key):
                by_entity.setdefault(entity, []).append((i, view))
        views: List[View] = []
        alone = {i for found in by_entity.values() for i, _ in found}
        for entity, found in by_entity.items():
            if len(found) >= 2:
                views.extend(self.augment(entity, view) for _, view in found[:2])
                alone.difference_update(i for i, _ in found)
        if views and alone and not self._warned:
            self._warned = True
            message = Warnings.KW602.format(alone=len(alone), found=len(examples))
            warnings.warn(message, KrisselWarning, stacklevel=3)
        return views

    def augment(self, entity: str, view: View) -> View:
        """Mask or replace the mention (§3.3), or leave it: exclusive events with the two probabilities."""
        if not view.left and not view.right:
            return view
        draw = self._rng.random()
        if draw < self.p_mask:
            return view._replace(masked=True)
        if draw < self.p_mask + self.p_replace:
            names = self._names_of(entity)
            if names:
                return view._replace(mention=self._rng.choice(names))
        return view

    def _names_of(self, entity: str) -> Tuple[str, ...]:
        if entity not in self._names:
            if self._ontology is None:
                raise KrisselError(Errors.K606.format(found=self.p_replace))
            found = self._ontology.get(entity)
            self._names[entity] = tuple(name for name in found.names if not self.held_out(found, name))
        return self._names[entity]


def make_contrastive_objective(
    loss: Callable[[Floats2d], Tuple[Floats2d, float]],
    p_mask: float = 0.2,
    p_replace: float = 0.2,
    held_out: float = 0.05,
    chunk_size: int = 0,
    spans_key: str = "",
    seed: int = 0,
) -> ContrastiveObjective:
    """Registered in misc as `spacy-krissel.ContrastiveObjective.v1`; see `ContrastiveObjective`."""
    return ContrastiveObjective(
        loss,
        p_mask=p_mask,
        p_replace=p_replace,
        held_out=held_out,
        chunk_size=chunk_size,
        spans_key=spans_key,
        seed=seed,
    )
