"""Access to the input embeddings of a transformer: their gradients, and steps along them (FGSM)."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol


class Tap(Protocol):
    def through(self, embeddings: Any) -> Any:
        """The input of the transformer, given `embeddings` (n, longest, d), a torch tensor."""
        ...


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


class RecordedInputs:
    """Keeps the word embeddings of each pass, which have gradients after the backward pass. Position and segment
    embeddings are added to them, so the gradient is that of the sum too."""

    def __init__(self) -> None:
        self._embeddings: list[Any] = []

    def __len__(self) -> int:
        """The number of passes."""
        return len(self._embeddings)

    def through(self, embeddings: Any) -> Any:
        embeddings.retain_grad()
        self._embeddings.append(embeddings)
        return embeddings

    def signed(self, epsilon: float) -> "SteppedInputs":
        """Steps of `epsilon` along the sign of each gradient (FGSM: PEL §4.2, eq. 5), to repeat the same passes."""
        return SteppedInputs([epsilon * embeddings.grad.sign() for embeddings in self._embeddings])


class SteppedInputs:
    """Adds a step to the input embeddings of each pass, in the order of the passes."""

    def __init__(self, steps: list[Any]) -> None:
        self._steps = list(reversed(steps))

    def through(self, embeddings: Any) -> Any:
        return embeddings + self._steps.pop()
