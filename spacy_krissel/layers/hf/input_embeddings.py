"""A hold on what goes into a transformer: the gradients of its input embeddings, and small steps along these."""

from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Iterator, List, Optional, Protocol


class Tap(Protocol):
    def through(self, embeddings: Any) -> Any:
        """What the transformer reads in the place of `embeddings` (n, longest, d), a torch tensor."""
        ...


_TAP: ContextVar[Optional[Tap]] = ContextVar("input_embeddings_tap", default=None)


def current_tap() -> Optional[Tap]:
    return _TAP.get()


@contextmanager
def tapped(tap: Tap) -> Iterator[None]:
    """Lead the input embeddings of every training pass of a transformer through `tap`."""
    token = _TAP.set(tap)
    try:
        yield
    finally:
        _TAP.reset(token)


class RecordedInputs:
    """Keeps the input embeddings of the passes that are made meanwhile: after their backward pass they have gradients.

    What is kept is the word embedding of each piece. Position and segment embeddings are added to it, so that the
    gradient is that of their sum too.
    """

    def __init__(self) -> None:
        self._embeddings: List[Any] = []

    def __len__(self) -> int:
        """Passes that were made."""
        return len(self._embeddings)

    def through(self, embeddings: Any) -> Any:
        if not embeddings.requires_grad:  # frozen, where adapters are trained
            embeddings = embeddings.detach().requires_grad_()
        embeddings.retain_grad()
        self._embeddings.append(embeddings)
        return embeddings

    def signed(self, epsilon: float) -> "SteppedInputs":
        """A step of `epsilon` along the sign of each gradient (FGSM: PEL §4.2, eq. 5), for the same passes again."""
        return SteppedInputs([epsilon * embeddings.grad.sign() for embeddings in self._embeddings])


class SteppedInputs:
    """Adds a step to the input embeddings of each pass that is made meanwhile, in the order of the passes."""

    def __init__(self, steps: List[Any]) -> None:
        self._steps = list(reversed(steps))

    def through(self, embeddings: Any) -> Any:
        return embeddings + self._steps.pop()
