"""Exact search in two passes, on processors that multiply bfloat16 faster than float32."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .hits import MAX_INSERTED, Block, no_hits, rank_hits
from .products import products
from .protocol import Rows, Scores, Vectors, read_only

# Minimum number of queries for a gain: vectors are rounded again for each search, so that no second
# copy of them is kept.
MIN_QUERIES = 256
# Queries and vectors compared at a time: their scores are 8 MB.
QUERY_ROWS, BLOCK_ROWS = 512, 8_192
# Queries are padded to a multiple of this: torch (oneDNN) keeps up to 1,024 compiled products, and
# each number of rows is another, of a MB.
PADDED_ROWS = 128
# Consecutive scores of which the maximum is compared first.
MAX_GROUP = 32
# Rows kept per query for the second pass, at first and per result. Beyond half of them, as when all
# vectors are similar or one is much longer than the others, float32 alone is faster.
MIN_NEAR, NEAR_PER_RESULT = 256, 4
# Relative rounding error of a result in 8 bits, and of each of its partial sums.
RESULT_ERROR, SUM_ERROR = 2.0**-8, 2.0**-24
LOWEST = np.iinfo(np.int16).min


def has_bfloat16() -> bool:
    """Return whether torch detects that the processor multiplies bfloat16."""
    import torch

    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(test() for name in tests if (test := getattr(torch.cpu, name, None)))


def search_rounded(
    blocks: Iterable[Block], vectors: Any, queries: Vectors, k: int
) -> tuple[Scores, Rows, Rows]:
    """Return the `k` highest inner products of queries (q, d) over all blocks, as `search_blocks`,
    and the queries that have to be searched for otherwise (n,), whose results are padding.

    blocks: rows of `vectors` (n, d), and these vectors.

    q·v and q'·v', the product of the rounded vectors, differ by q·(v - v') + (q - q')·v'. By
    Cauchy-Schwarz this is at most |v - v'| + |q - q'| |v'| for a query of unit length. Candidates
    within that error are found by the bits of q'·v', and scored again.
    """
    scores, rows = no_hits(len(queries), k)
    if not k:
        return scores, rows, np.zeros(0, dtype=np.int64)
    near, counts = _near(blocks, queries, k)
    query, column = np.nonzero(np.arange(near.shape[1]) < counts[:, None])
    hits = query, near[query, column]
    exact = products(vectors, hits[1], queries, query)
    if k <= MAX_INSERTED:
        from . import kernel

        kernel.keep_best(*hits, exact, scores, rows)
    else:
        scores, rows = rank_hits(*hits, exact, len(queries), k)
    return scores, rows, np.flatnonzero(counts < 0)


def _near(blocks: Iterable[Block], queries: Vectors, k: int) -> tuple[Rows, Rows]:
    """Return the rows that may be among the best `k` of each query, ascending (q, w), and their
    number (q,), -1 for too many."""
    from . import kernel

    lengths = np.sqrt(np.einsum("nd,nd->n", queries, queries, dtype=np.float64))
    lengths = np.maximum(lengths, np.finfo(np.float64).tiny)
    scaled = np.zeros((-(-len(queries) // PADDED_ROWS) * PADDED_ROWS, queries.shape[1]), np.float32)
    scaled[: len(queries)] = queries / lengths[:, None]
    unit, _, lost = _rounded(scaled)
    shape = len(queries), MIN_NEAR + NEAR_PER_RESULT * k
    near, bits = np.empty(shape, dtype=np.int64), np.empty(shape, dtype=np.int16)
    counts, lowest = np.zeros(shape[0], dtype=np.int64), np.full(shape[0], LOWEST)
    product, error = _Product(), 0.0
    for numbers, vectors in _parts(blocks):
        rounded, norm, rounding = _rounded(vectors)
        rounded_norm = norm + rounding
        of_result = RESULT_ERROR + SUM_ERROR * queries.shape[1]
        before = error
        error = max(error, rounding + (lost + of_result * (1 + lost)) * rounded_norm)
        if before and error > before:
            # Scores of longer vectors may be farther below their exact value.
            known = lowest > LOWEST
            lowest[known] = _lowered(lowest[known].astype(np.int16), 2 * (error - before))
        for start in range(0, len(queries), QUERY_ROWS):
            own = slice(start, start + QUERY_ROWS)
            size = max(1, min(MAX_GROUP, len(numbers) // (4 * k)))
            scores, maxima = product(unit[own], rounded, size, lowest[own], k, 2 * error)
            kept = near[own], bits[own], counts[own], lowest[own]
            kernel.collect(scores, size, maxima, read_only(numbers), k, 2 * error, *kept)
    return near, counts


def _parts(blocks: Iterable[Block]) -> Iterable[Block]:
    for numbers, vectors in blocks:
        for start in range(0, len(numbers), BLOCK_ROWS):
            yield numbers[start : start + BLOCK_ROWS], vectors[start : start + BLOCK_ROWS]


class _Product:
    """Products of queries and vectors, whose scores overwrite those before: new memory takes longer
    than the product."""

    def __init__(self) -> None:
        self._memory: Any = None

    def __call__(
        self, unit: Any, rounded: Any, size: int, lowest: np.ndarray, k: int, margin: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ordered bits of the scores (q, b), and the maximum of each `size` scores.

        unit: queries, and rows that do not count. lowest (q,): the lowest score that counts, raised
        where none is known. margin: by how much less than the k-th highest counts.
        """
        from . import kernel

        scores = self._bits(unit, rounded)[: len(lowest)]
        maxima = np.empty((len(scores), -(-scores.shape[1] // size)), dtype=np.int16)
        kernel.group_maxima(scores, size, maxima)
        is_first = lowest[0] == LOWEST and k < scores.shape[1]
        level = _lowest(maxima, k, margin) if is_first else lowest
        # Bits are ordered like positive scores.
        if (level <= 0).any():
            _in_order(scores)
            kernel.group_maxima(scores, size, maxima)
            level = _lowest(maxima, k, margin) if is_first else lowest
        lowest[:] = level
        return scores, maxima

    def _bits(self, unit: Any, rounded: Any) -> np.ndarray:
        import torch

        n = len(unit) * len(rounded)
        if self._memory is None or len(self._memory) < n:
            self._memory = torch.empty(n, dtype=torch.bfloat16)
        found = self._memory[:n].view(len(unit), len(rounded))
        torch.mm(unit, rounded.T, out=found)
        bits: np.ndarray = found.view(torch.int16).numpy()
        return bits


def _lowest(maxima: np.ndarray, k: int, margin: float) -> np.ndarray:
    """Return the bits of the k-th highest maximum, which k scores reach, less the margin (q,)."""
    return _lowered(np.partition(maxima, maxima.shape[1] - k, axis=1)[:, -k], margin)


def _lowered(bits: np.ndarray, margin: float) -> np.ndarray:
    """Return ordered bits (q,) of scores that are lower by the margin."""
    values = (_in_order(bits.copy()).astype(np.int32) << 16).view(np.float32)
    with np.errstate(over="ignore"):
        values = (values - margin).astype(np.float32)
    # Shifted, ordered bits are rounded down.
    return (_in_order(values.view(np.int32)) >> 16).astype(np.int16)


def _rounded(vectors: Vectors) -> tuple[Any, float, float]:
    """Return the vectors (n, d) in bfloat16, the norm of the longest, and of the largest
    difference.
    """
    import torch

    from . import kernel

    values = read_only(np.require(vectors, np.float32, "C"))
    rounded = np.empty(values.shape, dtype=np.uint16)
    widened = np.empty(values.shape[1], dtype=np.uint32)
    squares = kernel.round_rows(values.view(np.uint32), values, rounded, widened)
    norm, rounding = np.sqrt(squares).tolist()
    return torch.from_numpy(rounded.view(np.int16)).view(torch.bfloat16), norm, rounding


def _in_order(bits: np.ndarray) -> np.ndarray:
    """Overwrite the bits of floats with integers in the order of the floats, or back."""
    # Flip all bits but the sign of negative values.
    bits ^= (bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max
    return bits
