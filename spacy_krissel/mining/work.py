"""Work of an unfinished mining run: one file per chunk of text, and the run's initial state."""

import json
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import Errors, KrisselError
from ..util.work_folder import WorkFolder
from .reservoir import Reservoir, lowest
from .shards import SHARD_MENTIONS, read_shard, shard_schema, write_shard

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

WORK_VERSION = 4
# A worker's file of mentions is rewritten if less than this fraction of it is kept.
MIN_KEPT_FRACTION = 0.5
# The columns that the sample depends on.
SAMPLE_COLUMNS = ["row", "priority"]
# Each pass reads all chunks and holds about a hundred bytes per mention.
SHARDS_AT_ONCE = 3


class WorkDirectory(WorkFolder):
    """Chunks of mined mentions in `.{output}.partial`, a locked sibling of the output.

    Chunks are added in the order of the text: a file of mentions, then a JSON record, the hashes of
    the ids of its texts, and checksums. A run that is stopped at any moment leaves its first
    chunks, which a later run need not read again. A worker does not write mentions that it knows to
    be outside the sample, so the work of a long run grows with the logarithm of the text.

    limits: see `Reservoir`. records: of the chunks.

    Raises KrisselError K045 if another run works there.
    """

    def __init__(self, output: Path) -> None:
        super().__init__(output.parent / f".{output.name}.partial")
        self.records: list[dict[str, Any]] = []

    def begin(
        self, state: dict[str, Any], cap: int | None, n_rows: int, *, restart: bool = False
    ) -> None:
        """Resume the work of an earlier run, or begin.

        state: everything that the mentions depend on (settings, hashes of ontology and texts); work
            of another state is refused. n_rows: entities. restart: discard the work of an earlier
            run.

        Raises KrisselError K302 if an earlier run of another state left work.
        """
        self.start(state, restart=restart)
        self._reservoir = Reservoir(cap, n_rows)
        self.limits = self._reservoir.limits
        self._restore_chunks()

    def has_work(self) -> bool:
        return self._chunk_path(0).exists()

    def refusal(self, difference: str) -> KrisselError:
        return KrisselError(Errors.K302.format(path=self.path, difference=difference))

    def __len__(self) -> int:
        return len(self.records)

    def add(self, mentions: "pa.Table | Path", record: dict[str, Any], ids: "np.ndarray") -> None:
        """Add the mentions of the next chunk: the columns of a shard with `row` and `priority`.

        mentions: a table, or a file of one in this directory (`write_shard`), which is moved.
        ids: hashes of the new ids of the chunk, (n,) uint64.
        """
        import pyarrow as pa

        table = read_shard(mentions) if isinstance(mentions, Path) else mentions
        kept = self._offer(table)
        self.check()
        if isinstance(mentions, Path) and kept.sum() >= MIN_KEPT_FRACTION * len(kept):
            path = mentions
        else:
            path = self.temporary("chunk")
            write_shard(path, table.filter(pa.array(kept)))
            if isinstance(mentions, Path):
                # The worker had old limits.
                mentions.unlink()
        content = {"record": record, "ids": ids.tobytes().hex(), "mentions": _checksum(path)}
        os.replace(path, self._chunk_path(len(self)))
        self.write(
            self._record_path(len(self)).name, json.dumps([content, _checksum_of(content)]).encode()
        )
        self.records.append(record)

    def ids(self) -> Iterator["np.ndarray"]:
        """Yield the hashes of the new ids of each chunk."""
        import numpy as np

        for i in range(len(self)):
            yield np.frombuffer(bytes.fromhex(self._read_record(i)["ids"]), dtype=np.uint64)

    def next_unit(self) -> tuple[int, int]:
        """Return the unit to resume, and the number of its finished chunks.

        Each record has `unit` and `is_last`.
        """
        if not self.records:
            return 0, 0
        last = self.records[-1]
        if last["is_last"]:
            return last["unit"] + 1, 0
        return last["unit"], sum(record["unit"] == last["unit"] for record in self.records)

    def shards(self) -> Iterator["pa.Table"]:
        """Yield the sampled mentions, by entity row and priority, in tables of `SHARD_MENTIONS`."""
        import numpy as np
        import pyarrow as pa

        parts = [read_shard(self._chunk_path(i), SAMPLE_COLUMNS) for i in range(len(self))]
        if not parts:
            return
        chunk_of = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
        row_of = np.concatenate([np.arange(part.num_rows) for part in parts])
        keys = pa.concat_tables(parts)
        order = lowest(keys["row"].to_numpy(), keys["priority"].to_numpy(), self._reservoir.cap)
        names = shard_schema().names
        for start in range(0, len(order), SHARDS_AT_ONCE * SHARD_MENTIONS):
            selected = order[start : start + SHARDS_AT_ONCE * SHARD_MENTIONS]
            # A stable sort by chunk gives the mentions to read from each, and their positions in
            # the result.
            by_chunk = np.argsort(chunk_of[selected], kind="stable")
            chunks, firsts = np.unique(chunk_of[selected][by_chunk], return_index=True)
            positions = np.split(row_of[selected][by_chunk], firsts[1:])
            parts = [
                read_shard(self._chunk_path(chunk), names).take(which)
                for chunk, which in zip(chunks.tolist(), positions, strict=True)
            ]
            back = np.empty(len(selected), dtype="int64")
            back[by_chunk] = np.arange(len(selected))
            table = pa.concat_tables(parts).combine_chunks().take(back).cast(shard_schema())
            for first in range(0, len(selected), SHARD_MENTIONS):
                yield table.slice(first, SHARD_MENTIONS)

    def _restore_chunks(self) -> None:
        for path in self.path.glob("*.tmp"):
            path.unlink()
        while self._record_path(len(self)).exists():
            path = self._chunk_path(len(self))
            try:
                content = self._read_record(len(self))
                if content["mentions"] != _checksum(path):
                    break
            except (FileNotFoundError, ValueError, RecursionError):
                # Truncated by a crash, or damaged: mine it again, with all later chunks.
                break
            self._offer(read_shard(path, SAMPLE_COLUMNS))
            self.records.append(content["record"])

    def _offer(self, mentions: "pa.Table") -> "np.ndarray":
        return self._reservoir.offer(mentions["row"].to_numpy(), mentions["priority"].to_numpy())

    def _read_record(self, i: int) -> dict[str, Any]:
        """Return the record of chunk `i`. Raises ValueError or RecursionError if it is damaged."""
        found: Any = json.loads(self._record_path(i).read_text(encoding="utf8"))
        if not isinstance(found, list) or len(found) != 2 or found[1] != _checksum_of(found[0]):
            raise ValueError(f"{self._record_path(i)} is damaged")
        content: dict[str, Any] = found[0]
        return content

    def _chunk_path(self, i: int) -> Path:
        return self.path / f"{i:06}.arrow"

    def _record_path(self, i: int) -> Path:
        return self.path / f"{i:06}.json"


def work_schema() -> "pa.Schema":
    """Return the columns of a shard, the entity's row in the ontology store, and the priority."""
    import pyarrow as pa

    fields = [
        pa.field("row", pa.int32(), nullable=False),
        pa.field("priority", pa.uint64(), nullable=False),
    ]
    return pa.schema([*shard_schema(), *fields])


def _checksum(path: Path) -> int:
    # Sufficient to detect damage; SHA-256 would slow the one process that handles all chunks.
    return zlib.crc32(path.read_bytes())


def _checksum_of(content: Any) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
