"""The entities of a store as record batches in one Arrow file, written as they come and read through a memory map."""

from collections.abc import Iterator, Sequence
from collections.abc import Sequence as SequenceABC
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa

from ..errors import Errors, KrisselError
from ..util.disk import damage
from .entity import Entity


class TextCells:
    """A column of texts without nulls; indexed by place in the batch."""

    __slots__ = ("_data", "_ends")

    def __init__(self, array: pa.StringArray) -> None:
        _, ends, data = array.buffers()
        self._ends, self._data = _ends(ends), _bytes(data)

    def __getitem__(self, i: int) -> str:
        return str(self._data[self._ends[i] : self._ends[i + 1]], "utf8")


class ListCells:
    """A column of lists of texts, without nulls."""

    __slots__ = ("_ends", "_items")

    def __init__(self, array: pa.ListArray) -> None:
        self._ends = _ends(array.buffers()[1])
        self._items = TextCells(array.values)

    def __getitem__(self, i: int) -> tuple[str, ...]:
        start, end = self._ends[i], self._ends[i + 1]
        return tuple([self._items[item] for item in range(start, end)]) if end > start else ()

    def item(self, i: int, place: int) -> str:
        """One of the texts of a list. Raises IndexError when there is no such place."""
        start, end = self._ends[i], self._ends[i + 1]
        if not 0 <= place < end - start:
            raise IndexError(place)
        return self._items[start + place]


def cells_of(batch: pa.RecordBatch) -> dict[str, Any]:
    """The cells of each column, by its name."""
    kinds = {
        name: ListCells if pa.types.is_list(batch.schema.field(name).type) else TextCells for name in batch.schema.names
    }
    return {name: kind(batch.column(name)) for name, kind in kinds.items()}


def _ends(buffer: pa.Buffer) -> Any:
    return memoryview(buffer).cast("i") if buffer is not None and buffer.size else memoryview(bytes(4)).cast("i")


def _bytes(buffer: pa.Buffer) -> Any:
    return memoryview(buffer if buffer is not None else b"")


# All batches but the last have this many rows, so that a row's batch is a division away.
BATCH_ROWS = 2048
TEXTS = ("id", "name", "definition", "species", "source")
LISTS = ("aliases", "types", "tree_numbers", "xrefs", "alt_ids")
SCHEMA = pa.schema([*((name, pa.string()) for name in TEXTS), *((name, pa.list_(pa.string())) for name in LISTS)])


class EntityTableWriter:
    """Writes entities to an Arrow file, holding one batch of them."""

    def __init__(self, path: Path) -> None:
        self._writer = pa.ipc.new_file(str(path), SCHEMA)
        self._pending: list[Entity] = []
        self._rows = 0

    def append(self, entity: Entity) -> int:
        """RETURNS: the entity's row. Raises KrisselError K108 when it has no id or no name."""
        if not entity.id.strip() or not entity.name.strip():
            raise _not_storable(entity, self._rows, "it has a blank id or name", "both")
        self._pending.append(entity)
        self._rows += 1
        if len(self._pending) == BATCH_ROWS:
            self._flush()
        return self._rows - 1

    def close(self) -> None:
        """Raises KrisselError K108 as `append` does."""
        try:
            if self._pending:
                self._flush()
        finally:
            self._writer.close()

    def _flush(self) -> None:
        try:
            self._writer.write_batch(_to_batch(self._pending))
        except (pa.ArrowException, UnicodeError, TypeError):
            # Only one of them is bad: find it, to name it.
            for i, entity in enumerate(self._pending):
                try:
                    _to_batch([entity])
                except (pa.ArrowException, UnicodeError, TypeError) as error:
                    self._pending, row = [], self._rows - len(self._pending) + i
                    raise _not_storable(entity, row, str(error), "texts that UTF-8 can hold") from error
            raise
        self._pending = []


