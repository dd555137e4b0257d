"""Homonyms of an ontology store (folded names that several entities share) and their expansions
(BELHD §3, §4.1).
"""

import heapq
import re
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import IntEnum
from functools import cache
from typing import Any, Literal

import numpy as np

from ..errors import KrisselWarning, Warnings
from ..util.folding import fold_name
from .store import OntologyStore

# Other name that expands a preferred name: the shortest in the paper's text (§4.1), the longest in
# its Algorithm 1.
Order = Literal["shortest", "longest"]
# The contents of the brackets; empty for the original name.
Parts = tuple[str, ...]


class SpeciesUse(IntEnum):
    """Use of the species of an entity to distinguish it from others with the homonym."""

    NEVER = 0  # it has none, or the species of all others
    SPARE = 1  # only it has one: used if names do not suffice
    ALONE = 2  # there are several, and no other entity has the same (cross-species)
    SHARED = 3  # there are several, and others have the same (cross-species and within the species)

    @property
    def is_cross(self) -> bool:
        return self >= SpeciesUse.ALONE


@dataclass(frozen=True, slots=True)
class HomonymMember:
    """An entity as one of those that share a homonym.

    spellings: the entity's spellings of the homonym.
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
        """Yield possible contents of the brackets, the paper's choice first.

        The preferred name if it is not the homonym (case a of Figure 2), then the other names from
        the shortest or the longest on (case b). For a cross-species homonym (§4.1.1), the species
        alone if no other entity has it, else after each name. A species that only some of the
        entities have comes after all names.
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
        """Return the choices of one entity if expansions do not suffice (case c): the original
        name. For a cross-species homonym, the name with the species comes first; it may be the name
        of yet another entity.
        """
        return ((self.species,), ()) if self.use.is_cross else ((),)

    def _names(self, order: Order) -> Iterator[str]:
        sign = 1 if order == "shortest" else -1
        # Sort names of equal length by text: the order of the aliases must not matter.
        names = sorted(
            self.others, key=lambda name: (name != self.preferred, sign * len(name), name)
        )
        return filter(_is_informative, names)


def expand(name: str, parts: Parts) -> str:
    """Append the parts in brackets: `expand("A2M", ("IGHA2", "human"))` is "A2M (IGHA2, human)";
    without parts the name stays.
    """
    return f"{name.rstrip()} ({', '.join(part.strip() for part in parts)})" if parts else name


def _is_informative(name: str) -> bool:
    # Folding would remove symbols from a longer name.
    return any(map(str.isalnum, fold_name(name)))


IDS_SHOWN = 5
# Spellings of NCBI Taxonomy ids: 9606, NCBITaxon:9606, NCBITaxID:9606, taxon:9606, …
_TAXON = re.compile(r"(?:(?:ncbi[_ ]?)?(?:tax|taxon|taxid|taxonomy):\s*)?(\d+)", re.IGNORECASE)


def _taxon_number(species: str) -> str | None:
    """Return the number in any spelling of an NCBI Taxonomy id; None for anything else, such as a
    name.
    """
    taxon = _TAXON.fullmatch(species.strip())
    return taxon[1] if taxon else None


class SpeciesNames(dict[str, str]):
    """Map from the species of an entity, a name or an id, to the name of that species; "" for no
    species.

    An id is looked up in `taxonomy`, if given, and becomes the preferred name there, which in NCBI
    Taxonomy's own files is the scientific one. Other values are names already; ids missing from
    `taxonomy` stay.
    """

    def __init__(self, taxonomy: OntologyStore | None = None) -> None:
        super().__init__()
        self._taxonomy = taxonomy
        self._unknown: list[str] = []

    def __missing__(self, species: str) -> str:
        return self.setdefault(species, self._find(species.strip()))

    def warn_of_unknown(self) -> None:
        """Warn KW121 about ids that were not found, if any."""
        if self._taxonomy is not None and self._unknown:
            shown = ", ".join(sorted(self._unknown)[:IDS_SHOWN])
            message = Warnings.KW121.format(
                count=len(self._unknown), path=self._taxonomy.path, ids=shown
            )
            warnings.warn(message, KrisselWarning, stacklevel=2)

    def _find(self, species: str) -> str:
        # Folding would remove a name of symbols only.
        if not any(map(str.isalnum, fold_name(species))):
            return ""
        if self._taxonomy is None:
            return species
        taxon = _taxon_number(species)
        ids = [f"NCBITaxon:{taxon}", f"NCBITaxID:{taxon}", taxon] if taxon else []
        for id_ in (species, *ids):
            if id_ in self._taxonomy:
                return self._taxonomy.get(id_).name
        if taxon:
            self._unknown.append(species)
        return species


LISTED = 1000
IDS_LISTED = 20


@dataclass(frozen=True)
class HomonymFigures:
    """A column of BELHD's Table 2, whose rows count (entity, name) pairs.

    names: all pairs. homonyms: the distinct folded names that two or more entities share. pairs:
        those of homonyms.
    preferred, other: pairs of a homonym shared by entities of one species (or by any entities, if
        fewer than two species are named), as the entity's preferred name or as another name.
    cross_species: pairs of a homonym of entities of two or more species. A pair may count in both
        ways.
    """

    entities: int
    names: int
    homonyms: int
    pairs: int
    preferred: int
    other: int
    cross_species: int


