"""The gradients of a step: how large they are, and their sum over processes."""

import math
from typing import Any, List

import numpy as np
from thinc.api import Model, PyTorchShim

from .processes import add_up, n_processes


def gradient_norm(model: Model) -> float:
    """The l2 norm of all gradients that a model holds, before any clipping (PEL, appendix E). Asked for before the
    update that uses them up."""
    total = 0.0
    for node in model.walk():
        for name in node.param_names:
            if node.has_grad(name):
                gradient: Any = node.get_grad(name)
                total += float((gradient * gradient).sum())
        for shim in node.shims:
            total += shim.squared_gradient()  # type: ignore[attr-defined]
    return math.sqrt(total)


def sum_gradients(model: Model) -> None:
    """Put the sum over all processes in the place of each gradient that they hold in their copies of `model`, so that
    all of them make the same step. In one process, nothing.

    A weight that has a gradient in one process and none in another, such as those of an encoder of references in a
    process that read none, has one in both afterwards; one without a gradient in any has none.
    """
    if n_processes() == 1:
        return
    nodes = list(model.walk())
    params = [(node, name) for node in nodes for name in node.param_names]
    shims = [shim for node in nodes for shim in node.shims]
    weights = [p for shim in shims if isinstance(shim, PyTorchShim) for p in shim._model.parameters()]
    held = np.array(
        [*(node.has_grad(name) is True for node, name in params), *(p.grad is not None for p in weights)], dtype="int32"
    )
    add_up([held])
    gradients: List[Any] = []
    for (node, name), anywhere in zip(params, held):
        if anywhere:
            if not node.has_grad(name):
                weight: Any = node.get_param(name)
                node.set_grad(name, 0 * weight)
            gradients.append(node.get_grad(name))
    for p, anywhere in zip(weights, held[len(params) :]):
        if anywhere:
            p.grad = p.new_zeros(p.shape) if p.grad is None else p.grad.contiguous()
            gradients.append(p.grad)
    add_up(gradients)
    for shim in shims:
        # Those that are none of torch's and know what gradients they hold.
        if hasattr(shim, "sum_gradients"):
            shim.sum_gradients()
