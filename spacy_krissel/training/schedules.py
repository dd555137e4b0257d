"""Learning rates over the steps of a training."""

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
    """Registered in schedules as `spacy-krissel.DelayedDecay.v1`: constant for a fraction of the steps, then an
    exponential decay (OSLAT, appendix B).

    learn_rate: until the decay.
    total_steps: of the training.
    delay: the fraction of the steps before the decay; a tenth in the paper.
    final: the fraction of the learning rate that is left after `total_steps`, which the paper does not give.
    """
    start = delay * total_steps
    return (learn_rate * final ** (max(0.0, step - start) / (total_steps - start)) for step in count())


@checked
def noam(factor: float, warmup_steps: PositiveInt = 100) -> Iterator[float]:
    """Registered in schedules as `spacy-krissel.Noam.v1`: a linear rise to `factor / √warmup_steps`, then a fall with
    the root of the steps (Vaswani et al. 2017, §5.3, without the model's width). What OSLAT's released code does, where
    the paper has the factor as its learning rate.

    factor: 0.002 in OSLAT's first stage, so that the highest rate is 0.0002.
    warmup_steps: of the rise.
    """
    return (factor * min(step**-0.5, step * warmup_steps**-1.5) for step in count(1))
