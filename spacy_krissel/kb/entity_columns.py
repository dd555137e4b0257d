"""Entities of a knowledge base, columnar and memory-mapped."""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Errors, KrisselError
from ..index.protocol import Mask, Rows
from ..lexical.ngrams import canonical_form, hashed
from ..ontology.entity import Entity, prefixes_of, spellings
from ..ontology.table import LISTS
from ..ontology.table import SCHEMA as WHOLE
from ..util.lock import Lock, once
from ..util.memory import Remembered
from .columns import BATCH_ROWS, check_table, on_disk, read_table, take_rows, write_table

FILE, DETAILS_FILE = "entities.arrow", "details.arrow"
LIST = pa.list_(pa.string())
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("types", LIST),
        ("alt_ids", LIST),
        ("species", pa.string()),
    ]
)
# The other fields of `Entity`, which search does not read, in a file of their own.
DETAILS = pa.schema([field for field in WHOLE if field.name not in SCHEMA.names])
# Minimum number of ids for which one hash table over all entities is faster than a search for each.
MANY_IDS = 1000


class StringColumn(Sequence[str]):
    """Column of strings, each read on access."""

    def __init__(self, column: pa.ChunkedArray) -> None:
        self._column = column

    def __len__(self) -> int:
        return len(self._column)

    def __getitem__(self, row: Any) -> Any:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        return self._column[int(row)].as_py()

    def __iter__(self) -> Iterator[str]:
        for chunk in self._column.chunks:
            yield from chunk.to_pylist()

    def take(self, rows: Any) -> list[str]:
        """Return the strings at `rows`, an array of any shape, flattened."""
        return take_rows(pa.table([self._column], [""]), rows).column(0).to_pylist()


