"""The work of an unfinished mining run: one file a chunk of text, and what the run was started with."""

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple, Union

from ..errors import Errors, KrisselError
from ..util.state import STATE, changes_of_state, write_state
from .reservoir import Reservoir, lowest
from .shards import SHARD_MENTIONS, shard_schema, write_shard

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

# Of what is kept for a run to go on.
WORK_VERSION = 3
# Of a file of mentions the part, below which it is written again without the others.
WORTH_KEEPING = 0.5
# What says which mentions are among the sample.
OFFERED = ["row", "priority"]
# Each time all chunks are gone through, and some hundred bytes a mention held.
SHARDS_AT_ONCE = 3


class WorkDirectory:
    """Chunks of mined mentions beside the output, in the directory `.{output}.partial`.

    Chunks are added in the order of the text. Of each there is a file of mentions, and then a record: any JSON, and the
    hashes of the ids of its texts. A run that was stopped at any moment leaves its first chunks, and one that goes on
    need not read again what was read. A mention that can no longer be among its entity's sample is not written, as far
    as its writer can tell: the work of a long run grows with the logarithm of the text.

    state: everything the mentions depend on (settings, hashes of ontology and texts); work of another state is refused.
    restart: throw away what an earlier run left.
    n_rows: entities.
    limits: see `Reservoir`. records: of the chunks.

    Raises KrisselError K302 when an earlier run of another state left work.
    """

    def __init__(
        self, output: Path, state: Dict[str, Any], cap: Optional[int], n_rows: int, *, restart: bool = False
    ) -> None:
        self.path = output.parent / f".{output.name}.partial"
        self._kept = Reservoir(cap, n_rows)
        self.limits = self._kept.limits
        self.records: List[Dict[str, Any]] = []
        if restart:
            self.remove()
        if (self.path / STATE).exists():
            if difference := changes_of_state(self.path, state):
                raise KrisselError(Errors.K302.format(path=self.path, difference=difference))
            self._read_chunks()
        else:
            # Without its state the directory was never begun.
            self.remove()
            self.path.mkdir(parents=True)
            write_state(self.path, state)

    def __len__(self) -> int:
        return len(self.records)

    def add(self, mentions: "Union[pa.Table, Path]", record: Dict[str, Any], ids: "np.ndarray") -> None:
        """Add the mentions of the next chunk: the columns of a shard with `row` and `priority`.

        mentions: a table, or a file of one in this directory (`write_shard`) that no longer belongs to its writer.
        ids: the hashes of ids that the chunk brought, (n,) uint64.
        """
        import pyarrow as pa

        table = _read(mentions) if isinstance(mentions, Path) else mentions
        kept = self._offer(table)
        path = self.path / "chunk.tmp"
        if not isinstance(mentions, Path):
            write_shard(path, table if kept.all() else table.filter(pa.array(kept)))
        elif kept.sum() < WORTH_KEEPING * len(kept):
            # Its writer had limits of long ago.
            write_shard(path, table.filter(pa.array(kept)))
            mentions.unlink()
        else:
            path = mentions
        os.replace(path, self._chunk_path(len(self)))
        self._write(f"{len(self):06}.json", json.dumps({"record": record, "ids": ids.tobytes().hex()}).encode())
        self.records.append(record)

    def ids(self) -> Iterator["np.ndarray"]:
        """The hashes of ids that each chunk brought."""
        import numpy as np

        for i in range(len(self)):
            yield np.frombuffer(bytes.fromhex(self._read_record(i)["ids"]), dtype=np.uint64)

    def next_unit(self) -> Tuple[int, int]:
        """The unit to go on with, and how many chunks of it there are already. Each record has `unit` and `is_last`."""
        if not self.records:
            return 0, 0
        last = self.records[-1]
        if last["is_last"]:
            return last["unit"] + 1, 0
        return last["unit"], sum(record["unit"] == last["unit"] for record in self.records)

    def shards(self) -> Iterator["pa.Table"]:
        """The sampled mentions, by entity row and priority, in tables of `SHARD_MENTIONS`."""
        import numpy as np
        import pyarrow as pa

        parts = [_read(self._chunk_path(i), OFFERED) for i in range(len(self))]
        if not parts:
            return
        chunk_of = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
        place_of = np.concatenate([np.arange(part.num_rows) for part in parts])
        keys = pa.concat_tables(parts)
        order = lowest(keys["row"].to_numpy(), keys["priority"].to_numpy(), self._kept.cap)
        names = shard_schema().names
        for start in range(0, len(order), SHARDS_AT_ONCE * SHARD_MENTIONS):
            selected = order[start : start + SHARDS_AT_ONCE * SHARD_MENTIONS]
            # A stable sort by chunk says which mentions to read of each, and where each of them went.
            by_chunk = np.argsort(chunk_of[selected], kind="stable")
            chunks, firsts = np.unique(chunk_of[selected][by_chunk], return_index=True)
            places = np.split(place_of[selected][by_chunk], firsts[1:])
            pieces = [
                _read(self._chunk_path(chunk), names).take(which) for chunk, which in zip(chunks.tolist(), places)
            ]
            back = np.empty(len(selected), dtype="int64")
            back[by_chunk] = np.arange(len(selected))
            table = pa.concat_tables(pieces).combine_chunks().take(back).cast(shard_schema())
            for first in range(0, len(selected), SHARD_MENTIONS):
                yield table.slice(first, SHARD_MENTIONS)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _read_chunks(self) -> None:
        import pyarrow as pa

        for path in self.path.glob("*.tmp"):
            path.unlink()
        while self._record_path(len(self)).exists():
            try:
                table = _read(self._chunk_path(len(self)), OFFERED)
                record = self._read_record(len(self))["record"]
            except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
                # Cut short by a crash of the machine: mined again, with all that came after it.
                break
            self._offer(table)
            self.records.append(record)

    def _offer(self, mentions: "pa.Table") -> "np.ndarray":
        return self._kept.offer(mentions["row"].to_numpy(), mentions["priority"].to_numpy())

    def _read_record(self, i: int) -> Dict[str, Any]:
        found: Dict[str, Any] = json.loads(self._record_path(i).read_text(encoding="utf8"))
        return found

    def _chunk_path(self, i: int) -> Path:
        return self.path / f"{i:06}.arrow"

    def _record_path(self, i: int) -> Path:
        return self.path / f"{i:06}.json"

    def _write(self, name: str, content: bytes) -> None:
        temporary = self.path / f"{name}.tmp"
        temporary.write_bytes(content)
        os.replace(temporary, self.path / name)


def work_schema() -> "pa.Schema":
    """The columns of a shard, with the entity's row in the ontology store and the mention's sampling priority."""
    import pyarrow as pa

    fields = [pa.field("row", pa.int32(), nullable=False), pa.field("priority", pa.uint64(), nullable=False)]
    return pa.schema([*shard_schema(), *fields])


def _read(path: Path, columns: Optional[List[str]] = None) -> "pa.Table":
    import pyarrow as pa

    # Not kept open: a long run has more chunks than a process may have files.
    with pa.memory_map(str(path)) as file_:
        table = pa.ipc.open_file(file_).read_all()
        return table if columns is None else table.select(columns)
