"""AdamW, the optimizer of the papers' transformers, and schedules of its learning rate."""

from collections.abc import Iterator
from itertools import count
from typing import Annotated, Any

from pydantic import Field
from thinc.api import Optimizer

from ..util.settings import NotNegative, Positive, PositiveInt, checked


class AdamW(Optimizer):
    """thinc's Adam with decoupled weight decay, except for biases and layer norms, and with a bound
    on the norm of all gradients of a component. The original `grad_clip` bounds the norm of each
    parameter's gradient instead.

    clip_norm: the bound, which the component applies before the step; 0 for none.
    """

    def __init__(
        self, learn_rate: Any, weight_decay: float, clip_norm: float, **settings: Any
    ) -> None:
        super().__init__(
            learn_rate,
            L2=weight_decay,
            L2_is_weight_decay=True,
            grad_clip=0.0,
            use_averages=False,
            **settings,
        )
        self.clip_norm = clip_norm

    def __call__(self, key: Any, weights: Any, gradient: Any, *, lr_scale: float = 1.0) -> Any:
        decay = self.L2
        self.L2 = decay if weights.ndim > 1 else 0.0
        try:
            return super().__call__(key, weights, gradient, lr_scale=lr_scale)
        finally:
            self.L2 = decay


@checked
def make_adamw(
    learn_rate: float | list[float] | Iterator[float] = 0.001,
    weight_decay: NotNegative = 0.01,
    clip_norm: NotNegative = 1.0,
    eps: Positive = 1e-8,
    beta1: Positive = 0.9,
    beta2: Positive = 0.999,
) -> AdamW:
    """Registered in optimizers as `spacy-krissel.AdamW.v1`: Adam with decoupled weight decay, as in
    torch and Hugging Face.

    learn_rate: a number or a schedule.
    weight_decay: fraction of each weight, times the rate, subtracted per step; not for biases and
        layer norms.
    clip_norm: the largest l2 norm of all gradients of a component together; 0 for any.
    eps: added to the root of the second moment.
    beta1, beta2: decay of the moments.
    """
    return AdamW(learn_rate, weight_decay, clip_norm, eps=eps, beta1=beta1, beta2=beta2)


@checked
def delayed_decay(
    learn_rate: float,
    total_steps: PositiveInt,
    delay: Annotated[float, Field(ge=0, lt=1)] = 0.1,
    final: Annotated[float, Field(gt=0, le=1)] = 0.01,
) -> Iterator[float]:
    """Registered in schedules as `spacy-krissel.DelayedDecay.v1`: constant for a fraction of the
    steps, then an exponential decay (OSLAT, appendix B).

    learn_rate: rate before the decay.
    total_steps: number of training steps.
    delay: fraction of the steps before the decay; a tenth in the paper.
    final: fraction of the learning rate left after `total_steps`; not stated in the paper.
    """
    start = delay * total_steps
    return (
        learn_rate * final ** (max(0.0, step - start) / (total_steps - start)) for step in count()
    )


@checked
def noam(factor: float, warmup_steps: PositiveInt = 100) -> Iterator[float]:
    """Registered in schedules as `spacy-krissel.Noam.v1`: a linear warmup to `factor /
    √warmup_steps`, then an inverse square root decay (Vaswani et al. 2017, §5.3, without the
    model's width). OSLAT's released code uses it; the paper calls the factor the learning rate.

    factor: 0.002 in OSLAT's first stage, so that the highest rate is 0.0002.
    warmup_steps: number of steps of the warmup.
    """
    return (factor * min(step**-0.5, step * warmup_steps**-1.5) for step in count(1))
