"""Passes over rows of word pieces of similar length, uploaded before the first one begins."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy
import torch
from thinc.api import torch2xp

from .shim import TransformerShim
from .wordpieces import PieceRow, Pieces, pad_pieces, read_together, training_lengths

# The arrays of a batch.
FIELDS = Pieces._fields[:-1]


class Passes(NamedTuple):
    """n rows in passes.

    pieces: of each pass, as tensors on the device.
    sizes: the number of rows of each pass.
    order: (n,) the row of each vector, in the order of the passes; of the device's array library.
    inverse: (n,) the index in this order of each row.
    """

    pieces: list[Pieces]
    sizes: list[int]
    order: Any
    inverse: Any


def on_device(array: numpy.ndarray, device: torch.device) -> torch.Tensor:
    """Copy an array to the device without waiting for its kernels: the upload of all pieces."""
    tensor = torch.from_numpy(array)
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


def make_passes(
    shim: TransformerShim, rows: Sequence[PieceRow], is_train: bool, window: int = 0
) -> Passes:
    """Group rows by length and pad them, with one upload for all passes.

    Rows that share their array of ids are read once.

    window: in training, passes are padded to its `training_lengths`; 0: to their own length.
    """
    lengths = training_lengths(window, shim.max_window) if window and is_train else ()
    together = read_together(rows)
    padded: list[Pieces] = []
    sizes: list[int] = []
    order: list[int] = []
    for chosen in shim.batches([rows[group[0]] for group in together]):
        batch = [i for each in chosen for i in together[each]]
        padded.append(pad_pieces([rows[i] for i in batch], shim.tokenizer.pad_token_id, lengths))
        sizes.append(len(batch))
        order += batch
    rows_of = numpy.asarray(order, dtype="int64")
    arrays = [array for each in padded for array in each.arrays()]
    parts: Iterator[Any] = iter(_uploaded([*arrays, rows_of, numpy.argsort(rows_of)], shim.device))
    # The fields come first, so that each batch takes exactly its own parts.
    pieces = [each._replace(**dict(zip(FIELDS, parts, strict=False))) for each in padded]
    return Passes(pieces, sizes, *map(torch2xp, parts))


def _uploaded(arrays: Sequence[numpy.ndarray], device: torch.device) -> list[torch.Tensor]:
    """Return int64 arrays on the device, as parts of one copy."""
    whole = on_device(numpy.concatenate([array.ravel() for array in arrays]), device)
    parts = whole.split([array.size for array in arrays])
    return [part.view(array.shape) for part, array in zip(parts, arrays, strict=True)]
