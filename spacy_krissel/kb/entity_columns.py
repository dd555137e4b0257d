"""The entities of a knowledge base, columnar and memory-mapped."""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Errors, KrisselError
from ..index.protocol import Mask, Rows
from ..ontology.entity import Entity
from ..util.lock import Lock, once
from .columns import BATCH_ROWS, read_table, take_rows, write_table

FILE = "entities.arrow"
LIST = pa.list_(pa.string())
SCHEMA = pa.schema(
    [("id", pa.string()), ("name", pa.string()), ("types", LIST), ("alt_ids", LIST), ("species", pa.string())]
)
# Number of ids from which on one hash table over all entities beats a search for each.
MANY_IDS = 1000


class StringColumn(Sequence[str]):
    """A column of strings that is read where it is asked."""

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

    def take(self, rows: Any) -> Sequence[str]:
        """The strings at `rows`, an array of any shape, flattened."""
        return take_rows(pa.table([self._column], [""]), rows).column(0).to_pylist()


class EntityTable:
    """Entities in the order of their ids, so that a lower row is also the lower id."""

    def __init__(self, table: pa.Table | None = None) -> None:
        self.table = SCHEMA.empty_table() if table is None else table
        self.ids = StringColumn(self.table.column("id"))
        self.names = StringColumn(self.table.column("name"))
        self._lock = Lock()

    @classmethod
    def from_entities(cls, entities: Iterable[Any]) -> "EntityTable":
        """entities: see `PrototypeKB.set_entities`. Raises KrisselError K513 (an id twice), K514 (an empty id)."""
        tables, stream = [SCHEMA.empty_table()], iter(entities)
        # As Python objects, millions of entities would be gigabytes.
        while batch := list(islice(stream, BATCH_ROWS)):
            for number, entity in enumerate(batch, sum(map(len, tables))):
                if not entity.id:
                    raise KrisselError(Errors.K514.format(first=number, name=entity.name))
            columns = {
                "id": [entity.id for entity in batch],
                "name": [entity.name for entity in batch],
                "types": [list(entity.types) for entity in batch],
                "alt_ids": [list(getattr(entity, "alt_ids", ())) for entity in batch],
                "species": [getattr(entity, "species", "") for entity in batch],
            }
            tables.append(pa.table(columns, schema=SCHEMA))
        table = pa.concat_tables(tables).combine_chunks()
        # In the order of code points, as Python sorts too: that of UTF-8 bytes is the same.
        table = table.take(pc.sort_indices(table.column("id")))
        ids = table.column("id")
        repeated = ids[1:].filter(pc.equal(ids[1:], ids[:-1])) if len(ids) > 1 else ids[:0]
        if len(repeated):
            raise KrisselError(Errors.K513.format(count=len(repeated.unique()), entity=repeated[0]))
        return cls(table)

    @classmethod
    def from_disk(cls, directory: Path, rows: int) -> "EntityTable":
        """Raises KrisselError K524. The file is always checked whole: Arrow follows damaged offsets of lists."""
        return cls(read_table(directory / FILE, SCHEMA, rows))

    def to_disk(self, directory: Path) -> None:
        write_table(self.table, directory / FILE)

    def __len__(self) -> int:
        return len(self.ids)

    def at(self, row: int) -> Entity:
        found = {name: self.table.column(name)[row].as_py() for name in SCHEMA.names}
        fields: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in found.items()}
        return Entity(**fields)

    def row(self, entity: str) -> int | None:
        found = bisect.bisect_left(self.ids, entity)
        return found if found < len(self) and self.ids[found] == entity else None

    def resolve(self, entity: str) -> int | None:
        """The row of a primary or alternative id; a primary id wins, then the lowest row."""
        found = self.row(entity)
        if found is not None:
            return found
        return self._alternatives.get(entity)

    @once
    def _alternatives(self) -> dict[str, int]:
        column = self.table.column("alt_ids").combine_chunks()
        owners, ids = pc.list_parent_indices(column).to_pylist(), pc.list_flatten(column).to_pylist()
        # Backwards, so that the lowest row is written last.
        return dict(zip(reversed(ids), reversed(owners), strict=True))

    def rows(self, entities: Sequence[str]) -> Rows:
        """The row of each id, -1 for those unknown: (len(entities),)."""
        if len(entities) < max(1, MANY_IDS):
            found = [self.row(entity) for entity in entities]
            return np.array([-1 if row is None else row for row in found], dtype=np.int64)
        # Among the part that they span alone: millions of prototypes are added entity by entity.
        first = bisect.bisect_left(self.ids, min(entities))
        spanned = self.table.column("id")[first : bisect.bisect_right(self.ids, max(entities))].combine_chunks()
        indices = pc.index_in(pa.array(entities, pa.string()), value_set=spanned)
        found = pc.fill_null(indices, -1 - first).to_numpy(zero_copy_only=False).astype(np.int64)
        return found + first

    def mask(self, types: Iterable[str]) -> Mask:
        """The entities with one of these types: (len(self),). Raises KrisselError K525 for one that no entity has."""
        wanted = sorted(set(types))
        column = self.table.column("types").combine_chunks()
        owner = np.asarray(pc.list_parent_indices(column))
        values = pc.list_flatten(column)
        known = set(pc.unique(values).to_pylist())
        unknown = [type_ for type_ in wanted if type_ not in known]
        if unknown:
            raise self.unknown("types", unknown, sorted(known))
        mask = np.zeros(len(self), dtype=bool)
        mask[owner[pc.is_in(values, value_set=pa.array(wanted, pa.string())).to_numpy(zero_copy_only=False)]] = True
        return mask

    def unknown(self, what: str, unknown: Sequence[str], known: Sequence[str] | None = None) -> KrisselError:
        known = self.ids if known is None else known
        some = ", ".join(known[:5]) or "none"
        message = Errors.K525.format(count=len(unknown), what=what, first=unknown[0], total=len(known), known=some)
        return KrisselError(message)