class EntityTable:
    """Entities in the order of their ids, so that a lower row is also the lower id."""

    def __init__(
        self,
        table: pa.Table | None = None,
        details: pa.Table | None = None,
        unchecked: Path | None = None,
    ) -> None:
        """Wrap the tables of the entities.

        table: of `SCHEMA`. details: of `DETAILS`, in the same order; None: there are none.
            unchecked: the file of details whose contents were not checked.
        """
        self.table = SCHEMA.empty_table() if table is None else table
        self.details = details
        self.ids = StringColumn(self.table.column("id"))
        self.names = StringColumn(self.table.column("name"))
        self._unchecked = unchecked
        self._lock = Lock()

    @classmethod
    def from_entities(
        cls, entities: Iterable[Any], *, details: bool = True, scratch: Path | None = None
    ) -> "EntityTable":
        """Build a table from entities.

        entities: see `PrototypeKB.set_entities`. scratch: a folder for unnamed files with the
            details; None: in memory.
        Raises KrisselError K513 (an id twice), K514 (an empty id).
        """
        tables, others, stream = [SCHEMA.empty_table()], [DETAILS.empty_table()], iter(entities)

        def kept(part: pa.Table) -> pa.Table:
            return part if scratch is None else on_disk(part, scratch)

        # As Python objects, millions of entities would take gigabytes.
        while batch := list(islice(stream, BATCH_ROWS)):
            for number, entity in enumerate(batch, sum(map(len, tables))):
                if not entity.id:
                    raise KrisselError(Errors.K514.format(first=number, name=entity.name))
            tables.append(_columns(batch, SCHEMA))
            if details:
                others.append(kept(_columns(batch, DETAILS)))
        table = pa.concat_tables(tables).combine_chunks()
        # In code point order, like Python's: the order of UTF-8 bytes is the same.
        order = pc.sort_indices(table.column("id"))
        table = table.take(order)
        ids = table.column("id")
        repeated = ids[1:].filter(pc.equal(ids[1:], ids[:-1])) if len(ids) > 1 else ids[:0]
        if len(repeated):
            raise KrisselError(Errors.K513.format(count=len(repeated.unique()), entity=repeated[0]))
        if not details or not len(table):
            return cls(table)
        whole, rows = pa.concat_tables(others), order.to_numpy().astype(np.int64)
        parts = [
            kept(take_rows(whole, rows[start : start + BATCH_ROWS]))
            for start in range(0, len(rows), BATCH_ROWS)
        ]
        return cls(table, pa.concat_tables(parts))

    @classmethod
    def from_disk(
        cls, directory: Path, rows: int, *, details: bool, verify: bool = True
    ) -> "EntityTable":
        """Read the table from the folder `directory`.

        The searched fields are always checked whole, since Arrow follows damaged offsets of lists.
        details: True if there are any; without `verify` they are checked in part when first read.
        Raises KrisselError K524.
        """
        table, path = read_table(directory / FILE, SCHEMA, rows), directory / DETAILS_FILE
        if not details:
            return cls(table)
        return cls(table, read_table(path, DETAILS, rows, verify=verify), None if verify else path)

    def to_disk(self, directory: Path) -> None:
        write_table(self.table, directory / FILE)
        if self.details is not None:
            write_table(self.details, directory / DETAILS_FILE)

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, row: int) -> Entity:
        """Return the entity at `row`; without details, only its searched fields."""
        found = take_rows(self.table, [row]).to_pylist()[0]
        if self.details is not None:
            if self._unchecked is not None:
                check_table(self.details, self._unchecked, row)
            found.update(take_rows(self.details, [row]).to_pylist()[0])
        fields: dict[str, Any] = {
            name: tuple(each) if isinstance(each, list) else each for name, each in found.items()
        }
        return Entity(**fields)

    def __iter__(self) -> Iterator[Entity]:
        """Yield the entities by row; without details, only their searched fields."""
        columns = (
            map(tuple, self.each(name)) if name in LISTS else self.each(name)
            for name in Entity.__dataclass_fields__
        )
        yield from map(Entity, *columns)

    def display_fields(self, rows: Rows) -> tuple[list[str], list[str]]:
        """Return the ids and the names of the entities at `rows` (n,)."""
        taken = take_rows(self.table.select(["id", "name"]), rows)
        return taken.column(0).to_pylist(), taken.column(1).to_pylist()

    def label_hashes(self, rows: Rows) -> Rows:
        """Return the hash of the canonical form of the preferred name of the entities at `rows`
        (n,). Each is computed once, at the first call for it.
        """
        known, hashes = self._label_hashes
        if len(new := np.unique(rows[~known[rows]])):
            hashes[new] = hashed([*map(canonical_form, self.names.take(new))])
            known[new] = True
        return hashes[rows]

    @once
    def _label_hashes(self) -> tuple[Mask, Rows]:
        return np.zeros(len(self), dtype=bool), np.zeros(len(self), dtype=np.int64)

    def each(self, field: str) -> Iterator[Any]:
        """Yield a field of every entity by row, a text or a list of texts; empty without
        details."""
        table = self.table if field in SCHEMA.names else self.details
        if table is None:
            empty: Any = [] if pa.types.is_list(DETAILS.field(field).type) else ""
            yield from repeat(empty, len(self))
            return
        for chunk in table.column(field).chunks:
            yield from chunk.to_pylist()

    def row(self, entity: str) -> int | None:
        found = bisect.bisect_left(self.ids, entity)
        return found if found < len(self) and self.ids[found] == entity else None

    def resolve(self, entity: str) -> int | None:
        """Return the row of a primary or alternative id, in any usual spelling (`ids.spellings`).

        Primary ids win, then the lowest row.
        """
        for spelling in spellings(entity):
            found = self.row(spelling)
            if found is None:
                found = self._alternatives.get(spelling)
            if found is not None:
                return found
        return None

    def resolve_replaced(self, entity: str) -> int | None:
        """Return what `resolve` does, but None for an alternative id of several entities, such as
        one that was split: only a person can choose."""
        found, spelt = self.resolve(entity), spellings(entity)
        if found is None or self.ids[found] in spelt or self._shared_alternatives.isdisjoint(spelt):
            return found
        return None

    def owners(self, entity: str) -> list[str]:
        """Return the ids of the entities that an id leads to, as `OntologyStore.owners`."""
        row = self.resolve_replaced(entity)
        if row is not None:
            return [self.ids[row]]
        if self.resolve(entity) is None:
            return []
        column = self.table.column("alt_ids").combine_chunks()
        is_it = pc.is_in(pc.list_flatten(column), value_set=pa.array(spellings(entity)))
        return self.ids.take(pc.unique(pc.list_parent_indices(column).filter(is_it)))

    @once
    def id_prefixes(self) -> frozenset[str]:
        """Prefixes of the ids (`id_prefix`)."""
        return prefixes_of(self.ids)

    @once
    def species(self) -> tuple[Rows, list[str]]:
        """Return the species of each entity by number (len(self),), and all species
        (`Entity.species`).
        """
        coded = self.table.column("species").combine_chunks().dictionary_encode()
        return coded.indices.to_numpy(zero_copy_only=False).astype(
            np.int64
        ), coded.dictionary.to_pylist()

    @once
    def _alternatives(self) -> dict[str, int]:
        column = self.table.column("alt_ids").combine_chunks()
        owners, ids = (
            pc.list_parent_indices(column).to_pylist(),
            pc.list_flatten(column).to_pylist(),
        )
        # Reversed, so that the lowest row is written last.
        return dict(zip(reversed(ids), reversed(owners), strict=True))

    @once
    def _shared_alternatives(self) -> frozenset[str]:
        """Return the alternative ids of several entities."""
        column = self.table.column("alt_ids").combine_chunks()
        pairs = pa.table([pc.list_parent_indices(column), pc.list_flatten(column)], ["row", "id"])
        counts = pairs.group_by("id").aggregate([("row", "count_distinct")])
        shared = counts.filter(pc.greater(counts.column("row_count_distinct"), 1))
        return frozenset(shared.column("id").to_pylist())

    def rows(self, entities: Sequence[str]) -> Rows:
        """Return the row of each id, -1 for unknown ids: (len(entities),)."""
        if len(entities) < max(1, MANY_IDS):
            found = [self.row(entity) for entity in entities]
            return np.array([-1 if row is None else row for row in found], dtype=np.int64)
        # Search only the range that the ids span: millions of prototypes are added entity by
        # entity.
        first = bisect.bisect_left(self.ids, min(entities))
        spanned = self.table.column("id")[
            first : bisect.bisect_right(self.ids, max(entities))
        ].combine_chunks()
        indices = pc.index_in(pa.array(entities, pa.string()), value_set=spanned)
        found = pc.fill_null(indices, -1 - first).to_numpy(zero_copy_only=False).astype(np.int64)
        return found + first

    def mask(self, types: Iterable[str]) -> Mask:
        """Return the mask of the entities with one of these types: (len(self),).

        Raises KrisselError K525 for a type that no entity has.
        """
        wanted = sorted(set(types))
        column = self.table.column("types").combine_chunks()
        owner = np.asarray(pc.list_parent_indices(column))
        values = pc.list_flatten(column)
        known = set(pc.unique(values).to_pylist())
        unknown = [type_ for type_ in wanted if type_ not in known]
        if unknown:
            raise self.unknown("types", unknown, sorted(known))
        mask = np.zeros(len(self), dtype=bool)
        mask[
            owner[
                pc.is_in(values, value_set=pa.array(wanted, pa.string())).to_numpy(
                    zero_copy_only=False
                )
            ]
        ] = True
        return mask

    def known_rows(self, entities: Sequence[str]) -> list[int]:
        """Return the rows of those ids that are here. Answers are remembered."""
        return [row for row in map(self._row_of, entities) if row >= 0]

    def _row_of(self, entity: str) -> int:
        found = self._rows_by_id.get(entity)
        if found is None:
            row = self.resolve(entity)
            found = self._rows_by_id[entity] = -1 if row is None else row
        return found

    @once
    def _rows_by_id(self) -> Remembered[str, int]:
        return Remembered()

    def unknown(
        self, what: str, unknown: Sequence[str], known: Sequence[str] | None = None
    ) -> KrisselError:
        known = self.ids if known is None else known
        some = ", ".join(known[:5]) or "none"
        message = Errors.K525.format(
            count=len(unknown), what=what, first=unknown[0], total=len(known), known=some
        )
        return KrisselError(message)


def _columns(entities: Sequence[Any], schema: pa.Schema) -> pa.Table:
    """Return these fields of the entities; missing values are empty."""
    lists = {field.name: pa.types.is_list(field.type) for field in schema}
    columns = {
        name: [
            list(getattr(each, name, ())) if is_list else getattr(each, name, "")
            for each in entities
        ]
        for name, is_list in lists.items()
    }
    return pa.table(columns, schema=schema)
