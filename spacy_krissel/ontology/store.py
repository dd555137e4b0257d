"""The ontology store: entities on disk, found by row, id or name without loading them."""

from collections.abc import Iterable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Errors, KrisselError
from ..util.disk import coded_damage
from ..util.folding import canonical_name, fold_name
from ..util.manifest import Count, ManifestSchema, new_directory, read_manifest
from ..util.progress import progress_bar
from .entity import Entity, prefixes_of, spellings
from .hash_index import (
    INDEX_COLUMNS,
    Columns,
    count_ambiguous_ids,
    drop_duplicates,
    find_hash,
    read_columns,
    shared_groups,
    sort_by_hash,
    write_columns,
    write_indexed,
)
from .table import EntityFile, numbered_names

KIND = "ontology store"
VERSION = 4
ENTITIES = "entities.arrow"
NAMES = "names.arrow"
IDS = "ids.arrow"


class _InfoSchema(ManifestSchema):
    provenance: list[dict[str, Any]] = []  # noqa: RUF012 (pydantic copies it)


class StoreSchema(ManifestSchema):
    entities: Count
    info: _InfoSchema

    def required_files(self) -> list[str]:
        return [ENTITIES, NAMES, IDS]


class OntologyStore:
    """A memory-mapped directory of entities, written by `write_store`.

    Rows are numbered from 0 in the order of the source. A store is pickled as its path.

    verify: check the SHA-256 of every file, and the content of each part when it is first read.

    Raises KrisselError K001 to K004 (missing, not a store, another version, damaged), K109.
    """

    def __init__(self, path: str | Path, verify: bool = True) -> None:
        self.path = Path(path)
        self.manifest: dict[str, Any] = read_manifest(
            self.path, KIND, VERSION, verify=verify, schema=StoreSchema
        )
        self._verify = verify
        self._table = EntityFile(self.path / ENTITIES, verify)
        if len(self._table) != self.manifest["entities"]:
            raise self._damaged(
                ENTITIES, f"it has {len(self._table)} rows instead of {self.manifest['entities']}"
            )
        # Columns are sorted by hash, except "shared_in_order", which follows the order of `names`.
        self._names = self._columns(
            NAMES, {**INDEX_COLUMNS, "shared": np.uint8, "shared_in_order": np.uint8}
        )
        self._ids = self._columns(IDS, INDEX_COLUMNS)

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
    def ids(self) -> Iterator[str]:
        """Return the primary ids in row order."""
        return self.each("id")

    def primary_ids(self) -> pa.StringArray:
        """Return the primary ids in row order, as one array."""
        return self._table.ids()

    def each(self, field: str) -> Iterator[Any]:
        """Yield a field of every entity (`Entity`) in row order, as a text or a list of texts."""
        return self._table.each(field)

    def row(self, id: str) -> int | None:
        """Return the row of the entity with this primary or alternative id, in any spelling of its
        prefix (`ids.spellings`).

        Primary ids precede alternative ones; of several entities, the first one counts.
        """
        return next(self.rows_of(id), None)

    def rows_of(self, id: str) -> Iterator[int]:
        """Yield the rows of all entities with this id, in the order of `row`."""
        for spelling in spellings(id):
            for _, row in self._entries_of_id(spelling):
                yield row

    def owners(self, id: str) -> list[str]:
        """Return the primary ids of the entities that an id leads to: the one with this primary id,
        else all with this alternative id, sorted. Any spelling of its prefix is accepted.
        """
        for spelling in spellings(id):
            entries = self._entries_of_id(spelling)
            primary = [row for position, row in entries if not position]
            if rows := primary or [row for _, row in entries]:
                return sorted({self._table.id_at(row) for row in rows})
        return []

    def _entries_of_id(self, spelling: str) -> list[tuple[int, int]]:
        """Return position and row of each entity with exactly this id, primary ones first."""
        entries = find_hash(self._ids["hash"], spelling)
        found = [
            (int(self._ids["position"][entry]), int(self._ids["row"][entry])) for entry in entries
        ]
        return [
            (position, row)
            for position, row in sorted(found, key=lambda entry: (entry[0] > 0, entry[1]))
            if self._table.id_at(row, position) == spelling
        ]

    def rows(self, ids: pa.StringArray) -> np.ndarray:
        """Return the rows of many entities by primary or alternative id, (n,). Raises KrisselError
        K106 for an unknown id.
        """
        rows = (
            pc.index_in(ids, value_set=self.primary_ids())
            .fill_null(-1)
            .to_numpy(zero_copy_only=False)
            .astype(np.int64)
        )
        for i in np.flatnonzero(rows < 0).tolist():
            rows[i] = self.row(self.get(ids[i].as_py()).id)
        return rows

    def resolve(self, id: str) -> str | None:
        """Return the primary id for a primary or alternative id; None if no entity has it."""
        row = self.row(id)
        return None if row is None else self._table.id_at(row)

    def get(self, id: str) -> Entity:
        """Return the entity with this primary or alternative id. Raises KrisselError K106 if there
        is none.
        """
        row = self.row(id)
        if row is None:
            raise KrisselError(Errors.K106.format(path=self.path, id=id))
        return self._table.entity(row)

    def entity_at(self, row: int) -> Entity:
        """Return the entity in a row. Raises KrisselError K107 if there is no such row."""
        return self._table.entity(self._checked(row))

    def id_at(self, row: int) -> str:
        """Return the primary id in a row. Raises KrisselError K107 if there is no such row."""
        return self._table.id_at(self._checked(row))

    def find(self, name: str) -> list[str]:
        """Return the sorted primary ids of the entities with this name, folded (`fold_name`) or, if
        there is none, in canonical form (`canonical_name`).
        """
        return self._primary_ids(self._entries(name))

    # As `ontology.verify` asks, also of a knowledge base.
    with_name = find

    def names_of(self, id: str) -> tuple[str, ...]:
        """Return the names of an entity, the preferred one first. Raises KrisselError K106 for an
        unknown id.
        """
        return self.get(id).names

    @cached_property
    def id_prefixes(self) -> frozenset[str]:
        """Prefixes of the primary ids (`id_prefix`)."""
        return prefixes_of(self.ids)

    def inactive_name(self, id: str) -> None:
        """Return None: a store keeps no former entities."""

    def names(self, *, shared: bool | None = None) -> Iterator[tuple[int, str, bool]]:
        """Yield the distinct names of each entity: row, name in the spelling of the source, and
        whether it is the preferred one.

        shared: only names that several entities share (True), or that one entity has (False).
        """
        flags = iter(self._names["shared_in_order"])
        for row, (name, aliases) in enumerate(
            zip(self.each("name"), self.each("aliases"), strict=True)
        ):
            # Numbered names come first: zip must not consume a flag when the names end.
            for (position, text), flag in zip(numbered_names(name, aliases), flags, strict=False):
                if shared is None or flag == shared:
                    yield row, text, position == 0

    def shared_names(self) -> Iterator[tuple[str, list[str]]]:
        """Yield homonyms: each folded name of two or more entities with their sorted primary ids,
        in no particular order.
        """
        for folded, entries in shared_groups(self._names, self._table.folded_at):
            yield folded, self._primary_ids(entries)

    def homonym_entries(self) -> dict[str, np.ndarray]:
        """Return the names that several entities share, in the order of `names`, as columns of
        equal length.

        `row`; `position`: 0 for the preferred name, i for alias i - 1; `homonym`: a number for each
        folded name, from 0 and in no particular order.
        """
        rows, positions = self._names["row"], self._names["position"]
        homonyms = np.full(len(rows), -1, dtype=np.int32)
        for number, (_, entries) in enumerate(shared_groups(self._names, self._table.folded_at)):
            homonyms[entries] = number
        shared = np.flatnonzero(homonyms >= 0)
        shared = shared[np.lexsort((positions[shared], rows[shared]))]
        return {"row": rows[shared], "position": positions[shared], "homonym": homonyms[shared]}

    def may_be_shared(self, hashes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Check whether an entity in another row may have a name with the hash, for pairs of a hash
        and a row: (n,), (n,).

        RETURNS: a mask (n,). False: there is none. True: check with `find`.
        """
        order = np.argsort(hashes)  # Sorted hashes need a single pass through the index.
        starts, ends = (
            self._names["hash"].searchsorted(hashes[order], side) for side in ("left", "right")
        )
        found = ends > starts
        # A single entry belongs to another entity if its row differs.
        only = np.flatnonzero(ends - starts == 1)
        found[only] = self._names["row"][starts[only]] != rows[order[only]]
        result = np.empty_like(found)
        result[order] = found
        return result

    def _entries(self, name: str) -> list[int]:
        """Return the offsets in the name index of the names that `find` finds."""
        canonical, written = canonical_name(name), fold_name(name)
        equal, as_written = [], []
        for entry in find_hash(self._names["hash"], canonical):
            own = self._table.name_at(
                int(self._names["row"][entry]), int(self._names["position"][entry])
            )
            if fold_name(own) == written:
                as_written.append(entry)
            elif canonical_name(own) == canonical:
                equal.append(entry)
        return as_written or equal

    def _primary_ids(self, entries: list[int]) -> list[str]:
        return sorted(map(self._table.id_at, set(self._names["row"][entries].tolist())))

    def _checked(self, row: int) -> int:
        if not 0 <= row < len(self):
            raise KrisselError(Errors.K107.format(path=self.path, row=row, last=len(self) - 1))
        return row

    def _columns(self, file: str, expected: dict[str, Any]) -> Columns:
        with coded_damage(self.path / file, partial(self._damaged, file)):
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
    """Write entities to a store at `path` atomically, replacing an earlier store.

    One batch of entities, and 16 bytes per name and id, are held in memory. If several entities
    have the same id, the first is kept (KW102); an alternative id of several entities resolves to
    one of them (KW103, `OntologyStore.row`).

    info: kept in the manifest under "info"; must be JSON when the entities end.

    Raises KrisselError K005 (the path holds something else), K108 (an entity without id or name).
    """
    with new_directory(path, KIND, VERSION) as writer:
        target = writer.path / ENTITIES
        read = progress_bar(
            entities, show=progress, desc="ontology", unit=" entities", unit_scale=True
        )
        names, ids = write_indexed(read, target)
        sort_by_hash(ids)
        n_dropped = drop_duplicates(target, names, ids)
        table = EntityFile(target)
        n_ambiguous = count_ambiguous_ids(table, ids)
        order = sort_by_hash(names)
        shared = np.zeros(len(order), dtype=np.uint8)
        n_shared = 0
        for _, entries in shared_groups(names, table.folded_at):
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
    # The files were hashed when they were written.
    return OntologyStore(path, verify=False)
