"""A learning rate over time instead of steps, for a training that ends at a time of day:
`krissel train --code`."""

import time
from collections.abc import Iterator

from spacy.util import registry


@registry.schedules("campaign.TimedRate.v1")
def timed_rate(initial_rate: float, warmup_steps: int, until: float) -> Iterator[float]:
    """A linear rise over steps, then a linear fall over time.

    initial_rate: the highest. warmup_steps: of the rise. until: seconds since 1970 at which the
        rate is 0.
    """
    began = time.time()
    step = 0
    while True:
        step += 1
        rise = min(1.0, step / max(1, warmup_steps))
        left = max(0.0, until - time.time()) / max(until - began, 1e-9)
        yield initial_rate * min(rise, left)
