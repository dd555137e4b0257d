"""How large the gradient of a step is."""

import math
from typing import Any

from thinc.api import Model


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
