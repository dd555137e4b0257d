"""Changes of a knowledge base: each function makes a new snapshot from another one."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Errors, KrisselError
from ..index.growing import zeros
from ..index.protocol import Mask, Rows, Vectors, check_vectors
from .entity_columns import EntityTable
from .prototype_table import Prototype, PrototypeTable, References
from .snapshot import KBSnapshot


def changed(snapshot: KBSnapshot, **parts: Any) -> KBSnapshot:
    """Return the snapshot with some fields replaced, marked as unsaved."""
    return replace(snapshot, source=None, saved=None, **parts)


def with_entities(snapshot: KBSnapshot, entities: EntityTable) -> KBSnapshot:
    """Return the snapshot with these entities.

    Raises KrisselError K515 if an entity with prototypes is missing.
    """
    prototypes = snapshot.prototypes
    if len(prototypes) or prototypes.references is not None:
        moved = entities.rows(list(snapshot.entity_ids))
        present = prototypes.by_entity.present
        lost = present[moved[present] < 0]
        if len(lost):
            raise KrisselError(
                Errors.K515.format(count=len(lost), entity=snapshot.entity_ids[lost[0]])
            )
        prototypes = prototypes.with_entity_rows(moved, len(entities))
    return changed(snapshot, entities=entities, prototypes=prototypes)


def with_prototypes(
    snapshot: KBSnapshot,
    prototypes: Sequence[Prototype],
    vectors: Any,
    weights: np.ndarray,
    scratch: Path | None,
) -> KBSnapshot:
    """Return the snapshot with more prototypes.

    Their vectors (n, d) are multiplied by the weights (n,).

    Raises KrisselError K503 (wrong width), K504 (NaN), K510 (unknown entity), K511 (another number
    of vectors), K512 (unknown kind).
    """
    matrix = check_vectors(vectors, snapshot.width or None, "vectors of prototypes")
    if len(matrix) != len(prototypes):
        raise KrisselError(Errors.K511.format(prototypes=len(prototypes), vectors=len(matrix)))
    if not prototypes:
        return snapshot
    rows = _known_rows(snapshot, [prototype.entity for prototype in prototypes], Errors.K510)
    scaled = snapshot.scaled(matrix)
    if (weights != 1).any():
        scaled = scaled * weights[:, None].astype(scaled.dtype)
    together = _fix_width(snapshot, matrix.shape[1]).appended(rows, prototypes, scaled, scratch)
    return changed(snapshot, prototypes=together, is_indexed=False)


def with_references(
    snapshot: KBSnapshot,
    blocks: Iterable[tuple[Sequence[str], Any]],
    weight: float,
    scratch: Path | None,
) -> KBSnapshot:
    """Return the snapshot with only the references of `blocks`.

    blocks: pairs of entity ids and vectors (len(ids), d).
    weight: of the references, if none are in use.
    Raises KrisselError K503 (wrong width), K504 (NaN), K531 (another number of vectors), K532
    (unknown entity).
    """
    vectors: Vectors | None = None
    width = snapshot.width
    for ids, block in blocks:
        matrix = check_vectors(block, width or None, "vectors of references")
        if len(matrix) != len(ids):
            raise KrisselError(Errors.K531.format(entities=len(ids), vectors=len(matrix)))
        rows = _known_rows(snapshot, ids, Errors.K532)
        width = matrix.shape[1]
        if vectors is None:
            vectors = zeros((len(snapshot), width), snapshot.prototypes.dtype, scratch)
        vectors[rows] = snapshot.scaled(matrix)
    if vectors is None:
        return snapshot
    known = snapshot.prototypes.references
    references = References(vectors, weight if known is None else known.weight)
    return _without_index(
        snapshot, _fix_width(snapshot, width).with_references(references, scratch)
    )


def without_prototypes(
    snapshot: KBSnapshot, removed: Mask, removed_inactive: Mask | None = None
) -> KBSnapshot:
    """Return the snapshot without the prototypes marked in `removed` (n,), and without the inactive
    ones marked in `removed_inactive`."""
    inactive = snapshot.inactive
    if inactive is not None and removed_inactive is not None and removed_inactive.any():
        kept = changed(inactive, prototypes=inactive.prototypes.take(~removed_inactive))
        snapshot = changed(snapshot, inactive=kept)
    return (
        _without_index(snapshot, snapshot.prototypes.take(~removed)) if removed.any() else snapshot
    )


def with_inactive(
    snapshot: KBSnapshot,
    entities: EntityTable,
    prototypes: Sequence[Prototype],
    vectors: Any,
    weights: np.ndarray,
) -> KBSnapshot:
    """Return the snapshot with these entities and prototypes as its inactive ones.

    Raises the errors of `with_prototypes`.
    """
    empty = PrototypeTable.empty(snapshot.width, snapshot.prototypes.dtype)
    inactive = KBSnapshot(entities, empty, snapshot.normalized)
    if prototypes:
        inactive = with_prototypes(inactive, prototypes, vectors, weights, None)
    return changed(snapshot, inactive=inactive if len(entities) else None)


def _without_index(snapshot: KBSnapshot, prototypes: PrototypeTable) -> KBSnapshot:
    """Return the snapshot with these prototypes and no index."""
    return changed(snapshot, prototypes=prototypes, index=None, is_indexed=False)


def _fix_width(snapshot: KBSnapshot, width: int) -> PrototypeTable:
    """Return the prototypes, with the width set by the first vectors if nothing else set it."""
    return (
        snapshot.prototypes
        if snapshot.width
        else PrototypeTable.empty(width, snapshot.prototypes.dtype)
    )


def _known_rows(snapshot: KBSnapshot, ids: Sequence[str], error: str) -> Rows:
    rows = snapshot.entities.rows(ids)
    unknown = np.flatnonzero(rows < 0)
    if len(unknown):
        first = int(unknown[0])
        raise KrisselError(
            error.format(count=len(unknown), total=len(ids), entity=ids[first], first=first)
        )
    return rows
