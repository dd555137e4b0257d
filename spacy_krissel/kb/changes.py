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
from .verdicts import NOTHING_SAID, NumberedVerdicts, Verdict, VerdictTable


def changed(snapshot: KBSnapshot, **parts: Any) -> KBSnapshot:
    """Return the snapshot with some fields replaced, marked as unsaved."""
    return replace(snapshot, source=None, saved=None, **parts)


def with_entities(snapshot: KBSnapshot, entities: EntityTable) -> KBSnapshot:
    """Return the snapshot with these entities.

    Raises KrisselError K515 if an entity with prototypes, or of a verdict, is missing.
    """
    prototypes, verdicts = snapshot.prototypes, snapshot.verdicts.compact()
    if len(prototypes) or prototypes.references is not None or len(verdicts):
        moved = entities.rows(list(snapshot.entity_ids))
        present = np.union1d(prototypes.by_entity.present, verdicts.used_entities())
        lost = present[moved[present] < 0]
        if len(lost):
            raise KrisselError(
                Errors.K515.format(count=len(lost), entity=snapshot.entity_ids[lost[0]])
            )
        prototypes = prototypes.with_entity_rows(moved, len(entities))
        verdicts = verdicts.with_entity_rows(moved)
    return changed(snapshot, entities=entities, prototypes=prototypes, verdict_table=verdicts)


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
    said: NumberedVerdicts = NOTHING_SAID,
) -> KBSnapshot:
    """Return the snapshot with these entities, prototypes and verdicts as its inactive ones.

    Raises the errors of `with_prototypes` and `with_verdicts`.
    """
    empty = PrototypeTable.empty(snapshot.width, snapshot.prototypes.dtype)
    inactive = KBSnapshot(entities, empty, snapshot.normalized)
    if prototypes:
        inactive = with_prototypes(inactive, prototypes, vectors, weights, None)
    if said.verdicts:
        inactive = with_verdicts(inactive, *said)
    return changed(snapshot, inactive=inactive if len(entities) else None)


def with_verdicts(
    snapshot: KBSnapshot,
    verdicts: Sequence[Verdict],
    vectors: Any,
    numbers: Sequence[int] | None = None,
) -> KBSnapshot:
    """Return the snapshot with more verdicts, and the vectors (n, d) of their views.

    numbers: their order among all verdicts, ascending; None: after all others.

    Raises KrisselError K503 (wrong width), K504 (NaN), K511 (another number of vectors), K535 (no
    verdict, unknown entity).
    """
    matrix = check_vectors(vectors, snapshot.width or None, "vectors of verdicts")
    if len(matrix) != len(verdicts):
        raise KrisselError(Errors.K511.format(prototypes=len(verdicts), vectors=len(matrix)))
    if not verdicts:
        return snapshot
    ids = sorted({id_ for each in verdicts for id_ in each.ids})
    rows = dict(zip(ids, snapshot.entities.rows(ids).tolist(), strict=True))
    for number, each in enumerate(verdicts):
        unknown = next((id_ for id_ in each.ids if rows[id_] < 0), None)
        problem = each.problem() or (unknown and f"the knowledge base has no '{unknown[:80]}'")
        if problem:
            raise KrisselError(Errors.K535.format(first=number, problem=problem))
    right, rejected = (
        [[rows[id_] for id_ in dict.fromkeys(own)] for own in sides]
        for sides in ([each.right for each in verdicts], [each.rejected for each in verdicts])
    )
    known = snapshot.verdicts
    if not known.n_rows:
        known = VerdictTable.empty(matrix.shape[1], snapshot.prototypes.dtype)
    if numbers is None:
        start = _next_number(snapshot)
        numbers = range(start, start + len(verdicts))
    table = known.appended(verdicts, right, rejected, snapshot.scaled(matrix), numbers)
    return changed(snapshot, verdict_table=table)


def without_verdicts(snapshot: KBSnapshot, removed: Mask) -> KBSnapshot:
    """Return the snapshot without the verdicts marked in `removed` (n_rows,)."""
    if not removed.any():
        return snapshot
    return changed(snapshot, verdict_table=snapshot.verdicts.removed(removed))


def _next_number(snapshot: KBSnapshot) -> int:
    """Return a number above those of all verdicts, inactive ones included."""
    parts = [snapshot] if snapshot.inactive is None else [snapshot, snapshot.inactive]
    return max(int(each.verdicts.numbers.max(initial=-1)) for each in parts) + 1


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
