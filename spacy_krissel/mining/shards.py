"""Mined mentions on disk: Arrow shards, grouped by entity, and a manifest."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import Errors, KrisselError
from ..util.disk import damage
from ..util.manifest import MAKERS, Count, Shape, read_manifest, verify_file
from ..views import View

if TYPE_CHECKING:
    import pyarrow as pa

KIND = "mention shards"
FORMAT_VERSION = 1
SHARD_MENTIONS = 100_000
# Random access reads one batch's offsets, iteration turns one batch into Python objects at a time.
BATCH_MENTIONS = 4096


class MinedMention(NamedTuple):
    """A mention found in unlabelled text.

    entity: the entity's id. name: the ontology's name that was matched. doc: the text's id.
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


class Shard(Shape):
    """file: its name. mentions: how many it holds."""

    file: str
    mentions: Count


class ShardsShape(Shape):
    shards: list[Shard]

    def needs(self) -> list[str]:
        return [shard.file for shard in self.shards]


class MentionShards(Sequence[MinedMention]):
    """The mentions mined to `path`, memory-mapped and grouped by entity, in ontology order.

    The mentions of an entity are in the order of the seeded sample, so that the first m are a uniform sample of m.

    verify: check the SHA-256 and the content of each shard when it is first read.
    Raises KrisselError K001-K004 for a directory that is missing, another thing, another version, or damaged; K004 also
    later, when a damaged shard is first read.
    """

    def __init__(self, path: str | Path, *, verify: bool = True) -> None:
        self.path = Path(path)
        # There may be hundreds of gigabytes, of which little is read.
        self.manifest: dict[str, Any] = read_manifest(self.path, KIND, FORMAT_VERSION, verify=False, shape=ShardsShape)
        self._verify = verify
        self._files: list[str] = [shard["file"] for shard in self.manifest["shards"]]
        self._starts: list[int] = [0]
        for shard in self.manifest["shards"]:
            self._starts.append(self._starts[-1] + shard["mentions"])
        self._open: dict[int, list[pa.RecordBatch]] = {}
        self._by_entity: dict[str, range] | None = None

    def __len__(self) -> int:
        return self._starts[-1]

    def __iter__(self) -> Iterator[MinedMention]:
        for i in range(len(self._files)):
            for batch in self._batches(i):
                yield from map(MinedMention, *(column.to_pylist() for column in batch.columns))

    def __getitem__(self, i):  # type: ignore[no-untyped-def, override]
        """The mention at position `i` (or a list of them for a slice)."""
        if isinstance(i, slice):
            start, stop, step = i.indices(len(self))
            return self._span(start, stop) if step == 1 else [self[j] for j in range(start, stop, step)]
        if not -len(self) <= i < len(self):
            raise IndexError(i)
        return self._span(i % len(self), i % len(self) + 1)[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": {}}

    def by_entity(self) -> dict[str, range]:
        """Each entity's positions, in order; `shards[by_entity()[id][0]]` is an entity's first mention."""
        if self._by_entity is None:
            import pyarrow.compute as pc

            counts: Counter[str] = Counter()
            for i in range(len(self._files)):
                for batch in self._batches(i):
                    entities, numbers = pc.value_counts(batch.column(0)).flatten()
                    counts.update(dict(zip(entities.to_pylist(), numbers.to_pylist(), strict=True)))
            ends = accumulate(counts.values())
            self._by_entity = {id_: range(end - counts[id_], end) for id_, end in zip(counts, ends, strict=True)}
        return self._by_entity

    def _span(self, start: int, stop: int) -> list[MinedMention]:
        """The mentions from `start` to `stop`, whole columns at a time."""
        found: list[MinedMention] = []
        while start < stop:
            shard = bisect_right(self._starts, start) - 1
            batch, row = divmod(start - self._starts[shard], BATCH_MENTIONS)
            part = self._batches(shard)[batch].slice(row, stop - start)
            found.extend(map(MinedMention, *(column.to_pylist() for column in part.columns)))
            start += part.num_rows
        return found

    def _batches(self, i: int) -> list["pa.RecordBatch"]:
        if i not in self._open:
            self._open[i] = self._read(i)
        return self._open[i]

    def _read(self, i: int) -> list["pa.RecordBatch"]:
        import pyarrow as pa

        name = self._files[i]
        if self._verify:
            verify_file(self.path, name, self.manifest["files"][name], MAKERS[KIND])

        def damaged(problem: object) -> KrisselError:
            return KrisselError(Errors.K004.format(file=name, path=self.path, problem=problem, make=MAKERS[KIND]))

        with damage(self.path / name, damaged):
            reader = pa.ipc.open_file(pa.memory_map(str(self.path / name)))
            if reader.schema != shard_schema():
                raise damaged(f"its columns are {reader.schema.names}")
            batches = [reader.get_batch(j) for j in range(reader.num_record_batches)]
            for batch in batches:
                batch.validate(full=self._verify)
        found = sum(batch.num_rows for batch in batches)
        expected = self._starts[i + 1] - self._starts[i]
        if found != expected:
            raise damaged(f"it holds {found} mentions instead of {expected}")
        has_nulls = any(column.null_count for batch in batches for column in batch.columns)
        if has_nulls or any(batch.num_rows != BATCH_MENTIONS for batch in batches[:-1]):
            raise damaged("its batches are not those that were written")
        return batches


def shard_schema() -> "pa.Schema":
    import pyarrow as pa

    text, offset = pa.string(), pa.int32()
    return pa.schema(
        [pa.field(name, offset if name in ("start", "end") else text, nullable=False) for name in MinedMention._fields]
    )


def write_shard(path: Path, table: "pa.Table") -> None:
    """Write a table as one Arrow file in batches of `BATCH_MENTIONS`."""
    import pyarrow as pa

    # In one chunk first: a batch never crosses the chunks of a table, and random access counts in full batches.
    table = table.combine_chunks()
    with pa.OSFile(str(path), "wb") as file_, pa.ipc.new_file(file_, table.schema) as writer:
        writer.write_table(table, max_chunksize=BATCH_MENTIONS)


def read_shard(path: Path, columns: list[str] | None = None) -> "pa.Table":
    """A table that `write_shard` wrote, memory-mapped."""
    import pyarrow as pa

    # Closed at once: a long run has more chunks than a process may have open files.
    with pa.memory_map(str(path)) as file_:
        table = pa.ipc.open_file(file_).read_all()
        return table if columns is None else table.select(columns)
