"""Exhaustive search, the measure of every other index: NumPy, or torch on one or all CUDA devices."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import Errors, KrisselError
from ..util.lock import Lock
from ..util.settings import checked, maker
from . import fork
from .bfloat16 import FEWEST_QUERIES, has_bfloat16, rounded_blocks, rounded_hits
from .checks import check_device, check_mask, check_queries, check_vectors
from .hits import Block, group_size, no_hits, numpy_hits, rank_hits
from .protocol import Mask, Rows, Scores, Vectors

# Scores held at a time: 256 x 32,768 float32 are 32 MB on the CPU, 1,024 x 262,144 float16 are 512 MB on a card.
QUERY_ROWS, BLOCK_ROWS = 256, 32_768
CUDA_QUERY_ROWS, CUDA_BLOCK_ROWS = 1024, 262_144
# Hits whose score is computed again at a time: 65,536 of width 768 are 200 MB.
CUDA_HITS = 65_536
# The largest error of a score by float16 or TF32, relative to both norms: factors, partial sums and the result are
# rounded to 11 bits.
HALF_ERROR = 4 * 2.0**-11
HALF_MAX = 6e4
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
            blocks = vector_blocks(self._vectors, rows)
            if len(queries) >= FEWEST_QUERIES and has_bfloat16():
                fork.guard_forks()
                return search_blocks(rounded_blocks(blocks), queries, k, find_hits=rounded_hits)
            return search_blocks(blocks, queries, k)
        with self._shards_lock:
            shards = self._on_devices()
        if len(shards) == 1:
            return shards[0].search(rows, queries, k)
        with ThreadPoolExecutor(len(shards)) as threads:
            parts = list(threads.map(lambda shard: shard.search(rows, queries, k), shards))
        return _merged(parts, k)

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
                Shard.of(first, torch.from_numpy(np.array(self._vectors[first:last])).to(device))
                for device, first, last in zip(devices, edges, edges[1:], strict=False)
            ]
        return self._shards


class Shard(NamedTuple):
    """Vectors on a device. first: the row of the first of them. tensor: (n, d). norm: of the longest."""

    first: int
    tensor: Any
    norm: float

    @classmethod
    def of(cls, first: int, tensor: Any) -> "Shard":
        return cls(first, tensor, max((longest(part) for part in tensor.split(CUDA_BLOCK_ROWS)), default=0.0))

    def search(self, rows: Rows, queries: Vectors, k: int) -> tuple[Scores, Rows]:
        """As `search_blocks`, over those of the ascending rows that are here."""
        here = rows[np.searchsorted(rows, self.first) : np.searchsorted(rows, self.first + len(self.tensor))]
        blocks = ((block, self._vectors(block)) for block in _cut(here, CUDA_BLOCK_ROWS))
        find_hits = partial(torch_hits, norm=self.norm)
        return search_blocks(blocks, queries, k, find_hits=find_hits, query_rows=CUDA_QUERY_ROWS)

    def _vectors(self, rows: Rows) -> Any:
        import torch

        first, last = int(rows[0]) - self.first, int(rows[-1]) - self.first + 1
        if last - first == len(rows):
            return self.tensor[first:last]
        return self.tensor[torch.from_numpy(rows - self.first).to(self.tensor.device)]


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
    blocks: Iterable[Block], queries: Vectors, k: int, find_hits: FindHits = numpy_hits, query_rows: int = QUERY_ROWS
) -> tuple[Scores, Rows]:
    """The `k` highest inner products of queries (q, d) over all blocks, which come in ascending order of rows.

    RETURNS: scores (q, k) and rows (q, k), best first, equal scores by row; padded with -inf and -1.
    """
    scores, rows = no_hits(len(queries), k)
    if not k:
        return scores, rows
    for row_numbers, vectors in blocks:
        for start in range(0, len(queries), query_rows):
            part = slice(start, start + query_rows)
            # A later block wins a place only with a higher score than the last one placed: equal ones have lower rows.
            floor = np.nextafter(scores[part, -1], np.float32(np.inf))
            query, position, score = find_hits(queries[part], vectors, k, floor)
            if len(query):
                new = rank_hits(query, row_numbers[position], score, len(floor), k)
                scores[part], rows[part] = _merged([(scores[part], rows[part]), new], k)
    return scores, rows


def torch_hits(
    queries: Vectors, vectors: Any, k: int, floor: Scores, norm: float | None = None
) -> tuple[Rows, Rows, Scores]:
    """The scores of vectors (b, d), of which the longest has this norm, are those of float32: a product in their own
    type, or in TF32, chooses all that its error leaves among the best, and these are computed again."""
    import torch

    norm = longest(vectors) if norm is None else norm
    q, lowest = (torch.from_numpy(each).to(vectors.device) for each in (queries, floor))
    # Unit queries, so that no score is out of float16's range.
    lengths = torch.linalg.vector_norm(q, dim=1, keepdim=True).clamp_min(torch.finfo(torch.float32).tiny)
    half = vectors if norm < HALF_MAX else vectors.float()
    scores = (q / lengths).to(half.dtype) @ half.T  # (q, b)
    size = group_size(scores.shape[1], k)
    grouped = scores.shape[1] - scores.shape[1] % size
    maxima = torch.cat([scores[:, :grouped].unflatten(1, (size, -1)).amax(dim=1), scores[:, grouped:]], dim=1)
    bound = torch.topk(maxima, min(k, maxima.shape[1]), dim=1).values[:, -1].float()
    error = HALF_ERROR * norm
    bound = torch.maximum(bound - 2 * error, lowest / lengths[:, 0] - error)
    query, position = torch.nonzero(scores >= bound[:, None], as_tuple=True)
    # No matrix product, which TF32 would round.
    parts = zip(query.split(CUDA_HITS), position.split(CUDA_HITS), strict=True)
    exact = torch.cat([(q[some] * vectors[places].float()).sum(dim=1) for some, places in parts])
    kept = exact >= lowest[query]
    return query[kept].cpu().numpy(), position[kept].cpu().numpy(), exact[kept].cpu().numpy()


def longest(vectors: Any) -> float:
    """The norm of the longest row of a tensor (n, d)."""
    return float(vectors.float().norm(dim=1).max()) if len(vectors) else 0.0


def _merged(parts: Iterable[tuple[Scores, Rows]], k: int) -> tuple[Scores, Rows]:
    """The best `k` of parts (q, any); of equal scores that of the earlier part, which has the lower rows."""
    scores, rows = (np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _cut(rows: Rows, size: int) -> Iterator[Rows]:
    for start in range(0, len(rows), size):
        yield rows[start : start + size]


# Values of vectors that are held at a time (float32: 16 MB, which caches are not far from).
BLOCK_VALUES = 4_000_000


def vectors_at(parts: Sequence[Vectors], rows: Rows) -> Vectors:
    """Those at `rows` (n,), all of them valid, of arrays that follow each other: (n, d) float32."""
    if len(parts) == 1:
        return parts[0][rows].astype(np.float32)
    found = np.empty((len(rows), parts[0].shape[1]), dtype=np.float32)
    start = 0
    for part in parts:
        inside = np.flatnonzero((rows >= start) & (rows < start + len(part)))
        found[inside] = part[rows[inside] - start]
        start += len(part)
    return found


def refined(parts: Sequence[Vectors], queries: Vectors, rows: Rows, k: int) -> tuple[Scores, Rows]:
    """The best `k` of the found `rows` (q, w), padded with -1, by their inner products with the queries (q, d).

    parts: the vectors, in arrays that follow each other.
    RETURNS: scores and rows (q, k), best first, equal scores by row; padded with -inf and -1.
    """
    scores, best = no_hits(len(queries), k)
    step = max(1, BLOCK_VALUES // max(1, rows.shape[1] * queries.shape[1]))
    for start in range(0, len(queries), step):
        part = rows[start : start + step]
        vectors = vectors_at(parts, np.maximum(part, 0).ravel()).reshape(*part.shape, -1)  # (s, w, d)
        products = (vectors @ queries[start : start + step, :, None])[..., 0]
        query, place = np.nonzero(part >= 0)
        hits = query, part[query, place], products[query, place]
        scores[start : start + step], best[start : start + step] = rank_hits(*hits, len(part), k)
    return scores, best


make_exact_index = maker(ExactIndex)
