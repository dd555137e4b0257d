"""Exhaustive search, the measure of every other index: NumPy, or torch on one or all CUDA devices."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import Errors, KrisselError
from ..util.lock import Lock
from ..util.settings import checked, maker
from . import fork
from .checks import check_device, check_mask, check_queries, check_vectors
from .protocol import Mask, Rows, Scores, Vectors

# Scores held at a time: 256 x 32,768 float32 are 32 MB on the CPU, 1,024 x 262,144 are 1 GB on a card.
QUERY_ROWS, BLOCK_ROWS = 256, 32_768
CUDA_QUERY_ROWS, CUDA_BLOCK_ROWS = 1024, 262_144
# Row numbers (b,) and their vectors (b, d); a torch tensor where they lie on a device.
Block = tuple[Rows, Any]
# (queries, block, k, floor) -> query number, position in the block and score of everything that may be among the best.
FindHits = Callable[[Vectors, Any, int, Scores], tuple[Rows, Rows, Scores]]


@checked
class ExactIndex:
    """Compares every query with every vector. Equal scores come in the order of their rows.

    device: "cpu", "cuda", "cuda:N", or "cuda:all" (the vectors are divided among all cards). On cards vectors take the
        space that they do in the knowledge base, two bytes per value with float16.
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

    def reads(self, settings: dict[str, Any]) -> bool:
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
        rows = np.arange(len(self)) if allowed is None else np.flatnonzero(check_mask(allowed, len(self), "vector"))
        if self.device == "cpu" or fork.cuda_lost():
            return search_blocks(vector_blocks(self._vectors, rows), queries, k)
        with self._shards_lock:
            shards = self._on_devices()
        if len(shards) == 1:
            return shards[0].search(rows, queries, k)
        with ThreadPoolExecutor(len(shards)) as threads:
            parts = list(threads.map(lambda shard: shard.search(rows, queries, k), shards))
        # In the order of the shards, which is that of the rows: equal scores stay in it.
        scores, found = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, order, axis=1), np.take_along_axis(found, order, axis=1)

    def to_disk(self, directory: Path) -> None:
        """Writes nothing: the vectors are all there is."""

    def from_disk(self, directory: Path, vectors: Vectors) -> None:
        # Not checked row by row: memory-mapped vectors are to be read when they are searched, not before.
        self._vectors = vectors
        self._shards = []

    def _on_devices(self) -> list["Shard"]:
        if not self._shards:
            import torch

            if not torch.cuda.is_available():
                problem = "torch finds no CUDA device"
                raise KrisselError(Errors.K502.format(device=self.device, problem=problem, library="torch with CUDA"))
            fork.note_cuda()
            fork.guard_forks()
            devices = _all_devices() if self.device == "cuda:all" else [self.device]
            edges = np.linspace(0, len(self), len(devices) + 1).astype(np.int64).tolist()
            self._shards = [
                # A copy, because torch warns of memory that cannot be written, as mapped vectors cannot.
                Shard(first, torch.from_numpy(np.array(self._vectors[first:last])).to(device))
                for device, first, last in zip(devices, edges, edges[1:], strict=False)
            ]
        return self._shards


class Shard(NamedTuple):
    """Vectors on a device. first: the row of the first of them. tensor: (n, d)."""

    first: int
    tensor: Any

    def search(self, rows: Rows, queries: Vectors, k: int) -> tuple[Scores, Rows]:
        """As `search_blocks`, over those of the ascending rows that are here."""
        here = rows[np.searchsorted(rows, self.first) : np.searchsorted(rows, self.first + len(self.tensor))]
        blocks = ((block, self._vectors(block)) for block in _cut(here, CUDA_BLOCK_ROWS))
        return search_blocks(blocks, queries, k, find_hits=torch_hits, query_rows=CUDA_QUERY_ROWS)

    def _vectors(self, rows: Rows) -> Any:
        import torch

        return self.tensor[torch.from_numpy(rows - self.first).to(self.tensor.device)].float()


def _all_devices() -> list[str]:
    import torch

    return [f"cuda:{number}" for number in range(torch.cuda.device_count())]


def vector_blocks(vectors: Vectors, rows: Rows) -> Iterator[Block]:
    """The chosen rows of `vectors` (n, d) in float32 blocks small enough to search."""
    whole = len(rows) == len(vectors)
    for block in _cut(rows, BLOCK_ROWS):
        chosen = vectors[block[0] : block[-1] + 1] if whole else vectors[block]
        yield block, np.asarray(chosen, dtype=np.float32)


def search_blocks(
    blocks: Iterable[Block],
    queries: Vectors,
    k: int,
    find_hits: FindHits | None = None,
    query_rows: int = QUERY_ROWS,
) -> tuple[Scores, Rows]:
    """The `k` highest inner products of queries (q, d) over all blocks, which come in ascending order of rows.

    RETURNS: scores (q, k) and rows (q, k), best first, equal scores by row; padded with -inf and -1.
    """
    find_hits = find_hits or numpy_hits
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    rows = np.full((len(queries), k), -1, dtype=np.int64)
    if not k:
        return scores, rows
    for row_numbers, vectors in blocks:
        for start in range(0, len(queries), query_rows):
            part = slice(start, start + query_rows)
            # A later block wins a place only with a higher score than the last one placed: equal ones have lower rows.
            floor = np.nextafter(scores[part, -1], np.float32(np.inf))
            query, position, score = find_hits(queries[part], vectors, k, floor)
            if not len(query):
                continue
            new_scores, new_rows = rank_hits(query, row_numbers[position], score, len(floor), k)
            all_scores = np.concatenate([scores[part], new_scores], axis=1)
            all_rows = np.concatenate([rows[part], new_rows], axis=1)
            order = np.argsort(-all_scores, axis=1, kind="stable")[:, :k]
            scores[part] = np.take_along_axis(all_scores, order, axis=1)
            rows[part] = np.take_along_axis(all_rows, order, axis=1)
    return scores, rows


