"""Mined mentions on disk: Arrow shards, grouped by entity, and a manifest."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import Errors, KrisselError
from ..ontology.held_out import HeldOut
from ..ontology.store import OntologyStore
from ..util.disk import coded_damage
from ..util.hashing import stable_hash
from ..util.manifest import BUILD_COMMANDS, Count, ManifestSchema, read_manifest, verify_file
from ..views import View

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "mention shards"
FORMAT_VERSION = 1
SHARD_MENTIONS = 100_000
# Random access reads one batch's offsets; iteration turns one batch at a time into Python objects.
BATCH_MENTIONS = 4096
# Maximum number of mapped shards: pages that were read count as memory of the process.
OPEN_SHARDS = 8


class MinedMention(NamedTuple):
    """A mention found in unlabelled text.

    entity: the entity's id. name: the matched name of the ontology. doc: the text's id.
    start, end: character offsets in the text. left, mention, right: the mention in its context.
    """

    entity: str
    name: str
    doc: str
    start: int
    end: int
    left: str
    mention: str
    right: str

    @property
    def view(self) -> View:
        return View(self.left, self.mention, self.right)


class MentionList(Sequence[MinedMention]):
    """Mentions in memory, grouped by entity as those of `MentionShards`."""

    def __init__(self, mentions: Iterable[MinedMention]) -> None:
        self.manifest: dict[str, Any] = {}
        self._mentions = sorted(mentions, key=lambda mention: mention.entity)

    def __len__(self) -> int:
        return len(self._mentions)

    def __getitem__(self, i):  # type: ignore[no-untyped-def, override]
        return self._mentions[i]

    def by_entity(self) -> dict[str, range]:
        """Return the positions of each entity's mentions."""
        found: dict[str, range] = {}
        for position, mention in enumerate(self._mentions):
            known = found.get(mention.entity, range(position, position))
            found[mention.entity] = range(known.start, position + 1)
        return found


class Shard(ManifestSchema):
    """File name and number of mentions of a shard."""

    file: str
    mentions: Count


class _ShardsSchema(ManifestSchema):
    shards: list[Shard]

    def required_files(self) -> list[str]:
        return [shard.file for shard in self.shards]