class EntityTable:
    """Reads entities from an Arrow file without loading it.

    verify: check all that is in a batch when it is first read.

    Raises KrisselError K109 when the file is damaged, also later, when a damaged part is first reached.
    """

    def __init__(self, path: Path, verify: bool = False) -> None:
        self.path = path
        self._verify = verify
        with damage(path, self._damaged):
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
            if self._reader.schema != SCHEMA:
                raise self._damaged(f"its columns are {', '.join(self._reader.schema.names)}")
            n_batches = self._reader.num_record_batches
        self._batches: list[pa.RecordBatch | None] = [None] * n_batches
        self._cells: list[dict[str, Any] | None] = [None] * n_batches
        last = self.batch(n_batches - 1).num_rows if n_batches else 0
        self.n_rows = max(0, n_batches - 1) * BATCH_ROWS + last

    def __len__(self) -> int:
        return self.n_rows

    def batch(self, i: int) -> pa.RecordBatch:
        batch = self._batches[i]
        if batch is None:
            with damage(self.path, self._damaged):
                batch = self._reader.get_batch(i)
                batch.validate(full=self._verify)
            if any(column.null_count for column in batch.columns) or (
                i < len(self._batches) - 1 and batch.num_rows != BATCH_ROWS
            ):
                raise self._damaged(f"batch {i} is not one that was written")
            self._batches[i] = batch
        return batch

    def batches(self) -> Iterator[pa.RecordBatch]:
        for i in range(len(self._batches)):
            yield self.batch(i)

    def value(self, row: int, column: str) -> Any:
        """One cell as a text or a tuple of texts."""
        return self.cells(row // BATCH_ROWS)[column][row % BATCH_ROWS]

    def values(self, rows: np.ndarray, column: str) -> list[str]:
        """The cells of many rows (n,), in any order, of a column of texts; far faster than one by one."""
        order = np.argsort(rows, kind="stable")
        batches = rows[order] // BATCH_ROWS
        starts = np.flatnonzero(np.diff(batches, prepend=-1))
        parts = []
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(order)], strict=False):
            within = rows[order[start:end]] - batches[start] * BATCH_ROWS
            parts.append(self.batch(int(batches[start])).column(column).take(pa.array(within)))
        found = np.empty(len(rows), dtype=object)
        if parts:
            found[order] = pa.concat_arrays(parts).to_numpy(zero_copy_only=False)
        return found.tolist()

    def list_item(self, row: int, column: str, i: int) -> str:
        try:
            return self.cells(row // BATCH_ROWS)[column].item(row % BATCH_ROWS, i)
        except IndexError:
            raise self._damaged(f"row {row} has no number {i} of its {column}") from None

    def entity(self, row: int) -> Entity:
        cells, i = self.cells(row // BATCH_ROWS), row % BATCH_ROWS
        return Entity(**{name: cells[name][i] for name in cells})

    def cells(self, i: int) -> dict[str, Any]:
        """The cells of a batch, by column."""
        cells = self._cells[i]
        if cells is None:
            cells = self._cells[i] = cells_of(self.batch(i))
        return cells

    def __iter__(self) -> Iterator[Entity]:
        for batch in self.batches():
            texts = [batch.column(name).to_pylist() for name in TEXTS]
            lists = [list(lists_of(batch, name)) for name in LISTS]
            for values in zip(*texts, *lists, strict=True):
                yield Entity(**dict(zip((*TEXTS, *LISTS), values, strict=True)))

    def _damaged(self, error: object) -> KrisselError:
        return KrisselError(Errors.K109.format(file=self.path.name, path=self.path.parent, problem=error))


class Ids(SequenceABC):
    """The primary ids by row, read from the memory map as they are asked for."""

    def __init__(self, table: EntityTable) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, row: int) -> str: ...

    @overload
    def __getitem__(self, row: slice) -> list[str]: ...

    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[i] for i in range(*row.indices(len(self)))]
        # numpy's integers are rows too, and negative ones count from the end as in any sequence.
        index = range(len(self))[row]
        return self._table.value(index, "id")

    def __iter__(self) -> Iterator[str]:
        for batch in self._table.batches():
            yield from batch.column("id").to_pylist()


def numbered_names(name: str, aliases: Sequence[str]) -> list[tuple[int, str]]:
    """`Entity.names` with the place of each: 0 for the canonical name, i for alias i - 1."""
    seen: dict[str, int] = {}
    for position, text in enumerate((name, *aliases)):
        if text.strip():
            seen.setdefault(text, position)
    return [(position, text) for text, position in seen.items()]


def name_at(table: EntityTable, row: int, position: int) -> str:
    """A name by its number in `numbered_names`."""
    return table.list_item(row, "aliases", position - 1) if position else table.value(row, "name")


def id_at(table: EntityTable, row: int, position: int) -> str:
    """An id by its number: 0 for the primary id, i for alternative id i - 1."""
    return table.list_item(row, "alt_ids", position - 1) if position else table.value(row, "id")


def lists_of(batch: pa.RecordBatch, name: str) -> Iterator[tuple[str, ...]]:
    """A list column as tuples; one flat conversion is far faster than one a row."""
    column = batch.column(name)
    offsets = (column.offsets.to_numpy() - column.offsets[0].as_py()).tolist()
    values = column.flatten().to_pylist()
    for start, end in pairwise(offsets):
        yield tuple(values[start:end])


def copy_rows(source: Path, target: Path, keep: np.ndarray) -> None:
    """Copy the rows that the mask `keep` (n,) marks, into whole batches again."""
    table = EntityTable(source)
    with pa.ipc.new_file(str(target), SCHEMA) as writer:
        rest = SCHEMA.empty_table()
        for i, batch in enumerate(table.batches()):
            mask = pa.array(keep[i * BATCH_ROWS : i * BATCH_ROWS + batch.num_rows])
            rest = pa.concat_tables([rest, pa.Table.from_batches([batch.filter(mask)])])
            if rest.num_rows >= BATCH_ROWS:
                writer.write_batch(_one_batch(rest.slice(0, BATCH_ROWS)))
                rest = rest.slice(BATCH_ROWS)
        if rest.num_rows:
            writer.write_batch(_one_batch(rest))


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    return table.combine_chunks().to_batches()[0]


def _to_batch(entities: list[Entity]) -> pa.RecordBatch:
    columns = [pa.array([getattr(entity, field.name) for entity in entities], field.type) for field in SCHEMA]
    return pa.record_batch(columns, schema=SCHEMA)


def _not_storable(entity: Entity, row: int, problem: str, expected: str) -> KrisselError:
    return KrisselError(
        Errors.K108.format(number=row + 1, id=entity.id, name=entity.name[:60], problem=problem, expected=expected)
    )
