"""Dropout with cheap random numbers on the CPU."""

from typing import Any

import torch
from torch import nn

LEVELS = 2**16


class CheapDropout(nn.Dropout):
    """`nn.Dropout` that draws 16 random bits an element on the CPU.

    torch draws each element of its mask from a serial generator, which takes a sixth of a training step of a small
    encoder; four elements out of one 64-bit draw take a tenth of that. The rate is rounded to 1/65536 and the scale
    is exact for the rounded rate. On other devices, and in evaluation, this is `nn.Dropout`.
    """

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        dropped = round(self.p * LEVELS)
        if not self.training or dropped == 0 or dropped == LEVELS or input.device.type != "cpu":
            return super().forward(input)
        n = input.numel()
        draws = torch.empty((n + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
        # As int16 the draws run from -LEVELS / 2 to LEVELS / 2 - 1.
        kept = draws.view(torch.int16)[:n].view(input.shape) >= dropped - LEVELS // 2
        return input * (kept.to(input.dtype) * (LEVELS / (LEVELS - dropped)))


def use_cheap_dropout(module: Any) -> None:
    """Replace every plain `nn.Dropout` inside `module`. Weights and names of weights stay as they are."""
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Dropout:
                setattr(parent, name, CheapDropout(child.p))