class Homonyms:
    """The members of homonyms (entities that share them), as columns in memory.

    A member is a pair of an entity and one of its homonyms, in any number of spellings; members are
    numbered in row order. A homonym is cross-species if its members have two or more species,
    ignoring members without one.

    row, homonym, position: (n,) of each member; the position is that of the first spelling.
    use: (n,) `SpeciesUse`.
    unit: (n,) members with the same number must be distinguished by more than the species: those of
        a homonym or, for a cross-species homonym, those of one species.
    entry_position, entry_member: (m,) the position of each spelling, and its member.
    bounds: (n_entities + 1,) the entries of row i are those from `bounds[i]` to `bounds[i + 1]`.
    """

    def __init__(self, store: OntologyStore, species: SpeciesNames) -> None:
        entries = store.homonym_entries()
        rows = entries["row"].astype(np.int64)
        self.n_homonyms = int(entries["homonym"].max()) + 1 if len(rows) else 0
        self.bounds = np.searchsorted(rows, np.arange(len(store) + 1))
        pairs = rows * self.n_homonyms + entries["homonym"]
        _, firsts, self.entry_member = np.unique(pairs, return_index=True, return_inverse=True)
        self.entry_position = entries["position"]
        self.row, self.homonym, self.position = (
            entries[key][firsts] for key in ("row", "homonym", "position")
        )
        self._split_by_species(_species_numbers(store, species))
        self._n_entities, self._n_names = len(store), int(store.manifest["names"])

    def __len__(self) -> int:
        return len(self.row)

    def figures(self) -> HomonymFigures:
        cross, is_preferred, entries = self._cross, self.position == 0, self.entry_member
        shared_within = ~cross | (np.bincount(self.unit)[self.unit] > 1)
        return HomonymFigures(
            entities=self._n_entities,
            names=self._n_names,
            homonyms=self.n_homonyms,
            pairs=len(entries),
            preferred=int((shared_within & is_preferred)[entries].sum()),
            other=int((shared_within & ~is_preferred)[entries].sum()),
            cross_species=int(cross[entries].sum()),
        )

    def _split_by_species(self, numbers: np.ndarray) -> None:
        """Split homonyms into units by species. numbers: (n_entities,), 0 for no species."""
        mine = numbers[self.row]
        n_numbers = int(numbers.max(initial=0)) + 1
        pairs, pair, sizes = np.unique(
            self.homonym.astype(np.int64) * n_numbers + mine,
            return_inverse=True,
            return_counts=True,
        )
        homonyms, species = pairs // n_numbers, pairs % n_numbers
        n_species = np.bincount(homonyms[species > 0], minlength=self.n_homonyms)
        some_without = np.bincount(homonyms[species == 0], minlength=self.n_homonyms) > 0
        self._cross = cross = n_species[self.homonym] > 1
        self.use = np.full(len(self), SpeciesUse.NEVER, dtype=np.uint8)
        self.use[~cross & some_without[self.homonym] & (mine > 0)] = SpeciesUse.SPARE
        self.use[cross & (mine > 0)] = SpeciesUse.SHARED
        self.use[cross & (mine > 0) & (sizes[pair] == 1)] = SpeciesUse.ALONE
        # Dense numbers keep arrays by unit short.
        self.unit = np.unique(
            np.where(cross, self.n_homonyms + pair, self.homonym), return_inverse=True
        )[1]


def homonym_figures(store: OntologyStore, taxonomy: OntologyStore | None = None) -> HomonymFigures:
    """Count the homonyms of a store by the cases of BELHD's Table 2.

    taxonomy: names the species of entities that have ids of it (`SpeciesNames`).
    """
    return Homonyms(store, SpeciesNames(taxonomy)).figures()


def homonym_report(store: OntologyStore, taxonomy: OntologyStore | None = None) -> dict[str, Any]:
    """Return the `HomonymFigures` of a store, and under "listed" the homonyms with the most
    entities (`LISTED`): the name, the number of its "entities" and the first of their ids
    (`IDS_LISTED`).
    """
    most = heapq.nsmallest(LISTED, store.shared_names(), key=lambda item: (-len(item[1]), item[0]))
    listed = [{"name": name, "entities": len(ids), "ids": ids[:IDS_LISTED]} for name, ids in most]
    return {**asdict(homonym_figures(store, taxonomy)), "listed": listed}


def _species_numbers(store: OntologyStore, species: SpeciesNames) -> np.ndarray:
    """Number the species of each row, 0 for none; names that fold to the same text are one
    species."""
    numbers = {"": 0}
    folded = cache(lambda text: fold_name(species[text]))
    found = (numbers.setdefault(folded(text), len(numbers)) for text in store.each("species"))
    by_row = np.fromiter(found, dtype=np.int32, count=len(store))
    species.warn_of_unknown()
    return by_row
