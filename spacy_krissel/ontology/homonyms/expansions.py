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

    spellings: those of the homonym, as the entity has them.
    preferred: the entity's preferred name.
    others: its names without the homonym.
    species: the name of its species, or "".
    """

    id: str
    spellings: tuple[str, ...]
    preferred: str
    others: tuple[str, ...]
    species: str = ""
    use: SpeciesUse = SpeciesUse.NEVER

    @property
    def homonym(self) -> str:
        return self.spellings[0]

    def expansions(self, order: Order) -> Iterator[Parts]:
        """Possible contents of the brackets, the paper's choice first.

        The preferred name where that is not the homonym (case a of Figure 2), then the other names from the shortest or
        the longest on (case b). For a cross-species homonym (§4.1.1) the species alone where no other entity has it,
        else after each name. A species that only some of the entities have comes after all names.
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
        """The choices of one of the entities where expansions do not suffice (case c): the original name; for a
        cross-species homonym first the name with the species, which may be the name of yet another entity."""
        return ((self.species,), ()) if self.use.is_cross else ((),)

    def _names(self, order: Order) -> Iterator[str]:
        sign = 1 if order == "shortest" else -1
        # By text where lengths are equal: the order of the aliases must not matter.
        names = sorted(self.others, key=lambda name: (name != self.preferred, sign * len(name), name))
        return filter(_is_informative, names)


def expand(name: str, parts: Parts) -> str:
    """`expand("A2M", ("IGHA2", "human"))` is "A2M (IGHA2, human)"; without parts the name stays."""
    return f"{name.rstrip()} ({', '.join(part.strip() for part in parts)})" if parts else name


def _is_informative(name: str) -> bool:
    # Symbols alone are folded away in a longer name.
    return any(map(str.isalnum, fold_name(name)))
