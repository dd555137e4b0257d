"""Names kept out of training, so that a development set can ask for names the encoder has never seen."""

import hashlib
from typing import NamedTuple

from ..ontology.entity import Entity
from ..ontology.names import fold_name


class HeldOut(NamedTuple):
    """A fixed pseudo-random `fraction` of all aliases, chosen by hash: no list to keep, the same in every process.

    Linking a held-out name to its entity by the entity's other names and contexts is the self-supervised development
    task: mining gives mentions of names that are in the ontology, where looking up the name itself would be no test.
    A preferred name is never held out.
    """

    fraction: float = 0.0
    seed: int = 0

    def __call__(self, entity: Entity, name: str) -> bool:
        """Is `name` (in any spelling that folds to the same) one of the held-out names of `entity`?"""
        if not self.fraction:
            return False
        folded = fold_name(name)
        if folded == fold_name(entity.name):
            return False
        digest = hashlib.blake2b(f"{self.seed}\t{entity.id}\t{folded}".encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") < self.fraction * 2**64
