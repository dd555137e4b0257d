"""Names held out of training, so that a development set can use names that the encoder has never
seen.
"""

from typing import NamedTuple

from ..util.folding import fold_name
from ..util.hashing import stable_hash
from .entity import Entity

# Fraction of the aliases that a training corpus holds out for development.
HELD_OUT = 0.05


class HeldOut(NamedTuple):
    """A fixed pseudo-random `fraction` of all aliases, chosen by hash: equal in every process,
    without a stored list.

    The self-supervised development task links a held-out name to its entity by the entity's other
    names and contexts. Mined mentions are names of the ontology, so looking up the name itself
    would be no test. A preferred name is never held out.
    """

    fraction: float = 0.0
    seed: int = 0

    def __call__(self, entity: Entity, name: str) -> bool:
        """Return whether `name`, or a name that folds to the same text, is a held-out name of
        `entity`.
        """
        return self.selects(entity.id, name) and fold_name(name) != fold_name(entity.name)

    def selects(self, id: str, name: str) -> bool:
        """Return whether the hash selects `name` as alias of the entity `id`.

        If it does not, the name is not held out, and the entity need not be read.
        """
        return (
            bool(self.fraction)
            and stable_hash(self.seed, id, fold_name(name)) < self.fraction * 2**64
        )
