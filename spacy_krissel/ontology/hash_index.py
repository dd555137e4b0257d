"""Building a store's table and its indexes over names and ids, compactly and in the order of arrival."""

import warnings
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Tuple

import numpy as np

from ..errors import KrisselWarning, Warnings
from ..util.progress import progress_bar
from .entity import Entity
from .folding import fold_name
from .hash_table import HashIndexBuilder, groups_across_rows
from .table import EntityTable, EntityTableWriter, copy_rows, id_at, name_at, numbered_names

Columns = Dict[str, np.ndarray]
IDS_SHOWN = 5


def write_entities(entities: Iterable[Entity], target: Path, progress: bool) -> Tuple[Columns, Columns]:
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
    """Sort by hash, then position, then row, in place; RETURNS: where each entry stood before."""
    order = np.lexsort((columns["row"], columns["position"], columns["hash"]))
    _take(columns, order)
    return order


def drop_duplicates(target: Path, names: Columns, ids: Columns) -> int:
    """Leave out all but the first of the entities with one id, from the table and both indexes.

    ids: sorted by hash. RETURNS: how many were left out, warned of by name (KW102).
    """
    table = EntityTable(target)
    primary = np.flatnonzero(ids["position"] == 0)
    keep = np.ones(len(table), dtype=bool)
    dropped: List[Tuple[int, str]] = []
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
    """How many ids, alternative for at least one, belong to several entities; warned of by name (KW103)."""
    ambiguous: List[str] = []
    for group in groups_across_rows(ids["hash"], ids["row"]):
        rows_by_id: Dict[str, set] = {}
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
) -> Iterator[Tuple[str, List[int]]]:
    """Folded names of several entities, with the entries (places in the sorted index) that bear them.

    Entries of one hash are told apart by their real names.
    """
    for group in groups_across_rows(hashes, rows):
        by_name: Dict[str, List[int]] = {}
        for entry in group:
            folded = fold_name(name_at(table, int(rows[entry]), int(positions[entry])))
            by_name.setdefault(folded, []).append(entry)
        for folded, entries in by_name.items():
            if len({int(rows[entry]) for entry in entries}) > 1:
                yield folded, entries


def _take(columns: Columns, which: np.ndarray) -> None:
    for name, column in columns.items():
        columns[name] = column[which]
