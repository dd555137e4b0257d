"""The entities of a store as record batches in one Arrow file, written as a stream and read through
a memory map.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from ..errors import Errors, KrisselError
from ..util.disk import coded_damage
from ..util.folding import fold_name
from .entity import LISTS, Entity

# All batches except the last have this many rows, so that a division finds the batch of a row.
BATCH_ROWS = 2048
TEXTS = ("id", "name", "definition", "species", "source")
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in TEXTS), *((name, pa.list_(pa.string())) for name in LISTS)]
)


def write_table(entities: Iterable[Entity], path: Path) -> None:
    """Write entities to an Arrow file, holding one batch of them in memory.

    Raises KrisselError K108 for an entity that has no id or no name, or cannot be stored.
    """
    stream, n_rows = iter(entities), 0
    with pa.ipc.new_file(str(path), SCHEMA) as writer:
        while batch := list(islice(stream, BATCH_ROWS)):
            for number, entity in enumerate(batch, n_rows + 1):
                if not isinstance(entity.id, str):
                    raise not_storable(
                        entity, number, f"{entity.id!r} is no text", "texts for ids and names"
                    )
                if not entity.id.strip() or not entity.name.strip():
                    raise not_storable(entity, number, "it has a blank id or name", "both")
            try:
                writer.write_batch(_to_batch(batch))
            except (pa.ArrowException, UnicodeError, TypeError):
                # Only one of them is bad: find and name it.
                for number, entity in enumerate(batch, n_rows + 1):
                    try:
                        _to_batch([entity])
                    except (pa.ArrowException, UnicodeError, TypeError) as error:
                        raise not_storable(
                            entity, number, str(error), "texts that UTF-8 can hold"
                        ) from error
                raise
            n_rows += len(batch)


class EntityFile:
    """Entities of an Arrow file, read through a memory map.

    verify: check the whole content of a batch when it is first read.

    Raises KrisselError K109 if the file is damaged, possibly later, when a damaged part is first
    read.
    """

    def __init__(self, path: Path, verify: bool = False) -> None:
        self.path = path
        self._verify = verify
        with coded_damage(path, self._damaged):
            self._reader = pa.ipc.open_file(pa.memory_map(str(path)))
            if self._reader.schema != SCHEMA:
                raise self._damaged(f"its columns are {', '.join(self._reader.schema.names)}")
            n_batches = self._reader.num_record_batches
        self._batches: list[dict[str, pa.Array] | None] = [None] * n_batches
        last = len(self._batch(n_batches - 1)["id"]) if n_batches else 0
        self._n_rows = max(0, n_batches - 1) * BATCH_ROWS + last

    def __len__(self) -> int:
        return self._n_rows

    def __iter__(self) -> Iterator[Entity]:
        columns = Entity.__dataclass_fields__
        yield from map(
            Entity,
            *(
                map(tuple, self.each(name)) if name in LISTS else self.each(name)
                for name in columns
            ),
        )

    def each(self, column: str) -> Iterator[Any]:
        """Yield the values of a column by row, texts or lists of texts."""
        for i in range(len(self._batches)):
            yield from self._batch(i)[column].to_pylist()

    def ids(self) -> pa.StringArray:
        """Return the primary id of each row."""
        parts = [self._batch(i)["id"] for i in range(len(self._batches))]
        return pa.concat_arrays([pa.array([], pa.string()), *parts])

    def entity(self, row: int) -> Entity:
        columns, i = self._batch(row // BATCH_ROWS), row % BATCH_ROWS
        values = {name: column[i].as_py() for name, column in columns.items()}
        fields: dict[str, Any] = {
            name: tuple(value) if name in LISTS else value for name, value in values.items()
        }
        return Entity(**fields)

    def name_at(self, row: int, position: int) -> str:
        """Return a name by its number in `numbered_names`."""
        return self._numbered(row, position, "name", "aliases")

    def folded_at(self, row: int, position: int) -> str:
        """Return a folded name by its number in `numbered_names`."""
        return fold_name(self.name_at(row, position))

    def id_at(self, row: int, position: int = 0) -> str:
        """Return an id by its number: 0 for the primary id, i for alternative id i - 1."""
        return self._numbered(row, position, "id", "alt_ids")

    def _numbered(self, row: int, position: int, first: str, others: str) -> str:
        columns, i = self._batch(row // BATCH_ROWS), row % BATCH_ROWS
        if not position:
            return columns[first][i].as_py()
        try:
            return columns[others][i][position - 1].as_py()
        except IndexError:
            raise self._damaged(f"row {row} has no number {position - 1} of its {others}") from None

    def _batch(self, i: int) -> dict[str, pa.Array]:
        """Return the columns of a batch."""
        columns = self._batches[i]
        if columns is None:
            with coded_damage(self.path, self._damaged):
                batch = self._reader.get_batch(i)
                batch.validate(full=self._verify)
            if any(column.null_count for column in batch.columns) or (
                i < len(self._batches) - 1 and batch.num_rows != BATCH_ROWS
            ):
                raise self._damaged(f"batch {i} is not one that was written")
            columns = self._batches[i] = {name: batch.column(name) for name in batch.schema.names}
        return columns

    def _damaged(self, error: object) -> KrisselError:
        return KrisselError(
            Errors.K109.format(file=self.path.name, path=self.path.parent, problem=error)
        )


def numbered_names(name: str, aliases: Iterable[str]) -> list[tuple[int, str]]:
    """Return `Entity.names` with the position of each: 0 for the canonical name, i for alias
    i - 1."""
    seen: dict[str, int] = {}
    for position, text in enumerate((name, *aliases)):
        if text.strip():
            seen.setdefault(text, position)
    return [(position, text) for text, position in seen.items()]


def _to_batch(entities: list[Entity]) -> pa.RecordBatch:
    columns = [
        pa.array([getattr(entity, field.name) for entity in entities], field.type)
        for field in SCHEMA
    ]
    return pa.record_batch(columns, schema=SCHEMA)


def not_storable(entity: Entity, number: int, problem: str, expected: str) -> KrisselError:
    return KrisselError(
        Errors.K108.format(
            number=number,
            id=entity.id,
            name=str(entity.name)[:60],
            problem=problem,
            expected=expected,
        )
    )
