"""The work of an unfinished mining run: one file a chunk of text, and what the run was started with."""

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

from ..errors import Errors, KrisselError
from .reservoir import Reservoir
from .shards import SHARD_MENTIONS, shard_schema, write_shard

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

STATE = "state.json"


class WorkDirectory:
    """Chunks of mined mentions beside the output, in the directory `.{output}.partial`.

    Chunks are added in the order of the text, each by rename when it is whole, so that a run that was stopped at any
    moment leaves its first chunks. A mention that can no longer be among its entity's sample is not written: the work
    of a long run grows with the logarithm of the text.

    state: everything the mentions depend on (settings, hashes of ontology and texts); work of another state is refused.
    restart: throw away what an earlier run left.

    Raises KrisselError K302 when an earlier run of another state left work.
    """

    def __init__(self, output: Path, state: Dict[str, Any], cap: Optional[int], *, restart: bool = False) -> None:
        self.path = output.parent / f".{output.name}.partial"
        self._kept: Reservoir[None] = Reservoir(cap)
        self.chunks: List[Dict[str, int]] = []
        if restart:
            self.remove()
        if (self.path / STATE).exists():
            self._check_state(state)
            self._read_chunks()
        else:
            # Without its state the directory was never begun.
            self.remove()
            self.path.mkdir(parents=True)
            self._write(STATE, json.dumps(state, indent=2, sort_keys=True).encode())

    def __len__(self) -> int:
        return len(self.chunks)

    def add(self, mentions: "pa.Table", counts: Dict[str, int]) -> None:
        """Add the mentions of the next chunk: the columns of a shard with `row` and `priority`; and its counts."""
        import pyarrow as pa

        kept = self._offer(mentions)
        table = mentions.filter(pa.array(kept, pa.bool_())).replace_schema_metadata({"counts": json.dumps(counts)})
        temporary = self.path / "chunk.tmp"
        write_shard(temporary, table)
        os.replace(temporary, self._chunk_path(len(self.chunks)))
        self.chunks.append(counts)

    def total(self, count: str) -> int:
        return sum(counts[count] for counts in self.chunks)

    def shards(self) -> Iterator["pa.Table"]:
        """The sampled mentions, by entity row and priority, in tables of `SHARD_MENTIONS`."""
        import numpy as np
        import pyarrow as pa

        parts = [self._read(i, ["row", "priority"]) for i in range(len(self))]
        if not parts:
            return
        chunk_of = np.repeat(np.arange(len(parts)), [part.num_rows for part in parts])
        place_of = np.concatenate([np.arange(part.num_rows) for part in parts])
        keys = pa.concat_tables(parts)
        order = _sampled(keys["row"].to_numpy(), keys["priority"].to_numpy(), self._kept.cap)
        names = shard_schema().names
        for start in range(0, len(order), SHARD_MENTIONS):
            selected = order[start : start + SHARD_MENTIONS]
            chunks = chunk_of[selected]
            pieces = []
            for chunk in np.unique(chunks):
                pieces.append(self._read(int(chunk), names).take(place_of[selected[chunks == chunk]]))
            # The pieces are in chunk order: a stable sort by chunk says where each selected mention went.
            back = np.empty(len(selected), dtype="int64")
            back[np.argsort(chunks, kind="stable")] = np.arange(len(selected))
            table = pa.concat_tables(pieces).combine_chunks().take(back)
            yield table.cast(shard_schema())

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)

    def _check_state(self, state: Dict[str, Any]) -> None:
        try:
            earlier = json.loads((self.path / STATE).read_text(encoding="utf8"))
        except ValueError:
            earlier = {}
        differing = sorted(key for key in {*earlier, *state} if earlier.get(key) != state.get(key))
        if differing:
            shown = [_difference(key, earlier.get(key), state.get(key)) for key in differing]
            raise KrisselError(Errors.K302.format(path=self.path, difference="; ".join(shown)))

    def _read_chunks(self) -> None:
        import pyarrow as pa

        while self._chunk_path(len(self)).exists():
            try:
                table = self._read(len(self), ["row", "priority"])
                counts = json.loads(table.schema.metadata[b"counts"])
            except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
                # Cut short by a crash of the machine: mined again, with all that came after it.
                break
            self._offer(table)
            self.chunks.append(counts)

    def _offer(self, mentions: "pa.Table") -> List[bool]:
        rows, priorities = mentions["row"].to_pylist(), mentions["priority"].to_pylist()
        return [self._kept.offer(row, priority, None) for row, priority in zip(rows, priorities)]

    def _read(self, i: int, columns: List[str]) -> "pa.Table":
        import pyarrow as pa

        # Not kept open: a long run has more chunks than a process may have files.
        with pa.memory_map(str(self._chunk_path(i))) as file_:
            return pa.ipc.open_file(file_).read_all().select(columns)

    def _chunk_path(self, i: int) -> Path:
        return self.path / f"chunk-{i:06}.arrow"

    def _write(self, name: str, content: bytes) -> None:
        temporary = self.path / f"{name}.tmp"
        temporary.write_bytes(content)
        os.replace(temporary, self.path / name)


def work_schema() -> "pa.Schema":
    """The columns of a shard, with the entity's row in the ontology store and the mention's sampling priority."""
    import pyarrow as pa

    fields = [pa.field("row", pa.int32(), nullable=False), pa.field("priority", pa.uint64(), nullable=False)]
    return pa.schema([*shard_schema(), *fields])


def _sampled(rows: "np.ndarray", priorities: "np.ndarray", cap: Optional[int]) -> "np.ndarray":
    """Positions of the first `cap` mentions of each row by priority (n ≤ len(rows)), by row and priority."""
    import numpy as np

    order = np.lexsort((priorities, rows))
    if cap is None:
        return order
    ordered = rows[order]
    first = np.searchsorted(ordered, ordered, side="left")
    return order[np.arange(len(order)) - first < cap]


def _difference(key: str, earlier: Any, now: Any) -> str:
    if isinstance(now, (int, float, str, type(None))) and len(str(now)) < 40:
        return f"{key} was {earlier!r} and is {now!r}"
    return f"{key} changed"
