"""Protocols of training objectives: all that a pipe knows about training."""

import warnings
from collections.abc import Sequence, Sized
from dataclasses import dataclass
from typing import Protocol

from spacy.training import Example
from thinc.api import Model
from thinc.types import Floats2d

from ...errors import Errors, KrisselError, KrisselWarning, Warnings
from ...layers.referenced import reference_parts
from ...ontology.store import OntologyStore
from ...views import ReferenceParts, View

# Advice for batches without a linked mention.
LINKS = (
    "Check that the examples carry kb_id_ on their entities, or on the spans of the component's "
    "spans_key"
)
EncoderModel = Model[list[View], Floats2d]


class Objective(Protocol):
    """One paper's training step. Registered in `misc`, chosen by the config, held by the pipe,
    saved with neither.

    It may have `learned_settings`: the present values, by name, of settings that it learns for its
    component. If its `refresh_every` is "epoch", its `set_epoch` gets the number of linked mentions
    per epoch after `initialize`.
    """

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Set what training needs besides the examples; None if the config names no ontology.

        Raises KrisselError K639 if nothing can be learned without one.
        """
        ...

    def update(
        self, model: EncoderModel, examples: Sequence[Example], spans_key: str = ""
    ) -> float:
        """Accumulate the gradient of one batch in `model`. RETURNS: the batch's loss; 0 for a batch
        without anything to learn from, which is skipped and counted (`BatchCount`).

        spans_key: the pipe's own: mentions are the spans of `doc.spans[spans_key]`; "" for
            `doc.ents`.
        A re-ranker's objective (`RerankObjective`) also takes the linker whose candidates it learns
        to correct.
        """
        ...


@dataclass
class BatchCount:
    """Counter of batches, and of those skipped because they have nothing to learn from: a pipeline
    trains several components on the same batches. Warns KW625 at the first skipped batch, the
    tenth, the hundredth and so on.

    missing: what a batch lacks. todo: advice if most batches lack it.
    """

    missing: str
    todo: str
    n_batches: int = 0
    n_skipped: int = 0

    def is_empty(self, found: Sized) -> bool:
        """Count a batch with these items. RETURNS: whether there are none, so that the batch is to
        be skipped."""
        self.n_batches += 1
        if len(found):
            return False
        self.n_skipped += 1
        if str(self.n_skipped).strip("0") == "1":
            message = Warnings.KW625.format(
                skipped=self.n_skipped, batches=self.n_batches, missing=self.missing, todo=self.todo
            )
            warnings.warn(message, KrisselWarning, stacklevel=4)
        return True


def require_ontology(ontology: OntologyStore | None, alternative: str = "") -> OntologyStore:
    """Return the ontology. Raises KrisselError K639 for None: `initialize` was never called, or the
    config names none."""
    if ontology is None:
        todo = f"Set `ontology` in [initialize.components]{alternative}"
        raise KrisselError(Errors.K639.format(problem="there is no ontology", todo=todo))
    return ontology


def entity_row(ontology: OntologyStore, entity: str) -> int:
    """Return the row of a mention's entity. Raises KrisselError K639 if the ontology does not
    contain it."""
    row = ontology.row(entity)
    if row is None:
        problem, todo = (
            f"the ontology does not contain '{entity}'",
            "Use the ontology that the corpus was read with",
        )
        raise KrisselError(Errors.K639.format(problem=problem, todo=todo))
    return row


def required_parts(model: EncoderModel) -> ReferenceParts:
    """Return the parts of the references that a model encodes. Raises KrisselError K636 for a model
    of mentions alone."""
    parts = reference_parts(model)
    if parts is None:
        raise KrisselError(Errors.K636)
    return parts
