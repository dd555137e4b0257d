"""The indexes of a store over names and ids: sorted 64-bit hashes, memory-mapped from an Arrow file.

Two texts may have the same hash: a lookup gives candidates, and the caller compares the texts themselves.
"""

import warnings
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from ..errors import KrisselWarning, Warnings
from ..util.hashing import stable_hash
from ..util.progress import progress_bar
from .entity import Entity
from .folding import fold_name
from .table import EntityTable, EntityTableWriter, copy_rows, id_at, name_at, numbered_names

INDEX_COLUMNS = {"hash": np.uint64, "row": np.uint32, "position": np.uint32}


class HashIndexBuilder:
    """Collects (hash, row, position) compactly: 16 bytes per entry."""

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._rows = array("I")
        self._positions = array("I")

    def add(self, text: str, row: int, position: int) -> None:
        self._hashes.append(stable_hash(text))
        self._rows.append(row)
        self._positions.append(position)

    def columns(self) -> dict[str, np.ndarray]:
        """`hash`, `row` and `position` in the order in which they were added."""
        return {
            "hash": np.array(self._hashes, dtype=np.uint64),
            "row": np.array(self._rows, dtype=np.uint32),
            "position": np.array(self._positions, dtype=np.uint32),
        }


def write_columns(columns: dict[str, np.ndarray], path: str | Path) -> None:
    """Write arrays of one length as one Arrow record batch."""
    batch = pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns))
    with pa.ipc.new_file(str(path), batch.schema) as writer:
        writer.write_batch(batch)


def read_columns(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of `write_columns`, memory-mapped. Raises whatever pyarrow and numpy do when the file is damaged."""
    with pa.memory_map(str(path)) as source:
        batch = pa.ipc.open_file(source).get_batch(0)
    # Of numbers without nulls, this is all that there is to check.
    batch.validate()
    return {name: batch.column(name).to_numpy() for name in batch.schema.names}


def find_hash(hashes: np.ndarray, text: str) -> range:
    """The places in the sorted `hashes` (n,) that hold the hash of `text`."""
    # A plain int above 2**63 would make numpy compare floats.
    value = np.uint64(stable_hash(text))
    start = int(hashes.searchsorted(value))
    end = start
    while end < len(hashes) and hashes[end] == value:
        end += 1
    return range(start, end)


def find_hashes(hashes: np.ndarray, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """For each of `texts`, the first place in the sorted `hashes` (n,) that holds its hash, n where none does; and
    whether there are more."""
    wanted = np.fromiter((stable_hash(text) for text in texts), dtype=np.uint64, count=len(texts))
    order = np.argsort(wanted)  # in their order, the search goes through the index once
    starts = np.empty(len(wanted), dtype=np.int64)
    starts[order] = hashes.searchsorted(wanted[order])
    found, more = (_holds(hashes, starts + step, wanted) for step in (0, 1))
    return np.where(found, starts, len(hashes)), found & more


def _holds(hashes: np.ndarray, places: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    inside = places < len(hashes)
    holds = np.zeros(len(places), dtype=bool)
    holds[inside] = hashes[places[inside]] == wanted[inside]
    return holds


def groups_across_rows(hashes: np.ndarray, rows: np.ndarray) -> list[range]:
    """Runs of equal values in the sorted `hashes` (n,) that hold more than one of `rows` (n,)."""
    if not len(hashes):
        return []
    starts = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
    mixed = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
    ends = np.append(starts[1:], len(hashes))
    return [range(start, end) for start, end in zip(starts[mixed].tolist(), ends[mixed].tolist(), strict=True)]


Columns = dict[str, np.ndarray]
IDS_SHOWN = 5


def write_entities(entities: Iterable[Entity], target: Path, progress: bool) -> tuple[Columns, Columns]:
    """Write the table; RETURNS: the columns of the name index and of the id index, in the order of the rows."""
    names, ids = HashIndexBuilder(), HashIndexBuilder()
    table = EntityTableWriter(target)
    try:
        for entity in progress_bar(entities, show=progress, desc="ontology", unit=" entities", unit_scale=True):
            row = table.append(entity)
            for position, name in numbered_names(entity.name, entity.aliases):
                names.add(fold_name(name), row, position)
            for position, id_ in enumerate((entity.id, *entity.alt_ids)):
                ids.add(id_, row, position)
    finally:
        table.close()
    return names.columns(), ids.columns()


def sort_by_hash(columns: Columns) -> np.ndarray:
    """Sort by hash, then position, then row, in place; RETURNS: the previous offset of each entry."""
    order = np.lexsort((columns["row"], columns["position"], columns["hash"]))
    _take(columns, order)
    return order


def drop_duplicates(target: Path, names: Columns, ids: Columns) -> int:
    """Remove all but the first of the entities with one id from the table and both indexes.

    ids: sorted by hash. RETURNS: how many were removed; warns KW102 of them.
    """
    table = EntityTable(target)
    primary = np.flatnonzero(ids["position"] == 0)
    keep = np.ones(len(table), dtype=bool)
    dropped: list[tuple[int, str]] = []
    for group in groups_across_rows(ids["hash"][primary], ids["row"][primary]):
        seen = set()
        for row in ids["row"][primary[group.start : group.stop]].tolist():
            id_ = table.value(row, "id")
            if id_ in seen:
                keep[row] = False
                dropped.append((row, id_))
            seen.add(id_)
    if not dropped:
        return 0
    shown = ", ".join(dict.fromkeys(id_ for _, id_ in sorted(dropped)[:IDS_SHOWN]))
    warnings.warn(Warnings.KW102.format(count=len(dropped), ids=shown), KrisselWarning, stacklevel=4)
    rest = target.with_suffix(".rest")
    copy_rows(target, rest, keep)
    rest.replace(target)
    new_rows = (np.cumsum(keep) - 1).astype(np.uint32)
    for columns in (names, ids):
        _take(columns, keep[columns["row"]])
        columns["row"] = new_rows[columns["row"]]
    return len(dropped)


def count_ambiguous_ids(table: EntityTable, ids: Columns) -> int:
    """How many ids, alternative for at least one, belong to several entities; KW103 names them."""
    ambiguous: list[str] = []
    for group in groups_across_rows(ids["hash"], ids["row"]):
        rows_by_id: dict[str, set] = {}
        for entry in group:
            row = int(ids["row"][entry])
            rows_by_id.setdefault(id_at(table, row, int(ids["position"][entry])), set()).add(row)
        ambiguous += [id_ for id_, rows in rows_by_id.items() if len(rows) > 1]
    if ambiguous:
        shown = ", ".join(sorted(ambiguous)[:IDS_SHOWN])
        warnings.warn(Warnings.KW103.format(count=len(ambiguous), ids=shown), KrisselWarning, stacklevel=4)
    return len(ambiguous)


def shared_groups(
    table: EntityTable, hashes: np.ndarray, rows: np.ndarray, positions: np.ndarray
) -> Iterator[tuple[str, list[int]]]:
    """Folded names of several entities, with their entries (offsets in the sorted index).

    Entries with one hash are distinguished by their names.
    """
    for group in groups_across_rows(hashes, rows):
        by_name: dict[str, list[int]] = {}
        for entry in group:
            folded = fold_name(name_at(table, int(rows[entry]), int(positions[entry])))
            by_name.setdefault(folded, []).append(entry)
        for folded, entries in by_name.items():
            if len({int(rows[entry]) for entry in entries}) > 1:
                yield folded, entries


def _take(columns: Columns, which: np.ndarray) -> None:
    for name, column in columns.items():
        columns[name] = column[which]
