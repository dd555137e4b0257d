"""Pooling: one vector per view from the vectors of its pieces."""

from typing import Literal

import torch

from ...errors import wrong_setting
from .wordpieces import MARKERS, Pieces

Pooling = Literal["cls", "mean", "marker", "mention"]
# Poolings that distinguish the mentions of one row.
BY_MARKERS = ("marker", "mention")
# True for `[Ms]` and `[Me]`, a pair of tokens, or false for none.
Markers = bool | list[str]


def chosen_markers(markers: Markers, pooling: Pooling) -> tuple[str, ...]:
    """Return the two markers, or none.

    Raises KrisselError K006 if the pooling needs markers and there are none, and unless they are a
    pair.
    """
    chosen = MARKERS if markers is True else tuple(markers or ())
    expected = ""
    if not chosen and pooling in BY_MARKERS:
        expected = (
            f"true, or a pair, with pooling '{pooling}', which finds the mention by its markers"
        )
    elif chosen and (len(chosen) != 2 or len(set(chosen)) < 2 or not all(chosen)):
        expected = "true, false, or two different tokens"
    if expected:
        raise wrong_setting("markers", markers, expected)
    return chosen


def pool(how: Pooling, hidden: torch.Tensor, pieces: Pieces) -> torch.Tensor:
    """Pool the last hidden state of n rows (n, longest, d) to m views (m, d).

    pieces: as tensors on its device.
    how: "cls", the first piece (KRISSBERT §3.2); "mean", the mean over all pieces but padding;
        "marker", the mean of the two mention markers (BELHD §4.2); "mention", the mean over the
        pieces between them, or of the markers if there are none.
    """
    _, lengths, owners, starts, ends = pieces.arrays()
    if how == "cls":
        return hidden[owners, 0]
    if how == "marker":
        return (hidden[owners, starts] + hidden[owners, ends]) / 2
    if how == "mean":
        first, last = torch.zeros_like(owners), lengths[owners] - 1
    else:
        between = (ends > starts + 1).long()
        first, last = starts + between, ends - between
    positions = torch.arange(hidden.shape[1], device=hidden.device)[None]
    inside = (first[:, None] <= positions) & (positions <= last[:, None])  # (m, longest)
    weights = inside / inside.sum(dim=1, keepdim=True)
    # No matrix product, which autocast would round to 16 bits.
    return (weights[:, :, None] * hidden[owners]).sum(dim=1)
