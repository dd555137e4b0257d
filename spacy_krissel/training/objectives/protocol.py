"""What a training step is, seen from the pipe: all that a pipe knows about training."""

import warnings
from collections.abc import Sequence, Sized
from typing import Protocol

from spacy.training import Example
from thinc.api import Model
from thinc.types import Floats2d

from ...errors import KrisselWarning, Warnings
from ...ontology.store import OntologyStore
from ...views import View

# What to look for where batches hold no linked mention.
LINKS = "Check that the examples carry kb_id_ on their entities, or on the spans of the component's spans_key"
EncoderModel = Model[list[View], Floats2d]


class Objective(Protocol):
    """One paper's training step. Registered in `misc`, chosen by the config, held by the pipe, saved with neither."""

    def initialize(self, ontology: OntologyStore | None) -> None:
        """Take what training needs besides the examples, None where the config names no ontology. Called by the pipe's
        `initialize`, which thus refuses what cannot be learned without one."""
        ...

    def update(self, model: EncoderModel, examples: Sequence[Example], spans_key: str = "") -> float:
        """Accumulate the gradient of one batch in `model`. RETURNS: the batch's loss; 0 for a batch that holds nothing
        to learn from, which is skipped and counted (`BatchCount`).

        spans_key: the pipe's own: mentions are those of `doc.spans[spans_key]`; "" for `doc.ents`.
        A re-ranker's objective (`RerankObjective`) also takes the linker whose candidates it learns to correct.
        """
        ...


class BatchCount:
    """Counts the batches of a training, and those that were skipped since they hold nothing to learn from.

    A pipeline trains several components on the same batches: one without use for an objective must not end the
    training of the others. Warns KW625 at the first skipped batch, the tenth, the hundredth and so on.

    missing: what a batch lacks. todo: what to do where most of them lack it.
    """

    def __init__(self, missing: str, todo: str) -> None:
        self.missing = missing
        self.todo = todo
        self.n_batches = self.n_skipped = 0

    def is_empty(self, found: Sized) -> bool:
        """Count a batch with these finds. RETURNS: whether there are none, so that the batch is to be skipped."""
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
