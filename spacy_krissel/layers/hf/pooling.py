"""Pooling: one vector per view from the vectors of its pieces."""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from thinc.api import Model
from thinc.types import Floats2d, Floats3d

from .wordpieces import Pieces

Pooling = Literal["cls", "mean", "marker", "mention"]
# Those that distinguish the mentions of one row.
BY_MARKERS = ("marker", "mention")


class PieceVectors(NamedTuple):
    """The encoder's last hidden state: `vectors` (n, longest, d) for the padded batch `pieces`."""

    vectors: Floats3d
    pieces: Pieces


def pool(how: Pooling) -> Model[PieceVectors, Floats2d]:
    """Pool n rows of pieces (n, longest, d) to m views (m, d). Views of the same row differ in their markers only.

    how: "cls", the first piece (KRISSBERT §3.2); "mean", the mean over all pieces but padding; "marker", the mean of
        the two mention markers (BELHD §4.2); "mention", the mean over the pieces between them, or of the markers if
        there are none.

    The backprop returns the gradient of the vectors, (n, longest, d).
    """
    return Model("pool", FORWARDS[how])


def forward_cls(
    model: Model[PieceVectors, Floats2d], X: PieceVectors, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats3d]]:
    xp: Any = model.ops.xp
    shape = X.vectors.shape
    owners = xp.asarray(X.pieces.owners)

    def backprop(dY: Floats2d) -> Floats3d:
        dX = model.ops.alloc3f(*shape)
        xp.add.at(dX, (owners, 0), dY)
        return dX

    return X.vectors[owners, 0], backprop


def forward_mean(
    model: Model[PieceVectors, Floats2d], X: PieceVectors, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats3d]]:
    xp: Any = model.ops.xp
    owners, lengths = xp.asarray(X.pieces.owners), xp.asarray(X.pieces.lengths)
    real = xp.arange(X.vectors.shape[1])[None] < lengths[:, None]  # (n, longest)
    weights = (real / lengths[:, None]).astype("float32")

    def backprop(dY: Floats2d) -> Floats3d:
        d_rows = model.ops.alloc2f(len(lengths), dY.shape[1])
        xp.add.at(d_rows, owners, dY)
        return weights[:, :, None] * xp.expand_dims(d_rows, 1)

    return xp.matmul(weights[:, None], X.vectors)[owners, 0], backprop


def forward_marker(
    model: Model[PieceVectors, Floats2d], X: PieceVectors, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats3d]]:
    xp: Any = model.ops.xp
    shape = X.vectors.shape
    owners, starts, ends = (xp.asarray(each) for each in (X.pieces.owners, X.pieces.starts, X.pieces.ends))

    def backprop(dY: Floats2d) -> Floats3d:
        dX = model.ops.alloc3f(*shape)
        xp.add.at(dX, (owners, starts), dY / 2)
        xp.add.at(dX, (owners, ends), dY / 2)
        return dX

    return (X.vectors[owners, starts] + X.vectors[owners, ends]) / 2, backprop


def forward_mention(
    model: Model[PieceVectors, Floats2d], X: PieceVectors, is_train: bool
) -> tuple[Floats2d, Callable[[Floats2d], Floats3d]]:
    xp: Any = model.ops.xp
    shape = X.vectors.shape
    owners, starts, ends = (xp.asarray(each) for each in (X.pieces.owners, X.pieces.starts, X.pieces.ends))
    empty = ends <= starts + 1
    first, last = xp.where(empty, starts, starts + 1)[:, None], xp.where(empty, ends, ends - 1)[:, None]
    places = xp.arange(shape[1])[None]
    inside = (first <= places) & (places <= last)  # (m, longest)
    weights = (inside / inside.sum(axis=1, keepdims=True)).astype("float32")

    def backprop(dY: Floats2d) -> Floats3d:
        dX = model.ops.alloc3f(*shape)
        xp.add.at(dX, owners, weights[:, :, None] * xp.expand_dims(dY, 1))
        return dX

    return xp.matmul(weights[:, None], X.vectors[owners])[:, 0], backprop


FORWARDS: dict[str, Callable] = {
    "cls": forward_cls,
    "mean": forward_mean,
    "marker": forward_marker,
    "mention": forward_mention,
}