def numpy_hits(queries: Vectors, vectors: Vectors, k: int, floor: Scores) -> tuple[Rows, Rows, Scores]:
    scores = queries @ vectors.T  # (q, b)
    hits = np.flatnonzero(scores >= np.maximum(lower_bound(scores, k), floor)[:, None])
    query, position = np.divmod(hits, scores.shape[1])
    return query, position, scores.reshape(-1)[hits]


def torch_hits(queries: Vectors, vectors: Any, k: int, floor: Scores) -> tuple[Rows, Rows, Scores]:
    import torch

    scores = torch.from_numpy(queries).to(vectors.device) @ vectors.T  # (q, b)
    # `topk` alone would leave the order of equal scores to chance.
    bound = torch.topk(scores, min(k, scores.shape[1]), dim=1).values[:, -1]
    hits = scores >= torch.maximum(bound, torch.from_numpy(floor).to(vectors.device))[:, None]
    query, position = torch.nonzero(hits, as_tuple=True)
    return query.cpu().numpy(), position.cpu().numpy(), scores[hits].cpu().numpy()


def lower_bound(scores: Scores, k: int) -> Scores:
    """For each row of scores (q, n) a bound that at least `k` of them reach, and few others: (q,).

    It is the k-th highest maximum over groups of columns. Taking it costs a tenth of a partition of all scores.
    """
    n = scores.shape[1]
    if k >= n:
        return np.full(len(scores), -np.inf, dtype=np.float32)
    # At least four groups for each one wanted, so that two of the best seldom share a group.
    size = max(1, min(64, n // (4 * k)))
    grouped = n - n % size
    maxima = scores[:, :grouped].reshape(len(scores), size, grouped // size).max(axis=1)
    maxima = np.concatenate([maxima, scores[:, grouped:]], axis=1)
    return np.partition(maxima, maxima.shape[1] - k, axis=1)[:, -k]


def rank_hits(query: Rows, row: Rows, score: Scores, n_queries: int, k: int) -> tuple[Scores, Rows]:
    """The best `k` of a ragged list of hits, all arrays (h,), as scores and rows (n_queries, k), padded."""
    order = np.lexsort((row, -score, query))
    query, row, score = query[order], row[order], score[order]
    place = np.arange(len(query)) - np.searchsorted(query, np.arange(n_queries))[query]
    kept = place < k
    scores: Scores = np.full((n_queries, k), -np.inf, dtype=np.float32)
    rows: Rows = np.full((n_queries, k), -1, dtype=np.int64)
    scores[query[kept], place[kept]] = score[kept]
    rows[query[kept], place[kept]] = row[kept]
    return scores, rows


def _cut(rows: Rows, size: int) -> Iterator[Rows]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


# Values of vectors that are held at a time (float32: 16 MB, which caches are not far from).
BLOCK_VALUES = 4_000_000


class StoredVectors:
    """The vectors that an index was built from, where they lie: in memory or mapped, one array behind another."""

    def __init__(self, parts: Sequence[Vectors]) -> None:
        self._parts: list[Vectors] = list(parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def copy(self) -> "StoredVectors":
        return StoredVectors(self._parts)

    def add(self, vectors: Vectors) -> None:
        self._parts.append(vectors)

    def at(self, rows: Rows) -> Vectors:
        """Those at `rows` (n,), all of them valid: (n, d) float32."""
        if len(self._parts) == 1:
            return self._parts[0][rows].astype(np.float32)
        found = np.empty((len(rows), self._parts[0].shape[1]), dtype=np.float32)
        start = 0
        for part in self._parts:
            inside = np.flatnonzero((rows >= start) & (rows < start + len(part)))
            found[inside] = part[rows[inside] - start]
            start += len(part)
        return found

    def whole(self) -> Vectors:
        """A copy of all of them."""
        return np.concatenate([np.asarray(part) for part in self._parts])


def refined(stored: StoredVectors, queries: Vectors, rows: Rows, k: int) -> tuple[Scores, Rows]:
    """The best `k` of the found `rows` (q, w), padded with -1, by their inner products with the queries (q, d).

    RETURNS: scores and rows (q, k), best first, equal scores by row; padded with -inf and -1.
    """
    scores = np.full((len(queries), k), -np.inf, dtype=np.float32)
    best = np.full((len(queries), k), -1, dtype=np.int64)
    step = max(1, BLOCK_VALUES // max(1, rows.shape[1] * queries.shape[1]))
    for start in range(0, len(queries), step):
        part = rows[start : start + step]
        vectors = stored.at(np.maximum(part, 0).ravel()).reshape(*part.shape, -1)  # (s, w, d)
        products = (vectors @ queries[start : start + step, :, None])[..., 0]
        products[part < 0] = -np.inf
        order = np.lexsort((part, -products), axis=1)[:, :k]
        width = order.shape[1]
        scores[start : start + step, :width] = np.take_along_axis(products, order, axis=1)
        best[start : start + step, :width] = np.take_along_axis(part, order, axis=1)
    return scores, best


make_exact_index = maker(ExactIndex)
