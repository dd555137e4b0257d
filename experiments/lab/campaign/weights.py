"""Weights in few bytes: 16-bit floats as planes of bytes, or 8-bit integers with a scale for each
row."""

from collections.abc import Mapping

import numpy as np

# What follows a tensor's name, by the form in which it is stored.
HALVES, ROWS, SCALES = ":halves", ":rows", ":scales"
MAX_BYTE = 127


def shrink(weights: Mapping[str, np.ndarray], bits: int) -> dict[str, np.ndarray]:
    """Store float32 matrices in `bits` (8 or 16) each; vectors and integers stay as they are.

    In 16 bits: high bytes, then low bytes, of float16, uint8 of shape (2, bytes of a plane):
    exponents, which repeat, stand together for a compressor. In 8 bits: int8 (rows, columns) and a
    float16 scale for each row.
    """
    stored: dict[str, np.ndarray] = {}
    for name, values in weights.items():
        if values.dtype != np.float32 or values.ndim < 2:
            stored[name] = values
        elif bits == 16:
            planes = values.astype("<f2").view(np.uint8).reshape(*values.shape, 2)
            stored[name + HALVES] = np.ascontiguousarray(np.moveaxis(planes, -1, 0)[::-1])
        else:
            scales = (np.abs(values).max(axis=-1, keepdims=True) / MAX_BYTE).astype(np.float16)
            # A row of zeros, or one whose scale float16 cannot hold.
            scales[scales == 0] = np.finfo(np.float16).tiny
            rounded = np.rint(values / scales.astype(np.float32))
            stored[name + ROWS] = rounded.clip(-MAX_BYTE, MAX_BYTE).astype(np.int8)
            stored[name + SCALES] = scales
    return stored


def grow(stored: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return float32 weights from what `shrink` stored, as near as its bits are."""
    weights: dict[str, np.ndarray] = {}
    for name, values in stored.items():
        if name.endswith(HALVES):
            planes = np.ascontiguousarray(np.moveaxis(values[::-1], 0, -1))
            weights[name.removesuffix(HALVES)] = planes.view("<f2")[..., 0].astype(np.float32)
        elif name.endswith(ROWS):
            name = name.removesuffix(ROWS)
            weights[name] = values.astype(np.float32) * stored[name + SCALES].astype(np.float32)
        elif not name.endswith(SCALES):
            weights[name] = values
    return weights
