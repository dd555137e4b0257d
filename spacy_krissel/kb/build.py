"""Encode a source's prototypes into a knowledge base."""

from typing import Callable, List, Optional, Sequence

import numpy as np

from ..util.progress import progress_bar
from ..views import View
from .prototype_kb import PrototypeKB
from .prototypes import Prototype
from .sources import PrototypeSource

# Views handed to the encoder at a time; it forms its own batches within.
BLOCK = 8_192


def fill_kb(
    kb: PrototypeKB,
    source: PrototypeSource,
    encode: Callable[[Sequence[View]], np.ndarray],
    *,
    encoder: Optional[str] = None,
    progress: bool = False,
) -> PrototypeKB:
    """Give the empty `kb` the entities and prototypes of `source`.

    encode: views → (n, width) float32.
    encoder: fingerprint of the encoder, so that the knowledge base can refuse another one.
    """
    kb.set_entities(source.entities())
    prototypes: List[Prototype] = list(source.prototypes())
    vectors = np.zeros((len(prototypes), kb.entity_vector_length), dtype=np.float32)
    with progress_bar(show=progress, total=len(prototypes), desc="Prototypes", unit=" views") as bar:
        for start in range(0, len(prototypes), BLOCK):
            block = prototypes[start : start + BLOCK]
            vectors[start : start + len(block)] = encode([prototype.view for prototype in block])
            bar.update(len(block))
    kb.add_prototypes(prototypes, vectors)
    if encoder is not None:
        kb.encoder = encoder
    return kb
