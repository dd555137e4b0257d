"""What a training step is, seen from the pipe: the only thing `krissel_linker` knows about training."""

from typing import Any, Callable, List, Optional, Protocol, Sequence, Tuple

from spacy.training import Example
from thinc.api import Model
from thinc.types import Floats2d, Ints1d

from ...ontology.store import OntologyStore
from ...views import View

# What to look for where batches hold no linked mention.
LINKS = "Check that the examples carry kb_id_ on their entities, or on the spans of the component's spans_key"
EncoderModel = Model[List[View], Floats2d]
# Vectors to gradient and loss.
LossFunction = Callable[[Floats2d], Tuple[Floats2d, float]]
# Vectors of mentions and of references to both gradients and the loss.
ReferenceLossFunction = Callable[[Floats2d, Floats2d], Tuple[Tuple[Floats2d, Floats2d], float]]
# Vectors of names and the entity of each, as numbers, to gradient and loss.
PairLossFunction = Callable[[Floats2d, Ints1d], Tuple[Floats2d, float]]
# Scores of mentions with candidates, the gold column of each mention and a mask of its negatives, to gradient and loss.
CandidateLossFunction = Callable[[Floats2d, Ints1d, Any], Tuple[Floats2d, float]]


class Objective(Protocol):
    """One paper's training step. Registered in `misc`, chosen by the config, held by the pipe, saved with neither."""

    def initialize(self, ontology: Optional[OntologyStore]) -> None:
        """Take what training needs beside the examples, None where the config names no ontology. Called by the pipe's
        `initialize`, so that what cannot be learned without one is refused there."""
        ...

    def update(self, model: EncoderModel, examples: Sequence[Example], spans_key: str = "") -> float:
        """Accumulate the gradient of one batch in `model`. RETURNS: the batch's loss; 0 for a batch that holds nothing
        to learn from, which is skipped and counted (`BatchCount`).

        spans_key: the pipe's own: mentions are those of `doc.spans[spans_key]`; "" for `doc.ents`.
        """
        ...
