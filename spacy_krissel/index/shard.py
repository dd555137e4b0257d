"""Exact search on a CUDA device, which keeps the best of each query until the end."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from .hits import group_size, no_hits, search_blocks
from .protocol import Mask, Rows, Scores, Vectors

# Scores in memory at a time: 1,024 x 262,144 float16 are 512 MB.
CUDA_QUERY_ROWS, CUDA_BLOCK_ROWS = 1024, 262_144
# Hits rescored at a time: 65,536 of width 768 are 200 MB.
CUDA_HITS = 65_536
# Columns considered at a time; their indices take 8 bytes each.
MAX_COLUMNS = 2**24
# Bytes of host memory per staging buffer of an upload; there are two.
STAGING_BYTES = 2**26
# Maximum error of a score in float16 or TF32, relative to both norms: factors, partial sums and the
# result are rounded to 11 bits.
HALF_ERROR = 4 * 2.0**-11
# Range of norms of the longest vector for which float16 has that error, without overflow or
# subnormals.
HALF_MIN, HALF_MAX = 1e-3, 6e4


class Shard(NamedTuple):
    """Vectors on a device, searched exactly. Results equal those of `ExactIndex` on the CPU.

    first: row number of the first vector. tensor: (n, d), float16 or float32. norm: length of the
        longest vector.

    `Shard.of(0, tensor)` searches vectors that were made on the device and are not on the host.
    """

    first: int
    tensor: Any
    norm: float

    @classmethod
    def of(cls, first: int, tensor: Any) -> "Shard":
        return cls(first, tensor, longest(tensor))

    def search(self, queries: Vectors, k: int, allowed: Mask | None = None) -> tuple[Scores, Rows]:
        """Return the `k` best of the vectors for each of the queries (q, d) float32.

        The host waits for the device once per part of the queries, however many blocks there are.

        allowed (n,): which of this shard's vectors may be found.
        RETURNS: scores and rows (q, k), best first, equal scores by row; padded with -inf and -1.
        """
        import torch

        if not k or not len(queries) or not len(self.tensor):
            return no_hits(len(queries), k)
        chosen = None
        if allowed is not None and not allowed.all():
            chosen = torch.tensor(allowed, device=self.tensor.device).nonzero()[:, 0]
            if not len(chosen):
                return no_hits(len(queries), k)
        width = pool_width(k)
        columns = math.isqrt(CUDA_BLOCK_ROWS * width)
        step = max(1, min(CUDA_QUERY_ROWS, MAX_COLUMNS // columns))
        starts = range(0, len(queries), step)
        parts = [self._best(queries[start : start + step], k, width, chosen) for start in starts]
        found = zip(*parts, strict=True)
        scores, rows, is_unsure = (torch.cat(each).cpu().numpy() for each in found)
        unsure = np.flatnonzero(is_unsure)
        if len(unsure):
            scores[unsure], rows[unsure] = self._search_all(queries[unsure], k, chosen)
        return scores, rows

    def _best(self, queries: Vectors, k: int, width: int, chosen: Any) -> tuple[Any, Any, Any]:
        """Return tensors of scores and rows (q, k), and which queries may have better ones (q,).

        A pool keeps the `width` highest scores in half precision, which are rescored in float32 at
        the end. No other vector can be among the best if the lowest score of the pool, plus the
        error of half precision, is below the k-th best.
        """
        import torch

        q = torch.tensor(queries, device=self.tensor.device)
        unit, lengths = _unit(q)
        unit = unit.to(self._half(self.tensor[:0]).dtype)
        pool = unit.new_full((len(q), width), -math.inf)
        positions = torch.full_like(pool, -1, dtype=torch.int64)
        for start, vectors in self._blocks(chosen):
            scores, columns = _highest(unit @ self._half(vectors).T, width)
            pool, kept = torch.cat([pool, scores], dim=1).topk(width, dim=1, sorted=False)
            positions = torch.cat([positions, columns + start], dim=1).gather(1, kept)
        # Ascending, so that a stable sort leaves equal scores in the order of their rows.
        positions = positions.sort(dim=1).values
        rows = positions.clamp_min(0)
        rows = rows if chosen is None else chosen[rows]
        step = max(1, CUDA_HITS // width)
        parts = zip(q.split(step), rows.split(step), strict=True)
        exact = torch.cat([_products(some, self.tensor[found]) for some, found in parts])
        exact = exact.masked_fill_(positions < 0, -math.inf)
        exact, order = exact.sort(dim=1, descending=True, stable=True)
        exact = exact[:, :k]
        rows = (rows.gather(1, order[:, :k]) + self.first).masked_fill_(exact == -math.inf, -1)
        lowest = pool.amin(dim=1).float()
        is_unsure = lowest + HALF_ERROR * self.norm >= exact[:, -1] / lengths[:, 0]
        return exact, rows, is_unsure & (lowest > -math.inf)

    def _search_all(self, queries: Vectors, k: int, chosen: Any) -> tuple[Scores, Rows]:
        """Search like `search`, but rescore any number of hits. The host waits for each block."""
        numbers = None if chosen is None else chosen.cpu().numpy()
        blocks = ((np.arange(at, at + len(each)), each) for at, each in self._blocks(chosen))
        find_hits = partial(torch_hits, norm=self.norm)
        scores, rows = search_blocks(blocks, queries, k, find_hits, CUDA_QUERY_ROWS)
        found = rows >= 0
        rows[found] = self.first + (rows[found] if numbers is None else numbers[rows[found]])
        return scores, rows

    def _blocks(self, chosen: Any) -> Iterator[tuple[int, Any]]:
        """Yield the chosen vectors in blocks, each with the position of its first vector."""
        for start in range(0, len(self.tensor if chosen is None else chosen), CUDA_BLOCK_ROWS):
            part = slice(start, start + CUDA_BLOCK_ROWS)
            yield start, self.tensor[part if chosen is None else chosen[part]]

    def _half(self, vectors: Any) -> Any:
        return vectors if HALF_MIN <= self.norm < HALF_MAX else vectors.float()


def pool_width(k: int) -> int:
    """Return the number of half-precision scores to keep for `k` results.

    It is much larger than `k`, since a pool that is too narrow costs a second search.
    """
    return 4 * k + 64


def upload(vectors: Vectors, device: str) -> Any:
    """Return a tensor of the vectors (n, d) on the device.

    The host holds two blocks of them at a time, in pinned memory if the device is a card.
    """
    import torch

    dtype = torch.from_numpy(np.empty(0, dtype=vectors.dtype)).dtype
    tensor = torch.empty(vectors.shape, dtype=dtype, device=device)
    is_pinned = tensor.is_cuda
    n_rows = max(1, STAGING_BYTES // max(1, vectors.itemsize * vectors.shape[1]))
    n_rows = min(n_rows, len(vectors))
    shape = n_rows, vectors.shape[1]
    buffers = [torch.empty(shape, dtype=dtype, pin_memory=is_pinned) for _ in range(2)]
    copies: list[Any] = [None, None]
    for number, start in enumerate(range(0, len(vectors), max(1, n_rows))):
        which = number % 2
        if copies[which] is not None:
            copies[which].synchronize()
        part = vectors[start : start + n_rows]
        buffer = buffers[which][: len(part)]
        np.copyto(buffer.numpy(), part)
        tensor[start : start + n_rows].copy_(buffer, non_blocking=is_pinned)
        if is_pinned:
            copies[which] = torch.cuda.current_stream(tensor.device).record_event()
    for copy in copies:
        if copy is not None:
            copy.synchronize()
    return tensor


def torch_hits(
    queries: Vectors,
    vectors: Any,
    k: int,
    floor: Scores,
    norm: float | None = None,
) -> tuple[Rows, Rows, Scores]:
    """Return all hits that may be among the best `k` of vectors (b, d) (`hits.FindHits`).

    A product in the vectors' own type, or in TF32, selects all that may be among the best within
    its error. They are rescored in float32.

    norm: length of the longest vector.
    """
    import torch

    norm = longest(vectors) if norm is None else norm
    q, lowest = (torch.tensor(each, device=vectors.device) for each in (queries, floor))
    unit, lengths = _unit(q)
    half = vectors if HALF_MIN <= norm < HALF_MAX else vectors.float()
    scores = unit.to(half.dtype) @ half.T  # (q, b)
    size = group_size(scores.shape[1], k)
    grouped = scores.shape[1] - scores.shape[1] % size
    maxima = scores[:, :grouped].unflatten(1, (size, -1)).amax(dim=1)
    maxima = torch.cat([maxima, scores[:, grouped:]], dim=1)
    bound = torch.topk(maxima, min(k, maxima.shape[1]), dim=1).values[:, -1].float()
    error = HALF_ERROR * norm
    bound = torch.maximum(bound - 2 * error, lowest / lengths[:, 0] - error)
    query, position = torch.nonzero(scores >= bound[:, None], as_tuple=True)
    parts = zip(query.split(CUDA_HITS), position.split(CUDA_HITS), strict=True)
    exact = torch.cat([_products(q[some], vectors[rows, None])[:, 0] for some, rows in parts])
    kept = exact >= lowest[query]
    return query[kept].cpu().numpy(), position[kept].cpu().numpy(), exact[kept].cpu().numpy()


def _products(queries: Any, vectors: Any) -> Any:
    """Return inner products (q, w) of queries (q, d) with their own vectors (q, w, d).

    Computed in float32, and not as a matrix product, which TF32 would round.
    """
    return (queries[:, None] * vectors.float()).sum(dim=2)


def longest(vectors: Any) -> float:
    """Return the norm of the longest row of a tensor (n, d)."""
    import torch

    if not len(vectors):
        return 0.0
    # Not one by one: the host would wait for each block.
    parts = vectors.split(CUDA_BLOCK_ROWS)
    return float(torch.stack([part.float().norm(dim=1).max() for part in parts]).max())


def _unit(queries: Any) -> tuple[Any, Any]:
    """Return the queries (q, d) at unit length, and their lengths (q, 1).

    Scores of unit queries are within float16's range.
    """
    import torch

    lengths = torch.linalg.vector_norm(queries, dim=1, keepdim=True)
    lengths = lengths.clamp_min(torch.finfo(torch.float32).tiny)
    return queries / lengths, lengths


def _highest(scores: Any, width: int) -> tuple[Any, Any]:
    """Return the `width` highest of the scores (q, n), or all, in any order, and their columns.

    They lie in the `width` groups of columns with the highest maxima. The groups are sized so that
    these contain as many columns as there are groups, which is faster than selecting from all.
    """
    import torch

    n = scores.shape[1]
    size = max(1, math.isqrt(n // width))
    n_groups = n // size
    maxima = scores[:, : size * n_groups].unflatten(1, (size, n_groups)).amax(dim=1)
    groups = maxima.topk(min(width, n_groups), dim=1, sorted=False).indices
    steps = torch.arange(0, size * n_groups, n_groups, device=scores.device)
    rest = torch.arange(size * n_groups, n, device=scores.device).expand(len(scores), -1)
    columns = torch.cat([(groups[:, None] + steps[:, None]).flatten(1), rest], dim=1)
    found = scores.gather(1, columns)
    found, kept = found.topk(min(width, columns.shape[1]), dim=1, sorted=False)
    return found, columns.gather(1, kept)