class MentionShards(Sequence[MinedMention]):
    """Mentions mined to `path`, memory-mapped and grouped by entity, in ontology order.

    The mentions of an entity are in the order of the seeded sample, so that the first m are a
    uniform sample of m.

    verify: check the SHA-256 and the content of each shard when it is first read.
    Raises KrisselError K001-K004 for a directory that is missing, another thing, another version,
    or damaged; K004 also later, when a damaged shard is first read.
    """

    def __init__(self, path: str | Path, *, verify: bool = True) -> None:
        self.path = Path(path)
        # Shards may be hundreds of gigabytes, of which little is read.
        self.manifest: dict[str, Any] = read_manifest(
            self.path, KIND, FORMAT_VERSION, verify=False, schema=_ShardsSchema
        )
        self._verify = verify
        self._files: list[str] = [shard["file"] for shard in self.manifest["shards"]]
        self._starts: list[int] = [0]
        for shard in self.manifest["shards"]:
            self._starts.append(self._starts[-1] + shard["mentions"])
        self._open: dict[int, list[pa.RecordBatch]] = {}
        self._checked: set[int] = set()
        self._groups: tuple[pa.StringArray, np.ndarray] | None = None

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[MinedMention]:
        for i in range(len(self._files)):
            for batch in self._batches(i):
                yield from map(MinedMention, *(column.to_pylist() for column in batch.columns))

    def __getitem__(self, i):  # type: ignore[no-untyped-def, override]
        """Return the mention at position `i`, or a list of mentions for a slice."""
        if isinstance(i, slice):
            start, stop, step = i.indices(len(self))
            return (
                self._span(start, stop)
                if step == 1
                else [self[j] for j in range(start, stop, step)]
            )
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        return self._span(i % len(self), i % len(self) + 1)[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def groups(self) -> tuple["pa.StringArray", np.ndarray]:
        """Return each entity's id, in order, and the starts of their mentions.

        The shapes are (n,) and (n + 1,); the last start is the total number.
        """
        if self._groups is None:
            import pyarrow as pa
            import pyarrow.compute as pc

            ids, ends = [pa.array([], pa.string())], [np.zeros(0, dtype=np.int64)]
            for i, start in enumerate(self._starts[:-1]):
                for batch in self._batches(i):
                    runs = pc.run_end_encode(batch.column(0))
                    ids.append(runs.values)
                    ends.append(start + runs.run_ends.to_numpy().astype(np.int64))
                    start += batch.num_rows
            # An entity may continue in the next batch.
            runs = pc.run_end_encode(pa.concat_arrays(ids))
            self._groups = (
                runs.values,
                np.append(0, np.concatenate(ends)[runs.run_ends.to_numpy() - 1]),
            )
        return self._groups

    def by_entity(self) -> dict[str, range]:
        """Return each entity's positions, in order.

        `shards[by_entity()[id][0]]` is an entity's first mention.
        """
        ids, starts = self.groups()
        return {
            id_: range(*edges)
            for id_, edges in zip(ids.to_pylist(), pairwise(starts.tolist()), strict=True)
        }

    def fields(self, positions: Sequence[int], *names: str) -> list[list[Any]]:
        """Return fields of the mentions at these positions, reading each shard once, in order."""
        order = np.argsort(np.asarray(positions, dtype=np.int64), kind="stable")
        sorted_positions = np.asarray(positions, dtype=np.int64)[order]
        shards = np.searchsorted(self._starts, sorted_positions, "right") - 1
        batches, rows = np.divmod(
            sorted_positions - np.asarray(self._starts)[shards], BATCH_MENTIONS
        )
        found: list[list[Any]] = [[] for _ in names]
        edges = np.flatnonzero(
            np.diff(shards, prepend=-1, append=-1) | np.diff(batches, prepend=-1, append=-1)
        )
        for first, last in pairwise(edges.tolist()):
            batch = self._batches(int(shards[first]))[int(batches[first])]
            for name, values in zip(names, found, strict=True):
                values.extend(batch.column(name).take(rows[first:last]).to_pylist())
        back = np.argsort(order).tolist()
        return [[values[i] for i in back] for values in found]

    def _span(self, start: int, stop: int) -> list[MinedMention]:
        """Return the mentions from `start` to `stop`, read as whole columns."""
        found: list[MinedMention] = []
        while start < stop:
            shard = bisect_right(self._starts, start) - 1
            batch, row = divmod(start - self._starts[shard], BATCH_MENTIONS)
            part = self._batches(shard)[batch].slice(row, stop - start)
            found.extend(map(MinedMention, *(column.to_pylist() for column in part.columns)))
            start += part.num_rows
        return found

    def _batches(self, i: int) -> list["pa.RecordBatch"]:
        batches = self._open.get(i)
        if batches is None:
            batches = self._open[i] = self._read(i)
            for other in list(self._open)[:-OPEN_SHARDS]:
                self._open.pop(other, None)
        return batches

    def _read(self, i: int) -> list["pa.RecordBatch"]:
        import pyarrow as pa

        name = self._files[i]
        verify = self._verify and i not in self._checked
        if verify:
            verify_file(self.path, name, self.manifest["files"][name], BUILD_COMMANDS[KIND])

        def damaged(problem: object) -> KrisselError:
            return KrisselError(
                Errors.K004.format(
                    file=name, path=self.path, problem=problem, make=BUILD_COMMANDS[KIND]
                )
            )

        with coded_damage(self.path / name, damaged):
            reader = pa.ipc.open_file(pa.memory_map(str(self.path / name)))
            if reader.schema != shard_schema():
                raise damaged(f"its columns are {reader.schema.names}")
            batches = [reader.get_batch(j) for j in range(reader.num_record_batches)]
            for batch in batches:
                batch.validate(full=verify)
        found = sum(batch.num_rows for batch in batches)
        expected = self._starts[i + 1] - self._starts[i]
        if found != expected:
            raise damaged(f"it holds {found} mentions instead of {expected}")
        has_nulls = any(column.null_count for batch in batches for column in batch.columns)
        if has_nulls or any(batch.num_rows != BATCH_MENTIONS for batch in batches[:-1]):
            raise damaged("its batches differ from those that were written")
        self._checked.add(i)
        return batches


def shard_schema() -> "pa.Schema":
    import pyarrow as pa

    text, offset = pa.string(), pa.int32()
    return pa.schema(
        [
            pa.field(name, offset if name in ("start", "end") else text, nullable=False)
            for name in MinedMention._fields
        ]
    )


def write_shard(path: Path, table: "pa.Table") -> None:
    """Write a table as one Arrow file in batches of `BATCH_MENTIONS`."""
    import pyarrow as pa

    # Combine chunks first: a batch never crosses the chunks of a table, and random access counts in
    # full batches.
    table = table.combine_chunks()
    with pa.OSFile(str(path), "wb") as file_, pa.ipc.new_file(file_, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_MENTIONS)


def read_shard(path: Path, columns: list[str] | None = None) -> "pa.Table":
    """Return a table that `write_shard` wrote, memory-mapped."""
    import pyarrow as pa

    # Closed at once: a long run has more chunks than a process may have open files.
    with pa.memory_map(str(path)) as file_:
        table = pa.ipc.open_file(file_).read_all()
        return table if columns is None else table.select(columns)


# Entities per block, and maximum number of mentions read per entity: the first ones, which are a
# sample.
CHUNK, MAX_MENTIONS_READ = 4096, 256


class MinedEntities:
    """Entities of mined shards, numbered in the order of the shards.

    rows: of the entities in the ontology, (n,).
    starts: position of the first mention of each, and the end of the last, (n + 1,).
    Raises KrisselError K106 for an entity that is not in the ontology.
    """

    def __init__(self, shards: MentionShards, ontology: OntologyStore) -> None:
        self.shards, self.ontology = shards, ontology
        ids, self.starts = shards.groups()
        self.rows = ontology.rows(ids)

    def choose(
        self,
        numbers: np.ndarray,
        draw: Callable[[range], Sequence[int]],
        held_out: HeldOut,
        *,
        hidden: bool,
    ) -> dict[int, list[int]]:
        """Return mentions of these entities, as positions by number.

        draw: selects from an entity's positions. hidden: keep only mentions whose name is held out;
            otherwise only the others.
        """
        edges = zip(self.starts[numbers].tolist(), self.starts[numbers + 1].tolist(), strict=True)
        drawn = [draw(range(start, end)) for start, end in edges]
        names = iter(
            self.shards.fields([position for positions in drawn for position in positions], "name")[
                0
            ]
        )
        found = {}
        for number, positions in zip(numbers.tolist(), drawn, strict=True):
            named = list(zip(positions, islice(names, len(positions)), strict=True))
            row = int(self.rows[number])
            id_ = self.ontology.id_at(row)
            if out := {name for name in {name for _, name in named} if held_out.selects(id_, name)}:
                entity = self.ontology.entity_at(row)
                out = {name for name in out if held_out(entity, name)}
            found[number] = [position for position, name in named if (name in out) == hidden]
        return found

    def held_out(self, held_out: HeldOut) -> Iterator[tuple[str, list[int]]]:
        """Yield the id of each entity with held-out names, and the positions of their mentions.

        Entities are in the order of a seeded hash, so that the first ones are a sample. Reading is
        lazy.
        """
        if not held_out.fraction:
            return
        ids = map(self.ontology.id_at, self.rows.tolist())
        order = np.argsort(
            np.fromiter((stable_hash(held_out.seed, id_) for id_ in ids), dtype=np.uint64),
            kind="stable",
        )
        for first in range(0, len(order), CHUNK):
            numbers = order[first : first + CHUNK]
            chosen = self.choose(
                numbers, lambda positions: positions[:MAX_MENTIONS_READ], held_out, hidden=True
            )
            for number, positions in chosen.items():
                if positions:
                    yield self.ontology.id_at(int(self.rows[number])), positions

    def views(self, positions: Sequence[int]) -> list[View]:
        """Return the mentions at these positions in their contexts."""
        return list(map(View, *self.shards.fields(positions, "left", "mention", "right")))
