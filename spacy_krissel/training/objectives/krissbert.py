"""KRISSBERT's training step: α InfoNCE(mention, mention) + β InfoNCE(mention, reference), some
mentions masked, some replaced (§3.2–3.3 and 3.5, eq. 2 and 5)."""

import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spacy.training import Example
from thinc.api import get_array_module
from thinc.types import Floats2d

from ...errors import KrisselWarning, Warnings, wrong_setting
from ...losses.masked import Loss
from ...ontology.held_out import HELD_OUT, HeldOut
from ...ontology.store import OntologyStore
from ...util.folding import fold_name
from ...util.settings import Count, Fraction, NotNegative, checked
from ...views import ReferenceParts, View, reference_view
from ..data.examples import linked_mentions
from ..passes import update_in_chunks
from ..scores import inner, inner_pairs
from .protocol import BatchCount, EncoderModel, require_ontology, required_parts

PAIRS = (
    "Use 'spacy-krissel.PairBatcher.v1' in [training.batcher], leave training.accumulate_gradient "
    "at 1, and check that the examples carry kb_id_ on their entities, or on the spans of the "
    "component's spans_key"
)

# Number of entities whose names and references are cached; training may visit millions.
MAX_CACHED = 2**14
# Alternative to an ontology, in errors.
ALTERNATIVE = ", or leave `reference_loss` out to train on mentions alone"


