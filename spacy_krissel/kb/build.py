"""Encode a source's prototypes into a knowledge base."""

from itertools import islice
from typing import Any, Callable, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar

import numpy as np

from ..util.progress import progress_bar
from ..views import AnyParts, View
from .prototype_kb import PrototypeKB
from .prototypes import Prototype
from .sources import PrototypeSource

# Views handed to the encoder at a time; it forms its own batches within.
BLOCK = 8_192
# Blocks added to the knowledge base at a time.
BLOCKS_ADDED = 8
Item = TypeVar("Item")


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
    # All are made twice, since a bar without an end says little of hours; what they are made of is never held at once.
    total = sum(1 for _ in source.prototypes()) if progress else None
    with progress_bar(show=progress, total=total, desc="Prototypes", unit=" views") as bar:
        for block, vectors in _encoded(source.prototypes(), lambda prototype: prototype.view, encode, kb, bar):
            kb.add_prototypes(block, vectors)
    if references is not None and (source.use_references or source.reference_prototypes):
        with progress_bar(show=progress, total=kb.n_entities, desc="References", unit=" views") as bar:
            encoded = _encoded(source.references(references), lambda item: item[1], encode, kb, bar)
            blocks = _as_prototypes(kb, encoded) if source.reference_prototypes else encoded
            by_entity = (([entity for entity, _ in found], vectors) for found, vectors in blocks)
            if source.use_references:
                kb.stream_references(by_entity)
            else:
                for _ in by_entity:
                    pass
    if encoder is not None:
        kb.encoder = encoder
    return kb


def _as_prototypes(
    kb: PrototypeKB, references: Iterable[Tuple[List[Tuple[str, View]], np.ndarray]]
) -> Iterator[Tuple[List[Tuple[str, View]], np.ndarray]]:
    """The same references, each block added to the prototypes on its way."""
    for found, vectors in references:
        kb.add_prototypes([Prototype(entity, "reference", view) for entity, view in found], vectors)
        yield found, vectors


def _encoded(
    items: Iterable[Item],
    view: Callable[[Item], View],
    encode: Callable[[Sequence[View]], np.ndarray],
    kb: PrototypeKB,
    bar: Any,
) -> Iterator[Tuple[List[Item], np.ndarray]]:
    """So many items at a time, and the vectors of their views."""
    stream = iter(items)
    while found := list(islice(stream, BLOCK * BLOCKS_ADDED)):
        vectors = np.empty((len(found), kb.entity_vector_length), dtype=np.float32)
        for start in range(0, len(found), BLOCK):
            block = found[start : start + BLOCK]
            vectors[start : start + len(block)] = encode([view(item) for item in block])
            bar.update(len(block))
        yield found, vectors
