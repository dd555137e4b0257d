"""Names kept out of training, so that a development set can ask for names the encoder has never seen."""

from typing import NamedTuple

from ..util.hashing import stable_hash
from .entity import Entity
from .folding import fold_name

# Of the aliases, where a training corpus keeps a development set.
HELD_OUT = 0.05


class HeldOut(NamedTuple):
    """A fixed pseudo-random `fraction` of all aliases, chosen by hash: no list to store, the same in every process.

    Linking a held-out name to its entity by the entity's other names and contexts is the self-supervised development
    task: mined mentions are names of the ontology, so that looking up the name itself would be no test.
    A preferred name is never held out.
    """

    fraction: float = 0.0
    seed: int = 0

    def __call__(self, entity: Entity, name: str) -> bool:
        """Whether `name`, or a name that folds to the same, is a held-out name of `entity`."""
        if not self.fraction:
            return False
        folded = fold_name(name)
        if folded == fold_name(entity.name):
            return False
        return stable_hash(self.seed, entity.id, folded) < self.fraction * 2**64
