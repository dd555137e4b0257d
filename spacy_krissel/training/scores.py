"""Scores of queries with keys, and their backprops: the input of an objective's loss."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from thinc.api import Ops, get_array_module
from thinc.types import Floats1d, Floats2d

from ..layers.normalize import unit_rows


def inner(
    queries: Floats2d, keys: Floats2d
) -> tuple[Floats2d, Callable[[Floats2d], tuple[Floats2d, Floats2d]]]:
    """Return the inner products (q, k) of queries (q, d) and keys (k, d), and a backprop to the
    gradients of both."""

    def backprop(d_scores: Floats2d) -> tuple[Floats2d, Floats2d]:
        return d_scores @ keys, d_scores.T @ queries

    return queries @ keys.T, backprop


def inner_pairs(vectors: Floats2d) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Return the inner products (n, n) of all pairs of vectors (n, d), and a backprop to their
    gradient."""
    # Each vector is the query of its own row, and a key of all.
    return vectors @ vectors.T, lambda d_scores: (d_scores + d_scores.T) @ vectors


def cosines(vectors: Floats2d) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Return the cosines (n, n) of all pairs of vectors (n, d) of any length, and a backprop to
    their gradient."""
    units, backprop_units = unit_rows(vectors)
    scores, backprop_scores = inner_pairs(units)
    return scores, lambda d_scores: backprop_units(backprop_scores(d_scores))


def label_pairs(labels: Any) -> tuple[Any, Any]:
    """Return masks of pairs of different rows, by their labels (n,): positives (n, n) share a
    label, negatives (n, n) do not."""
    xp: Any = get_array_module(labels)
    same = labels[:, None] == labels[None]
    return same & ~xp.eye(len(labels), dtype=bool), ~same


class Padding:
    """Pads consecutive values of rows of unequal lengths to a matrix.

    ops: device of the values.
    lengths: (n,) of the rows.
    positive, n_positives: (n,) the offset of the positive in each row, or the number of leading
        positives; one of the two.

    `positives` and `negatives` (n, max length) are boolean masks; padding is in neither. Indices
    are copied to a GPU once: masks would be counted there at each use, which makes the host wait.
    """

    def __init__(
        self,
        ops: Ops,
        lengths: Sequence[int],
        *,
        positive: Sequence[int] = (),
        n_positives: Sequence[int] = (),
    ) -> None:
        xp: Any = ops.xp
        columns = np.concatenate([np.arange(length) for length in lengths])
        rows = np.repeat(np.arange(len(lengths)), lengths)
        chosen = (
            columns < np.asarray(n_positives)[rows]
            if len(n_positives)
            else columns == np.asarray(positive)[rows]
        )
        self._shape = len(lengths), max(lengths)
        offsets, chosen = cast(Any, ops).asarray(
            np.stack([rows * self._shape[1] + columns, chosen])
        )
        self._offsets = offsets
        self.positives, self.negatives = (xp.zeros(self._shape, dtype=bool) for _ in range(2))
        self.positives.reshape(-1)[offsets] = chosen == 1
        self.negatives.reshape(-1)[offsets] = chosen == 0

    def pad(self, values: Floats1d) -> Floats2d:
        """Return the rows of values (Σ lengths,), padded with zeros: (n, max length)."""
        rows = get_array_module(values).zeros(self._shape, dtype=values.dtype)
        rows.reshape(-1)[self._offsets] = values
        return rows

    def unpad(self, rows: Floats2d) -> Floats1d:
        """Return the values (Σ lengths,) of the rows (n, max length)."""
        return cast(Any, rows).reshape(-1)[self._offsets]
