"""Expansions of a homonym for one of the entities that share it (BELHD §4.1, Figure 2)."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

from ..folding import fold_name

# Which other name a preferred name is expanded with: the shortest in the paper's text (§4.1), the longest in its
# Algorithm 1.
Order = Literal["shortest", "longest"]
# The contents of the brackets; empty for the original name.
Parts = tuple[str, ...]


class SpeciesUse(IntEnum):
    """How the species of an entity distinguishes it from the others with the homonym."""

    NEVER = 0  # it has none, or that of all others
    SPARE = 1  # it has the only one, and others have none: for want of names
    ALONE = 2  # there are several, and no other entity has its own (cross-species)
    SHARED = 3  # there are several, and others have its own (cross-species and within the species)

    @property
    def is_cross(self) -> bool:
        return self >= SpeciesUse.ALONE


@dataclass(frozen=True, slots=True)
class Bearer:
    """An entity as one of those that share a homonym.

    homonym: as the entity spells it.
    preferred: the entity's preferred name.
    others: its names without the homonym, however that is spelt.
    is_preferred: whether the homonym is the preferred name.
    species: the name of its species, or "".
    """

    id: str
    homonym: str
    preferred: str
    others: tuple[str, ...]
    is_preferred: bool
    species: str = ""
    use: SpeciesUse = SpeciesUse.NEVER

    def expansions(self, order: Order) -> Iterator[Parts]:
        """Possible contents of the brackets, the paper's choice first.

        The preferred name where that is not the homonym (case a of Figure 2), then the other names from the shortest or
        the longest on (case b). For a cross-species homonym (§4.1.1) the species alone where no other entity has it,
        and else behind each name. A species that only some of the entities have comes after all names.
        """
        if self.use == SpeciesUse.ALONE:
            yield (self.species,)
        for name in self._names(order):
            yield (name, self.species) if self.use.is_cross else (name,)
        if self.use == SpeciesUse.SPARE:
            yield (self.species,)
            for name in self._names(order):
                yield (name, self.species)

    def defaults(self) -> tuple[Parts, ...]:
        """What one of the entities may have when expansions do not suffice (case c): the name as it is, of a
        cross-species homonym the name with the species, and as it is only if that is the name of yet another entity."""
        return ((self.species,), ()) if self.use.is_cross else ((),)

    def _names(self, order: Order) -> Iterator[str]:
        sign = 1 if order == "shortest" else -1
        if not self.is_preferred and _is_informative(self.preferred):
            yield self.preferred
        # By text where lengths are equal: the order of the aliases must not matter.
        for name in sorted(self.others, key=lambda name: (sign * len(name), name)):
            if (self.is_preferred or name != self.preferred) and _is_informative(name):
                yield name


def expand(name: str, parts: Parts) -> str:
    """`expand("A2M", ("IGHA2", "human"))` is "A2M (IGHA2, human)"; without parts the name stays."""
    return f"{name.rstrip()} ({', '.join(part.strip() for part in parts)})" if parts else name


def _is_informative(name: str) -> bool:
    # Symbols alone are folded away in a longer name.
    return any(map(str.isalnum, fold_name(name)))
