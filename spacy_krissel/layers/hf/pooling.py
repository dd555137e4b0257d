"""Pooling: one vector per view from the vectors of its pieces."""

from typing import Literal

import torch

from .wordpieces import Pieces

Pooling = Literal["cls", "mean", "marker", "mention"]
# Those that distinguish the mentions of one row.
BY_MARKERS = ("marker", "mention")


def pool(how: Pooling, hidden: torch.Tensor, pieces: Pieces) -> torch.Tensor:
    """Pool the last hidden state of n rows (n, longest, d) to m views (m, d).

    how: "cls", the first piece (KRISSBERT §3.2); "mean", the mean over all pieces but padding; "marker", the mean of
        the two mention markers (BELHD §4.2); "mention", the mean over the pieces between them, or of the markers if
        there are none.
    """
    lengths, owners, starts, ends = (torch.as_tensor(each, device=hidden.device) for each in pieces[1:])
    if how == "cls":
        return hidden[owners, 0]
    if how == "marker":
        return (hidden[owners, starts] + hidden[owners, ends]) / 2
    if how == "mean":
        first, last = torch.zeros_like(owners), lengths[owners] - 1
    else:
        between = (ends > starts + 1).long()
        first, last = starts + between, ends - between
    places = torch.arange(hidden.shape[1], device=hidden.device)[None]
    inside = (first[:, None] <= places) & (places <= last[:, None])  # (m, longest)
    weights = inside / inside.sum(dim=1, keepdim=True)
    # No matrix product, which autocast would round to 16 bits.
    return (weights[:, :, None] * hidden[owners]).sum(dim=1)
