"""Schedules of the learning rate."""

from collections.abc import Iterator
from itertools import count
from typing import Annotated

from pydantic import Field

from ..util.settings import PositiveInt, checked


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
    return (learn_rate * final ** (max(0.0, step - start) / (total_steps - start)) for step in count())


@checked
def noam(factor: float, warmup_steps: PositiveInt = 100) -> Iterator[float]:
    """Registered in schedules as `spacy-krissel.Noam.v1`: a linear warmup to `factor /
    √warmup_steps`, then an inverse square root decay (Vaswani et al. 2017, §5.3, without the
    model's width). OSLAT's released code uses it; the paper calls the factor the learning rate.

    factor: 0.002 in OSLAT's first stage, so that the highest rate is 0.0002.
    warmup_steps: number of steps of the warmup.
    """
    return (factor * min(step**-0.5, step * warmup_steps**-1.5) for step in count(1))
