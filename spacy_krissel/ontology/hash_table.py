"""An index from texts to places, as sorted 64-bit hashes that are memory-mapped from an Arrow file.

Two texts may have one hash, so a lookup gives candidates, and whoever asks compares the real texts.
"""

from array import array
from pathlib import Path
from typing import Dict, List, Sequence, Tuple, Union

import numpy as np
import pyarrow as pa

from .folding import hash_text

# Of an index.
INDEX_COLUMNS = {"hash": np.uint64, "row": np.uint32, "position": np.uint32}


class HashIndexBuilder:
    """Collects (hash, row, position) compactly: 16 bytes an entry."""

    def __init__(self) -> None:
        self._hashes = array("Q")
        self._rows = array("I")
        self._positions = array("I")

    def add(self, text: str, row: int, position: int) -> None:
        self._hashes.append(hash_text(text))
        self._rows.append(row)
        self._positions.append(position)

    def columns(self) -> Dict[str, np.ndarray]:
        """`hash`, `row` and `position` in the order in which they were added."""
        return {
            "hash": np.array(self._hashes, dtype=np.uint64),
            "row": np.array(self._rows, dtype=np.uint32),
            "position": np.array(self._positions, dtype=np.uint32),
        }


def write_columns(columns: Dict[str, np.ndarray], path: Union[str, Path]) -> None:
    """Write arrays of one length as one Arrow record batch."""
    batch = pa.record_batch([pa.array(column) for column in columns.values()], names=list(columns))
    with pa.ipc.new_file(str(path), batch.schema) as writer:
        writer.write_batch(batch)


def read_columns(path: Union[str, Path]) -> Dict[str, np.ndarray]:
    """The arrays of `write_columns`, memory-mapped. Raises whatever pyarrow and numpy do when the file is damaged."""
    with pa.memory_map(str(path)) as source:
        batch = pa.ipc.open_file(source).get_batch(0)
    # Of numbers without nulls, this is all that there is to check.
    batch.validate()
    return {name: batch.column(name).to_numpy() for name in batch.schema.names}


def find_hash(hashes: np.ndarray, text: str) -> range:
    """The places in the sorted `hashes` (n,) that hold the hash of `text`."""
    # A plain int above 2**63 would make numpy compare floats.
    value = np.uint64(hash_text(text))
    start = int(hashes.searchsorted(value))
    end = start
    while end < len(hashes) and hashes[end] == value:
        end += 1
    return range(start, end)


def find_hashes(hashes: np.ndarray, texts: Sequence[str]) -> Tuple[np.ndarray, np.ndarray]:
    """For each of `texts`, the first place in the sorted `hashes` (n,) that holds its hash, n where none does; and
    whether there are more."""
    wanted = np.fromiter((hash_text(text) for text in texts), dtype=np.uint64, count=len(texts))
    order = np.argsort(wanted)  # in their order, the search goes through the index once
    starts = np.empty(len(wanted), dtype=np.int64)
    starts[order] = hashes.searchsorted(wanted[order])
    found, more = (_holds(hashes, starts + step, wanted) for step in (0, 1))
    return np.where(found, starts, len(hashes)), found & more


def _holds(hashes: np.ndarray, places: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    inside = places < len(hashes)
    holds = np.zeros(len(places), dtype=bool)
    holds[inside] = hashes[places[inside]] == wanted[inside]
    return holds


def groups_across_rows(hashes: np.ndarray, rows: np.ndarray) -> List[range]:
    """Runs of equal values in the sorted `hashes` (n,) that hold more than one of `rows` (n,)."""
    if not len(hashes):
        return []
    starts = np.flatnonzero(np.concatenate(([True], hashes[1:] != hashes[:-1])))
    mixed = np.minimum.reduceat(rows, starts) != np.maximum.reduceat(rows, starts)
    ends = np.append(starts[1:], len(hashes))
    return [range(start, end) for start, end in zip(starts[mixed].tolist(), ends[mixed].tolist(), strict=True)]
