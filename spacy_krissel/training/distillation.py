"""Train a small encoder to give the vectors of another one."""

from collections.abc import Callable
from typing import Any

import numpy as np
from thinc.api import Adam, Model, warmup_linear
from thinc.types import Floats2d

from ..index.protocol import Rows, Vectors
from ..util.progress import progress_bar
from ..views import View

BATCH = 512
# On the training splits of NCBI Disease and BC5CDR's diseases, 0.01 and twice the passes are as good.
RATE = 0.003
# Vectors that the directions which are kept are computed from.
SAMPLE = 20_000


def narrowed(vectors: Vectors, width: int, seed: int) -> Vectors:
    """What takes vectors to `width` values and changes their inner products least (Eckart and Young 1936): times the
    vectors' first right singular vectors, of a sample. Wider ones are filled with zeros. (d, width)."""
    n, d = vectors.shape
    if d <= width:
        return np.eye(d, width, dtype=np.float32)
    rows = np.sort(np.random.default_rng(seed).choice(n, min(n, SAMPLE), replace=False))
    # Of the (d, d) products: no more memory than the sample.
    sample = to_unit(vectors[rows])
    _, directions = np.linalg.eigh(sample.T @ sample)
    return np.ascontiguousarray(directions[:, ::-1][:, :width])


def to_unit(vectors: Vectors) -> Vectors:
    """In float32 and of length 1; zeros stay."""
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
    """Train `model` until it gives the `vectors` (b, width) of the `views` of any rows (b,) from 0 to n - 1.

    The loss is the mean squared distance, for vectors of length 1 twice one minus the cosine; the learning rate falls
    to 0 over all passes.
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
