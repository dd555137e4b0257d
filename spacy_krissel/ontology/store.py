"""The ontology store: entities on disk, found by row, id or name without loading them."""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Errors, KrisselError
from ..util.disk import damage
from ..util.manifest import Count, Shape, new_directory, read_manifest
from .entity import Entity
from .folding import fold_name
from .hash_index import (
    INDEX_COLUMNS,
    count_ambiguous_ids,
    drop_duplicates,
    find_hash,
    find_hashes,
    read_columns,
    shared_groups,
    sort_by_hash,
    write_columns,
    write_entities,
)
from .ids import spellings
from .table import EntityTable, Ids, id_at, lists_of, name_at, numbered_names

KIND = "ontology store"
VERSION = 2
ENTITIES = "entities.arrow"
NAMES = "names.arrow"
IDS = "ids.arrow"


class InfoShape(Shape):
    provenance: list[dict[str, Any]] = []


class StoreShape(Shape):
    entities: Count
    info: InfoShape

    def needs(self) -> list[str]:
        return [ENTITIES, NAMES, IDS]


class OntologyStore:
    """A memory-mapped directory of entities. Writing one: `write_store`.

    Rows are numbered from 0 in the order of the source. A store can be pickled: its path is.

    verify: check the SHA-256 of every file, and what is in each part when it is first read.
    Raises KrisselError K001 to K004 (missing, not a store, of another version, damaged), K109.
    """

    def __init__(self, path: str | Path, verify: bool = True) -> None:
        self.path = Path(path)
        self.manifest: dict[str, Any] = read_manifest(self.path, KIND, VERSION, verify=verify, shape=StoreShape)
        self._verify = verify
        self._table = EntityTable(self.path / ENTITIES, verify)
        if len(self._table) != self.manifest["entities"]:
            raise self._damaged(ENTITIES, f"it has {len(self._table)} rows instead of {self.manifest['entities']}")
        # Sorted by hash: which row, and which of its names (0: the canonical one, i: alias i - 1) or ids.
        names = self._columns(NAMES, {**INDEX_COLUMNS, "shared": np.uint8, "shared_in_order": np.uint8})
        self._name_hashes, self._name_rows, self._name_positions = names["hash"], names["row"], names["position"]
        self._name_shared = names["shared"]
        # In the order of the rows instead, for `names`.
        self._shared_in_order = names["shared_in_order"]
        ids = self._columns(IDS, INDEX_COLUMNS)
        self._id_hashes, self._id_rows, self._id_positions = ids["hash"], ids["row"], ids["position"]

    def __reduce__(self) -> tuple[Any, ...]:
        return OntologyStore, (str(self.path.absolute()), self._verify)

    def __repr__(self) -> str:
        return f"OntologyStore({str(self.path)!r}, {len(self)} entities)"

    def __len__(self) -> int:
        return len(self._table)

    def __iter__(self) -> Iterator[Entity]:
        return iter(self._table)

    def __contains__(self, id: object) -> bool:
        return isinstance(id, str) and self.row(id) is not None

    @property
    def ids(self) -> Ids:
        """The primary ids by row."""
        return Ids(self._table)

    def row(self, id: str) -> int | None:
        """The row of the entity with this primary or alternative id, in any spelling of its prefix (`ids.spellings`).

        Primary ids precede alternative ones, and the first of several entities the others.
        """
        for spelling in spellings(id):
            for entry in find_hash(self._id_hashes, spelling):
                row, position = int(self._id_rows[entry]), int(self._id_positions[entry])
                if id_at(self._table, row, position) == spelling:
                    return row
        return None

    def resolve(self, id: str) -> str | None:
        """The primary id for a primary or alternative id, or None when no entity has it."""
        row = self.row(id)
        return None if row is None else self._table.value(row, "id")

    def rows(self, ids: Sequence[str]) -> np.ndarray:
        """`row` of each of `ids` (n,), -1 where no entity has it; many at once are far faster than one by one."""
        rows = np.full(len(ids), -1, dtype=np.int64)
        pending, texts = np.arange(len(ids)), list(ids)
        n_tried = 0
        while len(pending):
            entries, more = find_hashes(self._id_hashes, texts)
            hits = np.flatnonzero(entries < len(self._id_hashes))
            found = self._id_rows[entries[hits]].astype(np.int64)
            plain = (self._id_positions[entries[hits]] == 0) & ~more[hits]
            primary = self._table.values(found, "id")
            for i, row, is_plain, id_ in zip(hits.tolist(), found.tolist(), plain.tolist(), primary, strict=True):
                if is_plain and id_ == texts[i]:
                    rows[pending[i]] = row
                else:
                    # An alternative id, or one that shares its hash.
                    found_row = self.row(ids[pending[i]])
                    rows[pending[i]] = -1 if found_row is None else found_row
            # The others may be spelled in another way.
            n_tried += 1
            rest = [(i, spellings(ids[i])[n_tried:]) for i in np.delete(pending, hits).tolist()]
            pending = np.array([i for i, others in rest if others], dtype=np.int64)
            texts = [others[0] for _, others in rest if others]
        return rows

    def resolve_all(self, ids: Sequence[str]) -> list[str | None]:
        """`resolve` of each of `ids`; many at once are far faster than one by one."""
        rows = self.rows(ids)
        found: list[str | None] = [None] * len(ids)
        known = np.flatnonzero(rows >= 0)
        for i, id_ in zip(known.tolist(), self._table.values(rows[known], "id"), strict=True):
            found[i] = id_
        return found

    def get(self, id: str) -> Entity:
        """The entity with this primary or alternative id. Raises KrisselError K106 when there is none."""
        row = self.row(id)
        if row is None:
            raise KrisselError(Errors.K106.format(path=self.path, id=id))
        return self._table.entity(row)

    def entity_at(self, row: int) -> Entity:
        """Raises KrisselError K107 when there is no such row."""
        return self._table.entity(self._checked(row))

    def types_at(self, row: int) -> tuple[str, ...]:
        """The semantic types of the entity in a row. Raises KrisselError K107 when there is no such row."""
        return tuple(self._table.value(self._checked(row), "types"))

    def find(self, name: str) -> list[str]:
        """The primary ids, sorted, of the entities with a name that folds to the same."""
        rows = {int(self._name_rows[entry]) for entry in self._entries(fold_name(name))}
        return sorted(self._table.value(row, "id") for row in rows)

    def is_shared(self, name: str) -> bool:
        """Whether two or more entities share this name, folded."""
        # The same for every entry of one folded name.
        return any(self._name_shared[entry] for entry in islice(self._entries(fold_name(name)), 1))

    def names(self, *, shared: bool | None = None) -> Iterator[tuple[int, str, bool]]:
        """Each entity's different names: row, name as the source spells it, and whether it is the preferred one.

        shared: only names that several entities share (True), or that one entity has (False).
        """
        entry = 0
        row = 0
        flags = self._shared_in_order
        for batch in self._table.batches():
            for name, aliases in zip(batch.column("name").to_pylist(), lists_of(batch, "aliases"), strict=True):
                for position, text in numbered_names(name, aliases):
                    if shared is None or flags[entry] == shared:
                        yield row, text, position == 0
                    entry += 1
                row += 1

    def shared_names(self) -> Iterator[tuple[str, list[str]]]:
        """Homonyms: each folded name of two or more entities with their primary ids, sorted; in no particular order."""
        for folded, entries in shared_groups(self._table, self._name_hashes, self._name_rows, self._name_positions):
            rows = set(self._name_rows[entries].tolist())
            yield folded, sorted(self._table.value(row, "id") for row in rows)

    def homonym_entries(self) -> dict[str, np.ndarray]:
        """The names that several entities share, in the order of `names`, as columns of one length.

        `row`; `position`: 0 for the preferred name, i for alias i - 1; `homonym`: a number for each folded name, from 0
        and in no particular order.
        """
        homonyms = np.full(len(self._name_hashes), -1, dtype=np.int32)
        groups = shared_groups(self._table, self._name_hashes, self._name_rows, self._name_positions)
        for number, (_, entries) in enumerate(groups):
            homonyms[entries] = number
        shared = np.flatnonzero(homonyms >= 0)
        shared = shared[np.lexsort((self._name_positions[shared], self._name_rows[shared]))]
        columns = {"row": self._name_rows, "position": self._name_positions, "homonym": homonyms}
        return {name: column[shared] for name, column in columns.items()}

    def may_be_shared(self, hashes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Whether an entity in another row may have a name with the hash, for pairs of a hash and a row: (n,), (n,).

        RETURNS: a mask (n,). False: there is none. True: `find` decides.
        """
        order = np.argsort(hashes)  # in their order, the search goes through the index once
        starts = np.empty(len(hashes), dtype=np.int64)
        starts[order] = self._name_hashes.searchsorted(hashes[order])
        # Another's is the first entry of the hash, or there is a second one.
        found = np.zeros(len(hashes), dtype=bool)
        for place in (starts, starts + 1):
            inside = np.flatnonzero(place < len(self._name_hashes))
            equal = self._name_hashes[place[inside]] == hashes[inside]
            found[inside] |= equal & ((self._name_rows[place[inside]] != rows[inside]) | (place is not starts))
        return found

    def each_species(self) -> Iterator[str]:
        """`Entity.species` by row."""
        for batch in self._table.batches():
            yield from batch.column("species").to_pylist()

    def _entries(self, folded: str) -> Iterator[int]:
        """The places in the name index of the names that fold to this one."""
        for entry in find_hash(self._name_hashes, folded):
            if fold_name(name_at(self._table, int(self._name_rows[entry]), int(self._name_positions[entry]))) == folded:
                yield entry

    def _checked(self, row: int) -> int:
        if not 0 <= row < len(self):
            raise KrisselError(Errors.K107.format(path=self.path, row=row, last=len(self) - 1))
        return row

    def _columns(self, file: str, expected: dict[str, Any]) -> dict[str, np.ndarray]:
        with damage(self.path / file, partial(self._damaged, file)):
            columns = read_columns(self.path / file)
            if {name: column.dtype for name, column in columns.items()} != expected:
                raise self._damaged(file, f"its columns are {', '.join(columns)}")
            if self._verify and len(columns["row"]) and columns["row"].max() >= len(self):
                raise self._damaged(file, f"it names rows from {len(self)} up")
        return columns

    def _damaged(self, file: str, problem: object) -> KrisselError:
        return KrisselError(Errors.K109.format(file=file, path=self.path, problem=problem))


def write_store(
    entities: Iterable[Entity],
    path: str | Path,
    *,
    info: dict[str, Any] | None = None,
    progress: bool = False,
) -> OntologyStore:
    """Write entities to a store at `path`, all or nothing, replacing an earlier store there.

    In memory are one batch of entities and 16 bytes for each name and id. Of several entities with one id the first is
    kept (KW102); an alternative id of several entities stands for one of them (KW103, `OntologyStore.row`).

    info: kept in the manifest under "info"; must be JSON by the time the entities end.
    Raises KrisselError K005 (the path holds something else), K108 (an entity without id or name).
    """
    with new_directory(path, KIND, VERSION) as writer:
        target = writer.path / ENTITIES
        names, ids = write_entities(entities, target, progress)
        sort_by_hash(ids)
        n_dropped = drop_duplicates(target, names, ids)
        table = EntityTable(target)
        n_ambiguous = count_ambiguous_ids(table, ids)
        order = sort_by_hash(names)
        shared = np.zeros(len(order), dtype=np.uint8)
        n_shared = 0
        for _, entries in shared_groups(table, names["hash"], names["row"], names["position"]):
            shared[entries] = 1
            n_shared += 1
        in_order = np.zeros_like(shared)
        in_order[order] = shared
        write_columns({**names, "shared": shared, "shared_in_order": in_order}, writer.path / NAMES)
        write_columns(ids, writer.path / IDS)
        writer.info.update(
            entities=len(table),
            names=len(order),
            shared_names=n_shared,
            alternative_ids=len(ids["hash"]) - len(table),
            ambiguous_alternative_ids=n_ambiguous,
            duplicate_ids_dropped=n_dropped,
            info=dict(info or {}),
        )
    # It was hashed when it was written.
    return OntologyStore(path, verify=False)
