"""Access to the input embeddings of a transformer: their gradients, and steps along them (FGSM)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import cycle
from typing import Any

# From embeddings (n, longest, d), a torch tensor, to the input of the transformer.
Tap = Callable[[Any], Any]

_TAP: ContextVar[Tap | None] = ContextVar("input_embeddings_tap", default=None)


def current_tap() -> Tap | None:
    return _TAP.get()


@contextmanager
def tapped(tap: Tap) -> Iterator[None]:
    """Within, the input embeddings of every training pass of a transformer go through `tap`."""
    token = _TAP.set(tap)
    try:
        yield
    finally:
        _TAP.reset(token)


class RecordedInputs(list[Any]):
    """A tap that keeps the word embeddings of each pass, which have gradients after the backward pass; the weights that
    they come from have none. Position and segment embeddings are added to them, so the gradient is that of the sum
    too."""

    def __call__(self, embeddings: Any) -> Any:
        embeddings = embeddings.detach().requires_grad_()
        self.append(embeddings)
        return embeddings

    def signed(self, epsilon: float) -> Tap:
        """A tap that adds a step of `epsilon` along the sign of each gradient (FGSM: PEL §4.2, eq. 5), to repeat the
        same passes in their order. Of passes that were run twice, to save memory, only the second has gradients; they
        are repeated twice."""
        steps = cycle([epsilon * embeddings.grad.sign() for embeddings in self if embeddings.grad is not None])
        return lambda embeddings: embeddings + next(steps)
