"""FGSM: a training step on inputs as they are, and on inputs moved a little in the worst direction (PEL §4.2)."""

from typing import Callable

from ..distributed.random_state import capture_rng, replay_rng
from ..errors import Errors, KrisselError
from ..layers.hf.input_embeddings import RecordedInputs, tapped


def with_adversary(step: Callable[[float], float], weight: float, epsilon: float) -> float:
    """`L + λ L_adv` (eq. 8), its gradient accumulated.

    step: a forward and a backward pass through a transformer, its gradients scaled by the argument → the loss, not
        scaled. It is made twice, with the same dropout: the second time all input embeddings that it reads are moved by
        ε along the sign of the gradient that the first one left there.
    weight: λ; 0 leaves the second pass out. epsilon: ε.

    Raises KrisselError K637 when the step reads no transformer's input embeddings.
    """
    if not weight:
        return step(1.0)
    state, inputs = capture_rng(), RecordedInputs()
    with tapped(inputs):
        loss = step(1.0)
    if not len(inputs):
        raise KrisselError(Errors.K637)
    with replay_rng(state), tapped(inputs.signed(epsilon)):
        return loss + weight * step(weight)
