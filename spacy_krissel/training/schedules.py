"""Learning rates over the steps of a training."""

from itertools import count
from typing import Iterator

from ..errors import Errors, KrisselError


def delayed_decay(learn_rate: float, total_steps: int, delay: float = 0.1, final: float = 0.01) -> Iterator[float]:
    """Registered in schedules as `spacy-krissel.DelayedDecay.v1`: constant for a share of the steps, an exponential
    decay from there on (OSLAT, appendix B).

    learn_rate: until then. total_steps: of the training. delay: the share; a tenth in the paper.
    final: the share of the learning rate that is left after `total_steps`, which the paper does not give.
    Raises KrisselError K006 for settings that make no sense.
    """
    if total_steps < 1:
        raise KrisselError(Errors.K006.format(setting="total_steps", found=total_steps, expected="at least 1"))
    if not 0 <= delay < 1:
        raise KrisselError(Errors.K006.format(setting="delay", found=delay, expected="a number from 0 to below 1"))
    if not 0 < final <= 1:
        raise KrisselError(Errors.K006.format(setting="final", found=final, expected="a number above 0, 1 at most"))
    start = delay * total_steps
    return (learn_rate * final ** (max(0.0, step - start) / (total_steps - start)) for step in count())
