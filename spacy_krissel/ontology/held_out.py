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
        return self.draws(entity.id, name) and fold_name(name) != fold_name(entity.name)

    def draws(self, id: str, name: str) -> bool:
        """Whether the hash chooses `name`, as alias of the entity `id`: where it does not, nobody need read the entity
        to know that the name is not held out."""
        return bool(self.fraction) and stable_hash(self.seed, id, fold_name(name)) < self.fraction * 2**64
