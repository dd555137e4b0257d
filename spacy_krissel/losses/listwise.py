"""Cross-entropy over the candidates of each mention (KRISSBERT §3.6), on top of what the linker thinks of them."""

from typing import Any, Callable, Sequence, Tuple

from thinc.api import get_array_module
from thinc.types import Floats1d


def listwise_cross_entropy(
    corrections: Floats1d, logits: Floats1d, lengths: Sequence[int], gold: Sequence[int]
) -> Tuple[Floats1d, float]:
    """`mean over mentions of -log softmax(logits + corrections)[gold]`.

    corrections, logits: (m,) of all candidates, mention by mention; the logits are the linker's, and have no gradient.
    lengths: how many candidates each mention has; they sum to m.
    gold: the right candidate of each mention, counted from its first.

    RETURNS: the gradient of the corrections (m,), and the loss.
    """
    xp: Any = get_array_module(corrections)
    gradient = xp.empty_like(corrections)
    total = 0.0
    start = 0
    for length, right in zip(lengths, gold, strict=True):
        whole = logits[start : start + length] + corrections[start : start + length]
        shifted = whole - whole.max()
        log_sum = xp.log(xp.exp(shifted).sum())
        total += float(log_sum - shifted[right])
        gradient[start : start + length] = xp.exp(shifted - log_sum)
        gradient[start + right] -= 1
        start += length
    n = max(1, len(lengths))
    return gradient / n, total / n


def make_listwise_cross_entropy() -> Callable[..., Tuple[Floats1d, float]]:
    """Registered as the loss `spacy-krissel.ListwiseCrossEntropy.v1`; see `listwise_cross_entropy`."""
    return listwise_cross_entropy
