"""One vector a view out of the vectors of its pieces."""

from typing import Any, Callable, Dict, Literal, NamedTuple, Tuple

from thinc.api import Model
from thinc.types import Floats2d, Floats3d

from .pieces import Pieces

Pooling = Literal["cls", "mean", "marker"]


class PieceVectors(NamedTuple):
    """The encoder's last hidden state: `vectors` (n, longest, d) for the padded batch `pieces`."""

    vectors: Floats3d
    pieces: Pieces


def pool(how: Pooling) -> Model[PieceVectors, Floats2d]:
    """Pool (n, longest, d) to (n, d).

    how: "cls", the first piece (KRISSBERT §3.2); "mean", the mean over all real pieces, padding left out; "marker",
        the mean of the two mention markers.

    The backprop gives the gradient of the vectors, (n, longest, d).
    """
    return Model("pool", FORWARDS[how])


def forward_cls(
    model: Model[PieceVectors, Floats2d], X: PieceVectors, is_train: bool
) -> Tuple[Floats2d, Callable[[Floats2d], Floats3d]]:
    shape = X.vectors.shape

    def backprop(dY: Floats2d) -> Floats3d:
        dX = model.ops.alloc3f(*shape)
        dX[:, 0] = dY
        return dX

    return X.vectors[:, 0], backprop


def forward_mean(
    model: Model[PieceVectors, Floats2d], X: PieceVectors, is_train: bool
) -> Tuple[Floats2d, Callable[[Floats2d], Floats3d]]:
    xp: Any = model.ops.xp
    lengths = xp.asarray(X.pieces.lengths)
    real = xp.arange(X.vectors.shape[1])[None] < lengths[:, None]  # (n, longest)
    weights = (real / lengths[:, None]).astype("float32")

    def backprop(dY: Floats2d) -> Floats3d:
        return weights[:, :, None] * xp.expand_dims(dY, 1)

    return xp.matmul(weights[:, None], X.vectors)[:, 0], backprop


def forward_marker(
    model: Model[PieceVectors, Floats2d], X: PieceVectors, is_train: bool
) -> Tuple[Floats2d, Callable[[Floats2d], Floats3d]]:
    shape = X.vectors.shape
    xp: Any = model.ops.xp
    rows = xp.arange(shape[0])
    starts = xp.asarray(X.pieces.starts)
    ends = xp.asarray(X.pieces.ends)

    def backprop(dY: Floats2d) -> Floats3d:
        dX = model.ops.alloc3f(*shape)
        dX[rows, starts] = dY / 2
        dX[rows, ends] = dY / 2
        return dX

    return (X.vectors[rows, starts] + X.vectors[rows, ends]) / 2, backprop


FORWARDS: Dict[str, Callable] = {"cls": forward_cls, "mean": forward_mean, "marker": forward_marker}
