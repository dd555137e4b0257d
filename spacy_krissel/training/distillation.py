"""Distillation: train a small encoder to reproduce the vectors of another."""

from collections.abc import Callable
from typing import Any

import numpy as np
from thinc.api import Adam, Model, warmup_linear
from thinc.types import Floats2d

from ..index.protocol import Rows, Vectors
from ..util.progress import progress_bar
from ..views import View

BATCH = 512
# On the training splits of NCBI Disease and BC5CDR's diseases, 0.01 and twice the passes are as
# good.
RATE = 0.003
# Number of vectors that the kept directions are computed from.
SAMPLE = 20_000


def narrowing_projection(vectors: Vectors, width: int, seed: int) -> Vectors:
    """Return the projection (d, width) that changes inner products least (Eckart and Young 1936):
    the first right singular vectors of a sample. Narrower vectors are padded with zeros."""
    n, d = vectors.shape
    if d <= width:
        return np.eye(d, width, dtype=np.float32)
    rows = np.sort(np.random.default_rng(seed).choice(n, min(n, SAMPLE), replace=False))
    # From the (d, d) products, which need no more memory than the sample.
    sample = to_unit(vectors[rows])
    _, directions = np.linalg.eigh(sample.T @ sample)
    return np.ascontiguousarray(directions[:, ::-1][:, :width])


def to_unit(vectors: Vectors) -> Vectors:
    """Return the vectors in float32, scaled to length 1; zeros stay zero."""
    vectors = vectors.astype(np.float32)
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), np.float32(1e-12))


def fit_to_vectors(
    model: Model[list[View], Floats2d],
    views: Callable[[Rows], list[View]],
    vectors: Callable[[Rows], Vectors],
    n: int,
    *,
    passes: int,
    seed: int,
    progress: bool,
) -> None:
    """Train `model` to reproduce the `vectors` (b, width) of the `views` of any rows (b,) from 0 to
    n - 1.

    The loss is the mean squared distance, which is 2 (1 - cosine) for unit vectors. The learning
    rate decays to 0 over all passes.
    """
    batches = max(1, round(n / BATCH))
    random = np.random.default_rng(seed)
    rate: Any = warmup_linear(RATE, 0, passes * batches + 1)
    optimizer = Adam(rate, L2=0.0, grad_clip=0.0, use_averages=False)
    with progress_bar(show=progress, total=passes * n, desc="Distilling", unit=" views") as bar:
        for _ in range(passes):
            for rows in np.array_split(random.permutation(n), batches):
                found, backprop = model.begin_update(views(rows))
                wanted: Any = vectors(rows)
                difference = found - model.ops.asarray2f(wanted)
                backprop(difference * (2 / len(rows)))
                model.finish_update(optimizer)
                optimizer.step_schedules()
                bar.update(len(rows))
