"""Scaling of rows to unit length."""

from collections.abc import Callable
from typing import Any

from thinc.api import Model, get_array_module
from thinc.types import Floats2d


def normalize_rows() -> Model[Floats2d, Floats2d]:
    """Divide each row by its Euclidean norm: (n, d) to (n, d).

    A row of zeros stays zero and gets no gradient.
    """
    return Model("normalize_rows", forward)


def forward(
    model: Model[Floats2d, Floats2d], X: Floats2d, is_train: bool
) -> tuple[Floats2d, Callable[..., Any]]:
    return unit_rows(X)


def unit_rows(X: Floats2d) -> tuple[Floats2d, Callable[[Floats2d], Floats2d]]:
    """Return the rows of X (n, d) at unit length, and the backprop.

    A row of zeros stays zero and gets no gradient.
    """
    xp: Any = get_array_module(X)
    norms = xp.linalg.norm(X, axis=1, keepdims=True)  # (n, 1)
    scale = xp.where(norms > 0, 1 / xp.maximum(norms, 1e-30), 0).astype(X.dtype)
    Y = X * scale

    def backprop(dY: Floats2d) -> Floats2d:
        # The gradient along Y would only change the norm, which the division undoes.
        return (dY - Y * (Y * dY).sum(axis=1, keepdims=True)) * scale

    return Y, backprop
