"""Encoding of a source's prototypes into a knowledge base."""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

import numpy as np

from ..kb.prototype_kb import PrototypeKB
from ..kb.prototype_table import Prototype
from ..util.progress import progress_bar
from ..views import ReferenceParts, View
from .encoding import Encode, Encoders, VectorWork, encode_blocks
from .sources import PrototypeSource

# Views per call of the encoder, which forms its own batches.
BLOCK_VIEWS = 8_192
# Blocks per addition to the knowledge base.
BLOCKS_PER_ADD = 8
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
    """Fill the empty `kb` with the entities, prototypes and references of `source`.

    encode: views → (n, width) float32.
    encoder: fingerprint of the encoder, so that the knowledge base can refuse another one.
    references: the parts of a reference that the encoder was trained with; None for an encoder of
        mentions alone.
    encoders: encode the views; None: `encode` does, in this process.
    work: stores the vectors of an interrupted run for the next one.
    """
    kb.set_entities(source.entities(), details=source.details)
    kb.ontology = source.ontology.manifest["info"].get("provenance", [])
    kb.made_with = source.made_with
    encoders = encoders or Encoders(encode)
    if work is not None and kb.prototypes.dtype == "float16" and not kb.description()["normalized"]:
        work.dtype = "<f2"

    def vectors_of(
        items: Iterable[Item], view: Callable[[Item], View], name: str, total: int | None
    ) -> Iterator[tuple[list[Item], np.ndarray]]:
        """Yield items, several blocks at a time, with the vectors of their views."""
        some: list[tuple[list[Item], np.ndarray]] = []
        with progress_bar(show=progress, total=total, desc=name.capitalize(), unit=" views") as bar:
            for block, vectors in encode_blocks(
                _blocks(items), view, encoders, kb.entity_vector_length, work, name
            ):
                bar.update(len(block))
                some.append((block, vectors))
                if len(some) == BLOCKS_PER_ADD:
                    yield _concatenated(some)
                    some = []
            if some:
                yield _concatenated(some)

    def encoded_references(
        parts: ReferenceParts,
    ) -> Iterator[tuple[list[tuple[str, View]], np.ndarray]]:
        return vectors_of(
            source.references(parts), lambda each: each[1], "references", kb.n_entities
        )

    if references is not None and source.use_references:
        # First, so that only the sums are stored.
        kb.set_references(
            ([entity for entity, _ in some], vectors)
            for some, vectors in encoded_references(references)
        )
    # Count them in a first pass, since a progress bar without an end is of little use over hours.
    # They are never in memory at once.
    total = sum(1 for _ in source.prototypes()) if progress else None
    for prototypes, vectors in vectors_of(
        source.prototypes(), lambda each: each.view, "prototypes", total
    ):
        weights = [source.class_weight if each.kind == "class" else 1.0 for each in prototypes]
        kb.add_prototypes(prototypes, vectors, weight=weights)
    if references is not None and (source.reference_prototypes or source.mentions_only):
        known = kb.prototypes.references
        if known is not None:
            left = _blocks(_reference_prototypes(kb, source, references))
            blocks = (
                (some, known.vectors[kb.entities.rows([entity for entity, _ in some])])
                for some in left
            )
        else:
            blocks = encoded_references(references) if source.reference_prototypes else iter(())
        for some, vectors in blocks:
            kb.add_prototypes(
                [Prototype(entity, "reference", view) for entity, view in some], vectors
            )
    if encoder is not None:
        kb.encoder = encoder
    return kb


def _concatenated(some: list[tuple[list[Item], np.ndarray]]) -> tuple[list[Item], np.ndarray]:
    return [item for items, _ in some for item in items], np.concatenate(
        [vectors for _, vectors in some]
    )


def _blocks(items: Iterable[Item]) -> Iterator[list[Item]]:
    stream = iter(items)
    # Ends with the first empty block.
    return iter(lambda: list(islice(stream, BLOCK_VIEWS)), [])


def _reference_prototypes(
    kb: PrototypeKB, source: PrototypeSource, parts: ReferenceParts
) -> Iterator[tuple[str, View]]:
    """Yield the references that become prototypes.

    These are all, or with `mentions_only` those of entities without a prototype.
    """
    has_prototype = np.zeros(kb.n_entities, dtype=bool)
    if not source.reference_prototypes:
        has_prototype[kb.prototypes.entity_rows] = True
    for entity, view in source.references(parts):
        if not has_prototype[kb.entities.row(entity)]:
            yield entity, view
