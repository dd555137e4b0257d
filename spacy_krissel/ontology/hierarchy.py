"""The hierarchy of a store: ancestors and descendants of entities."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import compress
from typing import Any, Protocol

import numpy as np

from ..errors import Errors, KrisselError
from .entity import Entity
from .store import OntologyStore

# Sources whose tree numbers are those of semantic types, not of concepts.
NUMBERED_BY_TYPE = frozenset({"UMLS", "RxNorm"})


class Table(Protocol):
    """A store, or anything else that has its entities by row."""

    def __len__(self) -> int: ...

    def row(self, id: str) -> int | None: ...

    def each(self, field: str) -> Iterator[Any]: ...


class Hierarchy:
    """The parent relation of a store, by parents, or by tree numbers if an entity has no parents.

    Parents that are not in the store are left out. Takes 16 bytes of memory per parent of an
    entity.

    by_numbers: False uses parents only.
    """

    def __init__(self, store: Table, *, by_numbers: bool = True) -> None:
        find = cache(store.row)
        row_by_number: dict[str, int] = {}
        if by_numbers:
            for row, (numbers, source) in enumerate(
                zip(store.each("tree_numbers"), store.each("source"), strict=True)
            ):
                if source not in NUMBERED_BY_TYPE:
                    for number in numbers:
                        row_by_number.setdefault(number, row)
        below, above = array("q"), array("q")
        columns = zip(*map(store.each, ("parents", "tree_numbers", "source")), strict=True)
        for row, (parents, numbers, source) in enumerate(columns):
            found = _known(map(find, parents), row)
            if row_by_number and not found and source not in NUMBERED_BY_TYPE:
                found = _known((_nearest(row_by_number, number) for number in numbers), row)
            for parent in sorted(found):
                below.append(row)
                above.append(parent)
        self._below, self._above = np.array(below, dtype=np.int64), np.array(above, dtype=np.int64)
        self._starts = np.searchsorted(self._below, np.arange(len(store) + 1))
        self.in_hierarchy = np.zeros(len(store), dtype=bool)
        self.in_hierarchy[self._below] = self.in_hierarchy[self._above] = True

    def parents(self, row: int) -> list[int]:
        return self._above[self._starts[row] : self._starts[row + 1]].tolist()

    def children(self, row: int) -> list[int]:
        return self._below[self._above == row].tolist()

    def ancestors(self, row: int) -> list[int]:
        """Return the row and all its ancestors, nearest first; none if it has neither parents nor
        children.
        """
        found = dict.fromkeys([row] if self.in_hierarchy[row] else [])
        queue = list(found)
        for each in queue:
            new = [parent for parent in self.parents(each) if parent not in found]
            found.update(dict.fromkeys(new))
            queue += new
        return queue

    def descendants(self, rows: Sequence[int]) -> np.ndarray:
        """Return the rows and all their descendants as a mask (n_entities,)."""
        mask = np.zeros_like(self.in_hierarchy)
        new = np.array(rows, dtype=np.int64)
        while len(new):
            mask[new] = True
            new = self._below[mask[self._above] & ~mask[self._below]]
        return mask

    def roots(self) -> list[int]:
        """Return the rows with children and no parents; if there is only one, such as HPO's "All",
        its children.
        """
        roots = np.setdiff1d(self._above, self._below)
        return (self._below[self._above == roots[0]] if len(roots) == 1 else roots).tolist()


def subtree(
    store: OntologyStore, below: Sequence[str], not_below: Sequence[str]
) -> Iterator[Entity]:
    """Yield the entities at or below one of `below` (all if empty) that are not at or below one of
    `not_below`.

    Raises KrisselError K112 (none is left), K113 (an unknown id, or a store without a hierarchy).
    """
    hierarchy = Hierarchy(store)

    def mask(ids: Sequence[str]) -> np.ndarray:
        rows = []
        for id_ in ids:
            row = store.row(id_)
            if row is None or not hierarchy.in_hierarchy.any():
                problem = (
                    "no entity has this id"
                    if row is None
                    else "no entity has a parent that is here"
                )
                raise KrisselError(Errors.K113.format(id=id_, problem=problem))
            rows.append(row)
        return hierarchy.descendants(rows)

    keep = (mask(below) if below else np.ones(len(store), dtype=bool)) & ~mask(not_below)
    if not keep.any():
        asked = [
            f"{what} {', '.join(ids)}"
            for what, ids in (("below", below), ("not below", not_below))
            if ids
        ]
        raise KrisselError(Errors.K112.format(why=f"none of {len(store)} is {' and '.join(asked)}"))
    return compress(store, keep)


def position_keys(entity: Entity, store: OntologyStore) -> tuple[set[str], set[str]]:
    """Return the keys of an entity in its hierarchy (its id and tree numbers), and the keys of its
    parents.
    """
    numbers = () if entity.source in NUMBERED_BY_TYPE else entity.tree_numbers
    parents = {store.resolve(id_) or id_ for id_ in entity.parents}
    above = parents or {number.rpartition(".")[0] for number in numbers}
    return {entity.id, *numbers}, above - {""}


def _known(rows: Iterable[int | None], own: int) -> set[int]:
    return {row for row in rows if row is not None and row != own}


def _nearest(row_by_number: dict[str, int], number: str) -> int | None:
    """Return the row with the longest tree number above this one."""
    while number := number.rpartition(".")[0]:
        if number in row_by_number:
            return row_by_number[number]
    return None
