"""Encode a source's prototypes into a knowledge base."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from ...util.progress import progress_bar
from ...views import ReferenceParts, View
from ..prototype_kb import PrototypeKB
from ..prototype_table import Prototype
from .encoding import Encode, Encoders, Here, VectorWork, encoded
from .sources import PrototypeSource

# Views handed to the encoder at a time; it forms its own batches within.
BLOCK = 8_192
# Blocks added to the knowledge base at a time.
BLOCKS_ADDED = 8
Item = TypeVar("Item")


def fill_kb(
    kb: PrototypeKB,
    source: PrototypeSource,
    encode: Encode,
    *,
    encoder: str | None = None,
    references: ReferenceParts | None = None,
    progress: bool = False,
    encoders: Encoders | None = None,
    work: VectorWork | None = None,
) -> PrototypeKB:
    """Give the empty `kb` the entities, prototypes and references of `source`.

    encode: views → (n, width) float32.
    encoder: fingerprint of the encoder, so that the knowledge base can refuse another one.
    references: what stands in the references that the encoder was made for; None for an encoder of mentions alone.
    encoders: where the views are encoded; None: here, by `encode`.
    work: keeps the vectors of an interrupted run, for the next one.
    """
    kb.set_entities(source.entities())
    # All are made twice, since a bar without an end says little of hours; what they are made of is never held at once.
    total = sum(1 for _ in source.prototypes()) if progress else None
    encoded_items = partial(_encoded, encoders=encoders or Here(encode), kb=kb, work=work)
    with progress_bar(show=progress, total=total, desc="Prototypes", unit=" views") as bar:
        prototypes = source.prototypes()
        for block, vectors in encoded_items(prototypes, lambda prototype: prototype.view, bar=bar, name="prototypes"):
            kb.add_prototypes(block, vectors)
    if references is not None and (source.use_references or source.reference_prototypes):
        with progress_bar(show=progress, total=kb.n_entities, desc="References", unit=" views") as bar:
            found = encoded_items(source.references(references), lambda item: item[1], bar=bar, name="references")
            blocks = _as_prototypes(kb, found) if source.reference_prototypes else found
            by_entity = (([entity for entity, _ in items], vectors) for items, vectors in blocks)
            if source.use_references:
                kb.set_references(by_entity)
            else:
                for _ in by_entity:
                    pass
    if encoder is not None:
        kb.encoder = encoder
    return kb


def _as_prototypes(
    kb: PrototypeKB, references: Iterable[tuple[list[tuple[str, View]], np.ndarray]]
) -> Iterator[tuple[list[tuple[str, View]], np.ndarray]]:
    """The same references, each block added to the prototypes on its way."""
    for found, vectors in references:
        kb.add_prototypes([Prototype(entity, "reference", view) for entity, view in found], vectors)
        yield found, vectors


def _encoded(
    items: Iterable[Item],
    view: Callable[[Item], View],
    *,
    encoders: Encoders,
    kb: PrototypeKB,
    work: VectorWork | None,
    bar: Any,
    name: str,
) -> Iterator[tuple[list[Item], np.ndarray]]:
    """So many items at a time, and the vectors of their views."""
    blocks = _counted(encoded(_blocks(items), view, encoders, kb.entity_vector_length, work, name), bar)
    while some := list(islice(blocks, BLOCKS_ADDED)):
        yield [item for block, _ in some for item in block], np.concatenate([vectors for _, vectors in some])


def _blocks(items: Iterable[Item]) -> Iterator[list[Item]]:
    stream = iter(items)
    while block := list(islice(stream, BLOCK)):
        yield block


def _counted(blocks: Iterator[tuple[list[Item], np.ndarray]], bar: Any) -> Iterator[tuple[list[Item], np.ndarray]]:
    for block, vectors in blocks:
        bar.update(len(block))
        yield block, vectors
