"""Encode a source's prototypes into a knowledge base."""

from typing import Callable, List, Optional, Sequence

import numpy as np

from ..util.progress import progress_bar
from ..views import AnyParts, View
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
    references: Optional[AnyParts] = None,
    progress: bool = False,
) -> PrototypeKB:
    """Give the empty `kb` the entities, prototypes and references of `source`.

    encode: views → (n, width) float32.
    encoder: fingerprint of the encoder, so that the knowledge base can refuse another one.
    references: what stands in the references that the encoder was made for; None for an encoder of mentions alone.
    """
    kb.set_entities(source.entities())
    prototypes: List[Prototype] = list(source.prototypes())
    vectors = _encode_all([prototype.view for prototype in prototypes], encode, kb, "Prototypes", progress)
    kb.add_prototypes(prototypes, vectors)
    if references is not None and (source.use_references or source.reference_prototypes):
        found = list(source.references(references))
        vectors = _encode_all([view for _, view in found], encode, kb, "References", progress)
        if source.reference_prototypes:
            kb.add_prototypes([Prototype(entity, "reference", view) for entity, view in found], vectors)
        if source.use_references:
            kb.set_references([entity for entity, _ in found], vectors)
    if encoder is not None:
        kb.encoder = encoder
    return kb


def _encode_all(
    views: Sequence[View], encode: Callable[[Sequence[View]], np.ndarray], kb: PrototypeKB, title: str, progress: bool
) -> np.ndarray:
    vectors = np.zeros((len(views), kb.entity_vector_length), dtype=np.float32)
    with progress_bar(show=progress, total=len(views), desc=title, unit=" views") as bar:
        for start in range(0, len(views), BLOCK):
            block = views[start : start + BLOCK]
            vectors[start : start + len(block)] = encode(block)
            bar.update(len(block))
    return vectors
