"""Scores of queries with keys, and their backprops: what an objective gives its loss."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from thinc.api import get_array_module
from thinc.types import Floats1d, Floats2d

from ..layers.normalize import unit_rows


def inner(queries: Floats2d, keys: Floats2d) -> tuple[Floats2d, Callable[[Floats2d], tuple[Floats2d, Floats2d]]]:
    """The inner products (q, k) of queries (q, d) and keys (k, d), and a backprop to the gradients of both."""

    def backprop(d_scores: Floats2d) -> tuple[Floats2d, Floats2d]:
        return d_scores @ keys, d_scores.T @ queries

    return queries @ keys.T, backprop


def inner_pairs(vectors: Floats2d) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """The inner products (n, n) of each two of the vectors (n, d), and a backprop to their gradient."""
    # Each vector is the query of its own row, and a key of all.
    return vectors @ vectors.T, lambda d_scores: (d_scores + d_scores.T) @ vectors


def cosines(vectors: Floats2d) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """The cosines (n, n) of each two of the vectors (n, d), of any length, and a backprop to their gradient."""
    units, backprop_units = unit_rows(vectors)
    scores, backprop_scores = inner_pairs(units)
    return scores, lambda d_scores: backprop_units(backprop_scores(d_scores))


def label_pairs(labels: Any) -> tuple[Any, Any]:
    """Pairs of different rows, by their labels (n,): positives (n, n) have the same one, negatives (n, n) not."""
    xp: Any = get_array_module(labels)
    same = labels[:, None] == labels[None]
    return same & ~xp.eye(len(labels), dtype=bool), ~same


def padded(values: Floats1d, lengths: Sequence[int]) -> tuple[Floats2d, Any]:
    """Rows of unequal lengths, one after another (Σ lengths,), side by side (n, max length), filled up with zeros; and
    which are no filling, a mask that leads back: `padded(values, lengths)[0][mask]` are the values."""
    xp: Any = get_array_module(values)
    mask = xp.asarray(np.arange(max(lengths))[None] < np.asarray(lengths)[:, None])
    rows = xp.zeros(mask.shape, dtype=values.dtype)
    rows[mask] = values
    return rows, mask
