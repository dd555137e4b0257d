"""Exact search in two passes, on processors that multiply bfloat16 faster than float32."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .hits import Block, lower_bound, numpy_hits
from .protocol import Rows, Scores, Vectors

# Minimum number of queries for a gain: vectors are rounded again for each search, so that no second
# copy of them is kept.
MIN_QUERIES = 256
# Maximum fraction of scores that are recomputed. Beyond it, as when all vectors are similar or one
# is much longer than the others, float32 alone is faster.
MAX_RESCORED = 1 / 64
# Scores recomputed at a time; their vectors fit into a core's cache.
BLOCK_HITS = 1024
# Values rounded at a time, which fit into a core's cache: 512 KB.
CACHED_VALUES = 2**17
# Relative rounding error of a result in 8 bits, and of each of its partial sums.
RESULT_ERROR, SUM_ERROR = 2.0**-8, 2.0**-24


class RoundedBlock(NamedTuple):
    """Vectors (b, d), and the same as a torch tensor of bfloat16.

    norm: of the longest vector. rounding: norm of the largest difference between the two.
    """

    vectors: Vectors
    rounded: Any
    norm: float
    rounding: float


def has_bfloat16() -> bool:
    """Return whether torch detects that the processor multiplies bfloat16."""
    import torch

    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(test() for name in tests if (test := getattr(torch.cpu, name, None)))


def rounded_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    for rows, vectors in blocks:
        yield rows, RoundedBlock(vectors, *_rounded(vectors))


def rounded_hits(
    queries: Vectors, block: RoundedBlock, k: int, floor: Scores
) -> tuple[Rows, Rows, Scores]:
    """Return the hits that may be among the best `k` of a block (`hits.FindHits`), in float32.

    q·v and q'·v', the product of the rounded vectors, differ by q·(v - v') + (q - q')·v'. By
    Cauchy-Schwarz this is at most |v - v'| + |q - q'| |v'| for a query of unit length. Candidates
    within that error are found by the bits of q'·v', and scored again.
    """
    lengths = np.sqrt(np.einsum("nd,nd->n", queries, queries, dtype=np.float64))
    lengths = np.maximum(lengths, np.finfo(np.float64).tiny)
    unit, _, rounding = _rounded((queries / lengths[:, None]).astype(np.float32))
    length = block.norm + block.rounding
    error = (
        block.rounding
        + (rounding + (RESULT_ERROR + SUM_ERROR * queries.shape[1]) * (1 + rounding)) * length
    )
    scores = _bits(unit @ block.rounded.T)
    bound, min_bits = _bounds(scores, k, floor, lengths, error)
    # Bits are ordered like positive scores.
    if (min_bits <= 0).any():
        _in_order(scores)
        bound, min_bits = _bounds(scores, k, floor, lengths, error)
    hits = np.flatnonzero(scores >= min_bits[:, None])
    if len(hits) > max(k * len(queries), MAX_RESCORED * scores.size):
        return numpy_hits(queries, block.vectors, k, floor)
    query, position = np.divmod(hits, scores.shape[1])
    exact = np.empty(len(query), dtype=np.float32)
    for start in range(0, len(query), BLOCK_HITS):
        part = slice(start, start + BLOCK_HITS)
        exact[part] = np.einsum("nd,nd->n", queries[query[part]], block.vectors[position[part]])
    kept = exact >= bound[query]
    return query[kept], position[kept], exact[kept]


def _bounds(
    scores: np.ndarray, k: int, floor: Scores, lengths: Any, error: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the bounds of exact scores, and of the bits of rounded scores: (q,) each.

    They are the minimum scores to be among the best `k` and not below the `floor` (q,). scores (q,
    b): of queries of unit length, as ordered bits.
    """
    bound = floor.astype(np.float64)
    if k < scores.shape[1]:
        bound = np.maximum(bound, lengths * (_score(lower_bound(scores, k)) - error))
    # Round down.
    with np.errstate(over="ignore"):
        min_bits = np.nextafter((bound / lengths - error).astype(np.float32), np.float32(-np.inf))
    return bound, (_in_order(min_bits.view(np.int32)) >> 16).astype(np.int16)


def _rounded(vectors: Vectors) -> tuple[Any, float, float]:
    """Return the vectors (n, d) in bfloat16, the norm of the longest, and of the largest
    difference.
    """
    import torch

    rounded = torch.empty(vectors.shape, dtype=torch.bfloat16)
    longest = largest = 0.0
    step = max(1, CACHED_VALUES // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), step):
        # Copy mapped memory: torch warns of read-only memory and of reversed rows.
        part = np.require(vectors[start : start + step], requirements=["C", "W"])
        tensor = torch.from_numpy(part)
        rounded[start : start + step] = tensor
        longest = max(longest, _longest(part))
        largest = max(largest, _longest((tensor - rounded[start : start + step]).numpy()))
    return rounded, longest, largest


def _longest(vectors: Vectors) -> float:
    # In float64: the squares of small values underflow in float32.
    return float(
        np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64).max(initial=0.0))
    )


def _bits(tensor: Any) -> np.ndarray:
    import torch

    return tensor.view(torch.int16).numpy()


def _in_order(bits: np.ndarray) -> np.ndarray:
    """Overwrite the bits of floats with integers in the order of the floats, or back."""
    # Flip all bits but the sign of negative values.
    bits ^= (bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max
    return bits


def _score(ordered: np.ndarray) -> Scores:
    """Return the floats with these ordered bits of bfloat16 (n,)."""
    return (_in_order(ordered.copy()).astype(np.int32) << 16).view(np.float32)
