"""Indexes of a store over names and ids: sorted 64-bit hashes, memory-mapped from an Arrow file.

Two texts may have the same hash: a lookup gives candidates, and the caller compares the texts
themselves.
"""

import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import compress
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..errors import KrisselWarning, Warnings
from ..util.folding import canonical_name
from ..util.hashing import stable_hash
from .entity import Entity
from .table import EntityFile, not_storable, numbered_names, write_table

Columns = dict[str, np.ndarray]
INDEX_COLUMNS = {"hash": np.uint64, "row": np.uint32, "position": np.uint32}
IDS_SHOWN = 5


class HashIndexBuilder:
    """Collects (hash, row, position) compactly: 16 bytes per entry."""

    def __init__(self) -> None:
        self._hashes, self._rows, self._positions = array("Q"), array("I"), array("I")

    def add(self, text: str, row: int, position: int) -> None:
        self._hashes.append(stable_hash(text))
        self._rows.append(row)
        self._positions.append(position)

    def columns(self) -> Columns:
        """Return `hash`, `row` and `position` in insertion order."""
        columns = zip(
            INDEX_COLUMNS.items(), (self._hashes, self._rows, self._positions), strict=True
        )
        return {name: np.array(column, dtype) for (name, dtype), column in columns}


def write_columns(columns: Columns, path: str | Path) -> None:
    """Write arrays of equal length as one Arrow record batch."""
    batch = pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns))
    with pa.ipc.new_file(str(path), batch.schema) as writer:
        writer.write_batch(batch)


def read_columns(path: str | Path) -> Columns:
    """Memory-map the arrays of `write_columns`. Raises errors of pyarrow and numpy for a damaged
    file.
    """
    with pa.memory_map(str(path)) as source:
        batch = pa.ipc.open_file(source).get_batch(0)
    # For numbers without nulls, this is a complete check.
    batch.validate()
    return {name: batch.column(name).to_numpy() for name in batch.schema.names}


def find_hash(hashes: np.ndarray, text: str) -> range:
    """Return the offsets of the hash of `text` in the sorted `hashes` (n,)."""
    # With a plain int above 2**63, numpy would compare floats.
    value = np.uint64(stable_hash(text))
    return range(int(hashes.searchsorted(value)), int(hashes.searchsorted(value, "right")))


def groups_across_rows(hashes: np.ndarray, rows: np.ndarray) -> list[range]:
    """Return runs of equal values in the sorted `hashes` (n,) that belong to more than one of
    `rows` (n,).
    """
    if not len(hashes):
        return []
    starts = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
    mixed = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
    ends = np.append(starts[1:], len(hashes))
    return [
        range(start, end)
        for start, end in zip(starts[mixed].tolist(), ends[mixed].tolist(), strict=True)
    ]


def write_indexed(entities: Iterable[Entity], target: Path) -> tuple[Columns, Columns]:
    """Write the table. RETURNS: the columns of the name index and of the id index, in row order.

    Raises KrisselError K108 as `write_table` does, and for an id or name that is not text.
    """
    names, ids = HashIndexBuilder(), HashIndexBuilder()

    def indexed() -> Iterator[Entity]:
        for row, entity in enumerate(entities):
            try:
                for position, name in numbered_names(entity.name, entity.aliases):
                    names.add(canonical_name(name), row, position)
                for position, id_ in enumerate((entity.id, *entity.alt_ids)):
                    ids.add(id_, row, position)
            except (AttributeError, TypeError) as error:
                # Check for numbers or NaN of a data frame here, since ontologies have millions of
                # entities.
                texts = (entity.id, entity.name, *entity.aliases, *entity.alt_ids)
                wrong = next((text for text in texts if not isinstance(text, str)), error)
                raise not_storable(
                    entity, row + 1, f"{wrong!r} is no text", "texts for ids and names"
                ) from error
            yield entity

    write_table(indexed(), target)
    return names.columns(), ids.columns()


def sort_by_hash(columns: Columns) -> np.ndarray:
    """Sort in place by hash, position and row. RETURNS: the previous offset of each entry."""
    order = np.lexsort((columns["row"], columns["position"], columns["hash"]))
    _select_rows(columns, order)
    return order


def drop_duplicates(target: Path, names: Columns, ids: Columns) -> int:
    """Keep only the first entity with each id in the table and both indexes.

    ids: sorted by hash. RETURNS: the number of removed entities; warns KW102 about them.
    """
    table = EntityFile(target)
    primary = {name: column[ids["position"] == 0] for name, column in ids.items()}
    dropped = {
        row: id_
        for id_, entries in shared_groups(primary, table.id_at)
        for row in primary["row"][entries[1:]]
    }
    if not dropped:
        return 0
    shown = ", ".join(dict.fromkeys(dropped[row] for row in sorted(dropped)[:IDS_SHOWN]))
    warnings.warn(
        Warnings.KW102.format(count=len(dropped), ids=shown), KrisselWarning, stacklevel=4
    )
    keep = np.ones(len(table), dtype=bool)
    keep[list(dropped)] = False
    rest = target.with_suffix(".rest")
    write_table(compress(table, keep), rest)
    rest.replace(target)
    new_rows = (np.cumsum(keep) - 1).astype(np.uint32)
    for columns in (names, ids):
        _select_rows(columns, keep[columns["row"]])
        columns["row"] = new_rows[columns["row"]]
    return len(dropped)


def count_ambiguous_ids(table: EntityFile, ids: Columns) -> int:
    """Count ids that belong to several entities and are alternative for at least one; warns
    KW103."""
    ambiguous = sorted(shared_groups(ids, table.id_at))
    if ambiguous:
        shown = ", ".join(
            f"{id_} (of {' and '.join(table.id_at(row) for row in sorted({*ids['row'][entries]}))})"
            for id_, entries in ambiguous[:IDS_SHOWN]
        )
        message = Warnings.KW103.format(count=len(ambiguous), ids=shown)
        warnings.warn(message, KrisselWarning, stacklevel=4)
    return len(ambiguous)


def shared_groups(
    columns: Columns, text_at: Callable[[int, int], str]
) -> Iterator[tuple[str, list[int]]]:
    """Yield texts of several rows in an index sorted by hash, with their entries (offsets in it).

    text_at: returns the text of a row and position, which distinguishes entries with the same hash.
    """
    rows, positions = columns["row"], columns["position"]
    for group in groups_across_rows(columns["hash"], rows):
        by_text: dict[str, list[int]] = {}
        for entry in group:
            by_text.setdefault(text_at(int(rows[entry]), int(positions[entry])), []).append(entry)
        for text, entries in by_text.items():
            if len({int(rows[entry]) for entry in entries}) > 1:
                yield text, entries


def _select_rows(columns: Columns, which: np.ndarray) -> None:
    for name, column in columns.items():
        columns[name] = column[which]