@checked
@dataclass(eq=False)
class ContrastiveObjective:
    """Contrast of two views of each of N entities: each view is a positive of the other, all 2(N-1)
    others are negatives (eq. 2). With a `reference_loss`, the N entity-centric references are
    contrasted too: the objective is αL + βL' (eq. 5). Scores are inner products.

    loss: L, of each mention with the 2N-1 other mentions, such as `spacy-krissel.SoftmaxLoss.v1`.
    reference_loss: L', of each mention with the N references. It needs an encoder of references
        (`ReferencedEncoder`). None trains on mentions alone.
    alpha: weight of L; 0 switches it off.
    beta: weight of L'; 0 switches it off.
    p_mask: probability that a mention's surface form is masked; names without context are never
        masked.
    p_replace: probability that a mention is replaced with another name of its entity (folded), with
        its context kept. A mention whose entity has no other name stays. Without an ontology, none
        is replaced (KW626).
    held_out: fraction of aliases never used as a replacement; the same as in the training corpus.
    chunk_size: views encoded together (`update_in_chunks`); 0: all at once; null: as many as fill a
        pass.
    seed: seed of masking and replacement.

    Raises KrisselError K006 for a wrong setting.
    """

    loss: Loss
    reference_loss: Loss | None = None
    alpha: NotNegative = 1.0
    beta: NotNegative = 1.0
    p_mask: Fraction = 0.2
    p_replace: Fraction = 0.2
    held_out: Fraction = HELD_OUT
    chunk_size: Count | None = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.p_mask + self.p_replace > 1:
            setting, found = "p_mask + p_replace", self.p_mask + self.p_replace
            raise wrong_setting(setting, found, "1 at most")
        if not self.beta:
            self.reference_loss = None
        if not self.alpha and self.reference_loss is None:
            expected = (
                "above 0 where there is no reference loss with a beta above 0: one loss at least"
            )
            raise wrong_setting("alpha", self.alpha, expected)
        self._held_out = HeldOut(self.held_out, self.seed)
        self._rng = random.Random(self.seed)
        self._ontology: OntologyStore | None = None
        self._names: dict[str, tuple[str, ...]] = {}
        self._references: dict[tuple[str, ReferenceParts], View] = {}
        self._batches = BatchCount("entity with two linked mentions", PAIRS)
        self._warned: set[str] = set()

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Set the ontology whose names replace mentions and whose entities have references.

        Raises KrisselError K639 if references need it and it is missing; warns KW626 if only names
        do.
        """
        if self.reference_loss is not None:
            require_ontology(ontology, ALTERNATIVE)
        self._ontology = ontology
        self._names = {}
        self._references = {}
        self._warn_without_names()

    def update(
        self, model: EncoderModel, examples: Sequence[Example], spans_key: str = ""
    ) -> float:
        """Accumulate the gradient of αL + βL' (eq. 2 and 5) over the pairs in `examples`. RETURNS:
        the loss; 0 if no entity has two mentions among them.

        Raises KrisselError K639 if a reference is needed and `initialize` was never called, K636 if
        the encoder has no references. Warns, once each, KW602 if some examples are of no use, KW626
        if there are no names.
        """
        self._warn_without_names()
        pairs = self.pairs(examples, spans_key)
        if self._batches.is_empty(pairs):
            return 0.0
        views = [view for _, pair in pairs for view in pair]
        if self.reference_loss is not None:
            parts = required_parts(model)
            views += [self.reference(entity, parts) for entity, _ in pairs]
        return update_in_chunks(model, views, self.joint_loss, self.chunk_size)

    def joint_loss(self, vectors: Floats2d) -> tuple[Floats2d, float]:
        """Compute αL + βL' of 2N mentions, pairs adjacent, followed by N references in the order of
        the pairs if there is a reference loss: (3N, d). RETURNS: the gradient of the vectors, and
        the loss."""
        xp: Any = get_array_module(vectors)
        n = len(vectors) if self.reference_loss is None else len(vectors) // 3 * 2
        mentions, references = vectors[:n], vectors[n:]
        rows = xp.arange(n)
        gradient = xp.zeros_like(vectors)
        loss = 0.0
        if self.alpha:
            scores, backprop_pairs = inner_pairs(mentions)
            positives = (rows ^ 1)[:, None] == rows[None]
            d_scores, value = self.loss(
                scores, positives, ~positives & (rows[:, None] != rows[None])
            )
            gradient[:n] += self.alpha * backprop_pairs(d_scores)
            loss += self.alpha * value
        if self.reference_loss is not None:
            scores, backprop = inner(mentions, references)
            positives = rows[:, None] // 2 == rows[None, : len(references)]
            d_scores, value = self.reference_loss(scores, positives, ~positives)
            d_mentions, d_references = backprop(d_scores)
            gradient[:n] += self.beta * d_mentions
            gradient[n:] += self.beta * d_references
            loss += self.beta * value
        return gradient, loss

    def pairs(
        self, examples: Sequence[Example], spans_key: str = ""
    ) -> list[tuple[str, list[View]]]:
        """Return two views of each entity that has two in the batch; further ones are not used."""
        by_entity: dict[str, list[tuple[int, View]]] = {}
        for i, example in enumerate(examples):
            for entity, view in linked_mentions(example.reference, spans_key):
                by_entity.setdefault(entity, []).append((i, view))
        pairs: list[tuple[str, list[View]]] = []
        alone = {i for found in by_entity.values() for i, _ in found}
        for entity, found in by_entity.items():
            if len(found) >= 2:
                pairs.append((entity, [self.augment(entity, view) for _, view in found[:2]]))
                alone.difference_update(i for i, _ in found)
        if pairs and alone:
            self._warn_once(Warnings.KW602.format(alone=len(alone), found=len(examples)))
        return pairs

    def reference(self, entity: str, parts: ReferenceParts) -> View:
        """Return the reference of an entity, without its held-out names."""
        key = entity, parts
        if key not in self._references:
            found = require_ontology(self._ontology, ALTERNATIVE).get(entity)
            self._references[key] = reference_view(found, parts, self._names_of(entity))
            _bound(self._references)
        return self._references[key]

    def augment(self, entity: str, view: View) -> View:
        """Mask or replace the mention (§3.3), or leave it: exclusive events with the two
        probabilities."""
        if not view.left and not view.right:
            return view
        draw = self._rng.random()
        if draw < self.p_mask:
            return view._replace(masked=True)
        if draw < self.p_mask + self.p_replace and self._ontology is not None:
            # A name that folds to the mention is no replacement: an uncased encoder would see no
            # difference.
            folded = fold_name(view.mention)
            others = [name for name in self._names_of(entity) if fold_name(name) != folded]
            return view._replace(mention=self._rng.choice(others)) if others else view
        return view

    def _names_of(self, entity: str) -> tuple[str, ...]:
        if entity not in self._names:
            found = require_ontology(self._ontology).get(entity)
            self._names[entity] = tuple(
                name for name in found.names if not self._held_out(found, name)
            )
            _bound(self._names)
        return self._names[entity]

    def _warn_without_names(self) -> None:
        # A loaded pipeline that is trained further has no ontology either, and `initialize` is not
        # called.
        if self._ontology is None and self.p_replace:
            self._warn_once(Warnings.KW626.format(found=self.p_replace))

    def _warn_once(self, message: str) -> None:
        code = message.partition("]")[0]
        if code not in self._warned:
            self._warned.add(code)
            warnings.warn(message, KrisselWarning, stacklevel=4)


def _bound(kept: dict[Any, Any]) -> None:
    if len(kept) > MAX_CACHED:
        del kept[next(iter(kept))]
