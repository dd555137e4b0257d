"""Exhaustive search, the reference for every other index: NumPy, or torch on CUDA devices."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import Errors, KrisselError
from ..util.lock import Lock
from ..util.settings import checked, factory_for
from . import devices
from .devices import ALL_CARDS, check_device, missing_device, warn_cpu
from .hits import Block, merge_hits, no_hits, rank_hits, search_blocks
from .protocol import Mask, Rows, Scores, Vectors, check_mask, check_queries, check_vectors

if TYPE_CHECKING:
    from .shard import Shard

# Vectors compared at a time on the CPU: 256 x 32,768 scores are 32 MB.
BLOCK_ROWS = 32_768


@checked
class ExactIndex:
    """Compares every query with every vector. Equal scores are in the order of their rows.

    device: "cpu", "cuda", "cuda:N", or "cuda:all" (the vectors are divided among all cards). On
        cards, vectors take the same space as in the knowledge base, two bytes per value with
        float16. Without that device it warns (KW503) and searches on the CPU.
    """

    kind = "exact"
    owns_vectors = False

    def __init__(self, device: str = "cpu") -> None:
        self.device = check_device(device)
        self._vectors: Vectors = np.zeros((0, 0), dtype=np.float32)
        self._shards: list[Shard] = []
        self._shards_lock = Lock()

    @property
    def settings(self) -> dict[str, Any]:
        return {}

    def can_read(self, settings: dict[str, Any]) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._vectors)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_shards": []}

    def build(self, vectors: Vectors) -> None:
        self._vectors = check_vectors(vectors, None, "vectors")
        self._shards = []

    def add(self, vectors: Vectors) -> None:
        vectors = check_vectors(vectors, self._vectors.shape[1] if len(self) else None, "vectors")
        self.build(np.concatenate([self._vectors, vectors]) if len(self) else vectors)

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> tuple[Scores, Rows]:
        if not len(self):
            raise KrisselError(Errors.K508)
        queries = check_queries(queries, self._vectors.shape[1])
        if allowed is not None:
            allowed = check_mask(allowed, len(self), "vector")
            allowed = None if allowed.all() else allowed
        if self._is_on_cards():
            return self._search_cards(queries, k, allowed)
        chosen = None if allowed is None else np.flatnonzero(allowed)
        blocks = vector_blocks(self._vectors, chosen)
        # A pipeline with an approximate index never gets here.
        from . import bfloat16

        if len(queries) >= bfloat16.MIN_QUERIES and bfloat16.has_bfloat16():
            devices.guard_forks()
            scores, rows, left = bfloat16.search_rounded(blocks, self._vectors, queries, k)
            if len(left):
                blocks = vector_blocks(self._vectors, chosen)
                scores[left], rows[left] = search_blocks(blocks, queries[left], k)
            return scores, rows
        return search_blocks(blocks, queries, k)

    def to_disk(self, directory: Path) -> None:
        """Write nothing: the vectors are all there is."""

    def from_disk(self, directory: Path, vectors: Vectors) -> None:
        # Not checked row by row: memory-mapped vectors should be read only when they are searched.
        self._vectors = vectors
        self._shards = []

    def _is_on_cards(self) -> bool:
        if self.device == "cpu" or devices.cuda_lost():
            return False
        if problem := "" if self._shards else missing_device(self.device):
            warn_cpu(self.device, problem)
        return not problem

    def _search_cards(self, queries: Vectors, k: int, allowed: Mask | None) -> tuple[Scores, Rows]:
        def search(shard: "Shard") -> tuple[Scores, Rows]:
            own = slice(shard.first, shard.first + len(shard.tensor))
            return shard.search(queries, k, None if allowed is None else allowed[own])

        with self._shards_lock:
            shards = self._on_devices()
        if len(shards) == 1:
            return search(shards[0])
        with ThreadPoolExecutor(len(shards)) as threads:
            return merge_hits(list(threads.map(search, shards)), k)

    def _on_devices(self) -> "list[Shard]":
        from .shard import Shard, upload

        if not self._shards:
            devices.note_cuda()
            devices.guard_forks()
            chosen = _all_devices() if self.device == ALL_CARDS else [self.device]
            edges = np.linspace(0, len(self), len(chosen) + 1).astype(np.int64).tolist()
            self._shards = [
                Shard.of(first, upload(self._vectors[first:last], device))
                for device, first, last in zip(chosen, edges, edges[1:], strict=False)
            ]
        return self._shards


def _all_devices() -> list[str]:
    import torch

    return [f"cuda:{number}" for number in range(torch.cuda.device_count())]


def vector_blocks(vectors: Vectors, rows: Rows | None = None) -> Iterator[Block]:
    """Yield the chosen rows of `vectors` (n, d), or all of them, in float32 blocks."""
    for start in range(0, len(vectors if rows is None else rows), BLOCK_ROWS):
        stop = start + BLOCK_ROWS
        # No gather if all are chosen: it would copy them.
        chosen = vectors[start:stop] if rows is None else vectors[rows[start:stop]]
        numbers = np.arange(start, start + len(chosen)) if rows is None else rows[start:stop]
        yield numbers, np.asarray(chosen, dtype=np.float32)


# Vector values in memory at a time (float32: 16 MB, close to the size of caches).
BLOCK_VALUES = 4_000_000


def vectors_at(parts: Sequence[Vectors], rows: Rows) -> Vectors:
    """Return the vectors at `rows` (n,), all valid, of consecutive arrays: (n, d) float32."""
    if len(parts) == 1:
        return parts[0][rows].astype(np.float32)
    found = np.empty((len(rows), parts[0].shape[1]), dtype=np.float32)
    start = 0
    for part in parts:
        inside = np.flatnonzero((rows >= start) & (rows < start + len(part)))
        found[inside] = part[rows[inside] - start]
        start += len(part)
    return found


def rescored(parts: Sequence[Vectors], queries: Vectors, rows: Rows, k: int) -> tuple[Scores, Rows]:
    """Return the best `k` of the found `rows` (q, w) by their exact inner products.

    parts: the vectors, in consecutive arrays. queries: (q, d). rows: padded with -1.
    RETURNS: scores and rows (q, k), best first, equal scores by row; padded with -inf and -1.
    """
    scores, best = no_hits(len(queries), k)
    step = max(1, BLOCK_VALUES // max(1, rows.shape[1] * queries.shape[1]))
    for start in range(0, len(queries), step):
        part = rows[start : start + step]
        # (s, w, d)
        vectors = vectors_at(parts, np.maximum(part, 0).ravel()).reshape(*part.shape, -1)
        products = (vectors @ queries[start : start + step, :, None])[..., 0]
        query, column = np.nonzero(part >= 0)
        hits = query, part[query, column], products[query, column]
        scores[start : start + step], best[start : start + step] = rank_hits(*hits, len(part), k)
    return scores, best


make_exact_index = factory_for(ExactIndex)
