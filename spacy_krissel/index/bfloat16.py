"""Exact search in two passes, on processors that multiply in bfloat16, which is faster than float32."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .hits import Block, lower_bound, numpy_hits
from .protocol import Rows, Scores, Vectors

# Queries from which on it pays: vectors are rounded anew for each search, so that no second copy of them is kept.
FEWEST_QUERIES = 256
# Of all scores, those that are computed again at most. With more, as where all vectors are much alike or one is much
# longer than the others, float32 alone is faster.
MOST_AGAIN = 1 / 64
# Scores computed again at a time, for which the vectors fit into a core's cache too.
HITS = 1024
# Values rounded at a time, which fit into a core's cache: 512 KB.
CACHED = 2**17
# What a result loses that is rounded to 8 bits, and each of its partial sums, relative to them.
RESULT_ERROR, SUM_ERROR = 2.0**-8, 2.0**-24


class RoundedBlock(NamedTuple):
    """Vectors (b, d), and the same as a torch tensor of bfloat16. norm: of the longest. rounding: that of the largest
    difference between the two."""

    vectors: Vectors
    rounded: Any
    norm: float
    rounding: float


def has_bfloat16() -> bool:
    """Whether the processor multiplies in bfloat16, as far as torch can tell."""
    import torch

    tests = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(test() for name in tests if (test := getattr(torch.cpu, name, None)))


def rounded_blocks(blocks: Iterable[Block]) -> Iterator[Block]:
    for rows, vectors in blocks:
        yield rows, RoundedBlock(vectors, *_rounded(vectors))


def rounded_hits(queries: Vectors, block: RoundedBlock, k: int, floor: Scores) -> tuple[Rows, Rows, Scores]:
    """Return the hits that may be among the best `k` of a block (`hits.FindHits`), scored in float32.

    q·v and q'·v', the product of what they are rounded to, differ by q·(v - v') + (q - q')·v', which by Cauchy and
    Schwarz is at most |v - v'| + |q - q'| |v'| for a query of unit length. What may be among the best in spite of that
    error is found by the bits of q'·v', and computed again.
    """
    lengths = np.sqrt(np.einsum("nd,nd->n", queries, queries, dtype=np.float64))
    lengths = np.maximum(lengths, np.finfo(np.float64).tiny)
    unit, _, rounding = _rounded((queries / lengths[:, None]).astype(np.float32))
    length = block.norm + block.rounding
    error = block.rounding + (rounding + (RESULT_ERROR + SUM_ERROR * queries.shape[1]) * (1 + rounding)) * length
    scores = _bits(unit @ block.rounded.T)
    bound, least = _bounds(scores, k, floor, lengths, error)
    # Bits have the order of the scores where these are positive.
    if (least <= 0).any():
        _in_order(scores)
        bound, least = _bounds(scores, k, floor, lengths, error)
    hits = np.flatnonzero(scores >= least[:, None])
    if len(hits) > max(k * len(queries), MOST_AGAIN * scores.size):
        return numpy_hits(queries, block.vectors, k, floor)
    query, position = np.divmod(hits, scores.shape[1])
    exact = np.empty(len(query), dtype=np.float32)
    for start in range(0, len(query), HITS):
        part = slice(start, start + HITS)
        exact[part] = np.einsum("nd,nd->n", queries[query[part]], block.vectors[position[part]])
    kept = exact >= bound[query]
    return query[kept], position[kept], exact[kept]


def _bounds(scores: np.ndarray, k: int, floor: Scores, lengths: Any, error: float) -> tuple[np.ndarray, np.ndarray]:
    """What a score must reach to be among the best `k` and not below the `floor` (q,), and the bits of what the
    rounded one must reach (q,). scores (q, b): of queries of unit length, as ordered bits."""
    bound = floor.astype(np.float64)
    if k < scores.shape[1]:
        bound = np.maximum(bound, lengths * (_score(lower_bound(scores, k)) - error))
    # Rounded down.
    with np.errstate(over="ignore"):
        least = np.nextafter((bound / lengths - error).astype(np.float32), np.float32(-np.inf))
    return bound, (_in_order(least.view(np.int32)) >> 16).astype(np.int16)


def _rounded(vectors: Vectors) -> tuple[Any, float, float]:
    """The vectors (n, d) in bfloat16, the norm of the longest, and of the largest difference."""
    import torch

    rounded = torch.empty(vectors.shape, dtype=torch.bfloat16)
    longest = largest = 0.0
    step = max(1, CACHED // max(1, vectors.shape[1]))
    for start in range(0, len(vectors), step):
        # A copy of what is mapped, since torch warns of memory that cannot be written, and of reversed rows.
        part = np.require(vectors[start : start + step], requirements=["C", "W"])
        tensor = torch.from_numpy(part)
        rounded[start : start + step] = tensor
        longest = max(longest, _longest(part))
        largest = max(largest, _longest((tensor - rounded[start : start + step]).numpy()))
    return rounded, longest, largest


def _longest(vectors: Vectors) -> float:
    # The sums of squares of small values are none in float32.
    return float(np.sqrt(np.einsum("nd,nd->n", vectors, vectors, dtype=np.float64).max(initial=0.0)))


def _bits(tensor: Any) -> np.ndarray:
    import torch

    return tensor.view(torch.int16).numpy()


def _in_order(bits: np.ndarray) -> np.ndarray:
    """The bits of floats as integers in the order of the floats; given those integers, the bits. In place."""
    # All but the sign turned round where it is negative.
    bits ^= (bits >> (8 * bits.itemsize - 1)) & np.iinfo(bits.dtype).max
    return bits


def _score(ordered: np.ndarray) -> Scores:
    """The floats of which these are the ordered bits of bfloat16 (n,)."""
    return (_in_order(ordered.copy()).astype(np.int32) << 16).view(np.float32)
