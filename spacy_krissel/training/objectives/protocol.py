"""What a training step is, seen from the pipe: all that a pipe knows about training."""

from typing import List, Optional, Protocol, Sequence

from spacy.training import Example
from thinc.api import Model
from thinc.types import Floats2d

from ...ontology.store import OntologyStore
from ...views import View

# What to look for where batches hold no linked mention.
LINKS = "Check that the examples carry kb_id_ on their entities, or on the spans of the component's spans_key"
EncoderModel = Model[List[View], Floats2d]


class Objective(Protocol):
    """One paper's training step. Registered in `misc`, chosen by the config, held by the pipe, saved with neither."""

    def initialize(self, ontology: Optional[OntologyStore]) -> None:
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
