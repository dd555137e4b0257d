"""thinc's Adam for all weights of a transformer at once, by torch's fused kernel."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import compress
from typing import Any

import torch
from thinc.api import Optimizer

Weight = tuple[Any, torch.Tensor, torch.Tensor]


def is_adam(optimizer: Optimizer) -> bool:
    """Return True for thinc's Adam and `AdamW` without averages, which `adam_step` computes."""
    return (
        (type(optimizer) is Optimizer or _is_adamw(optimizer))
        and optimizer.averages is None
        and not optimizer.use_radam
        and optimizer.b1 > 0
        and optimizer.b2 > 0
    )


def adam_step(optimizer: Any, weights: Sequence[Weight]) -> None:
    """Make the step of `optimizer` for each of these weights, without waiting for the device.

    It takes a few kernels. Gradients are changed. The moments are stored in the optimizer by key,
    like thinc's, so that another optimizer starts from zero.

    weights: (key, weight, gradient).
    """
    by_count: dict[int, list[Weight]] = defaultdict(list)
    for each in weights:
        key, weight, _ = each
        if key not in optimizer.mom1:
            optimizer.mom1[key] = torch.zeros_like(weight)
            optimizer.mom2[key] = torch.zeros_like(weight)
        optimizer.nr_update[key] += 1
        by_count[optimizer.nr_update[key]].append(each)
    with torch.no_grad():
        for count, group in by_count.items():
            _step(optimizer, count, group)


def _step(optimizer: Any, count: int, weights: list[Weight]) -> None:
    keys, values, gradients = (list(each) for each in zip(*weights, strict=True))
    has_decay = [optimizer.L2 and (value.ndim > 1 or not _is_adamw(optimizer)) for value in values]
    decayed = list(compress(values, has_decay))
    if decayed and not optimizer.L2_is_weight_decay:
        torch._foreach_add_(list(compress(gradients, has_decay)), decayed, alpha=optimizer.L2)
    if optimizer.grad_clip:
        norms = torch.stack(torch._foreach_norm(gradients))
        factors = torch.clamp(optimizer.grad_clip / norms, max=1.0)
        torch._foreach_mul_(gradients, list(factors.unbind()))
    torch._fused_adamw_(
        values,
        gradients,
        [optimizer.mom1[key] for key in keys],
        [optimizer.mom2[key] for key in keys],
        [],
        [torch.full((), float(count), device=values[0].device)] * len(values),
        lr=optimizer.learn_rate,
        beta1=optimizer.b1,
        beta2=optimizer.b2,
        # thinc's decay comes after the step, torch's before it.
        weight_decay=0.0,
        # thinc adds it to the root of the second moment before the correction for the first steps.
        eps=optimizer.eps / (1.0 - optimizer.b2**count) ** 0.5,
        amsgrad=False,
        maximize=False,
    )
    if decayed and optimizer.L2_is_weight_decay:
        # Not times `1 - rate`, which float32 rounds alike for all.
        torch._foreach_add_(decayed, decayed, alpha=-optimizer.learn_rate * optimizer.L2)


def _is_adamw(optimizer: Optimizer) -> bool:
    """Return True for `training.optimizers.AdamW`, which this package's layers do not import."""
    return hasattr(optimizer, "clip_norm")
