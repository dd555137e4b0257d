"""Homonym disambiguation: each entity with a homonym gets a unique variant of the name
(BELHD §4.1).
"""

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, min_weight_full_bipartite_matching

from ..util.folding import canonical_name, fold_name
from ..util.hashing import stable_hash
from ..util.progress import progress_bar
from .entity import Entity
from .hash_index import groups_across_rows
from .shared_names import HomonymMember, Homonyms, Order, Parts, SpeciesNames, SpeciesUse, expand
from .store import OntologyStore


class Disambiguation:
    """The entities of a store with their homonyms expanded, as in BELHD's §4.1, Figure 2 and
    Algorithm 1.

    A member of a homonym (an entity that has it) gets its first expansion
    (`HomonymMember.expansions`): "Discharge" becomes "Discharge (Patient Discharge)" with the
    preferred name of the entity or, if the homonym is that name, another one. A cross-species
    homonym gets the species: "A2M (human)", or "A2M (IGHA2, human)" if several entities of the
    species have it (§4.1.1). Names are equal if they fold to the same text (`fold_name`). Only the
    names of homonyms change.

    If two members would get the same name, or the name of another entity, such as the paper's two
    "Hydroxocobalamin (Aquacobalamin)" (§5.2), their homonyms are resolved together. An optimal
    assignment gives expansions to members, and the original name to one of the others (case c). A
    member without a name is a failure: no assignment disambiguates more members. The result depends
    neither on the order of the entities nor on that of their aliases.

    order: which of the other names comes first, "shortest" as in the paper's text or "longest" as
        in Algorithm 1.
    taxonomy: names the species of entities that have ids of NCBI Taxonomy (`SpeciesNames`); warns
        KW121 about missing ones.
    figures: `HomonymFigures` under "before"; the "order"; "second_choices", the members that did
        not get their first expansion; "unchanged", members that keep the original name, which is
        then no homonym; "failures", the names that are homonyms afterwards; "success_rate", the
        fraction of homonyms none of whose members shares its new name with another (None without
        homonyms).

    Takes about 100 bytes of memory per member.
    """

    def __init__(
        self,
        store: OntologyStore,
        *,
        order: Order = "shortest",
        taxonomy: OntologyStore | None = None,
        progress: bool = False,
    ) -> None:
        self._store = store
        self._order = order
        self._species = SpeciesNames(taxonomy)
        self._homonyms = Homonyms(store, self._species)
        # Members that do not get their first choice, and the names of failed ones.
        self._settled: dict[int, Parts] = {}
        self._failed: dict[int, str] = {}
        # Hash of each member's name (n,), and whether it is the original name (n,).
        self._keys = np.zeros(len(self._homonyms), dtype=np.uint64)
        self._plain = np.zeros(len(self._homonyms), dtype=bool)
        self._choose_first(progress)
        self._resolve()
        self.figures = self._count()

    def __iter__(self) -> Iterator[Entity]:
        for row, entity in enumerate(self._store):
            new: dict[str, str] = {}
            for number, member in self._members(row, entity).items():
                parts = self._settled.get(number)
                if parts is None:
                    parts = self._first_choice(member)
                new.update((spelling, expand(spelling, parts)) for spelling in member.spellings)
            if new:
                aliases = tuple(new.get(alias, alias) for alias in entity.aliases)
                entity = replace(entity, name=new.get(entity.name, entity.name), aliases=aliases)
            yield entity

    def _members(self, row: int, entity: Entity) -> dict[int, HomonymMember]:
        """Return the homonyms of an entity by member number."""
        homonyms = self._homonyms
        start, end = homonyms.bounds[row : row + 2].tolist()
        if start == end:
            return {}
        names = (entity.name, *entity.aliases)
        spellings: dict[int, list[str]] = {}
        for position, number in zip(
            homonyms.entry_position[start:end].tolist(),
            homonyms.entry_member[start:end].tolist(),
            strict=True,
        ):
            spellings.setdefault(number, []).append(names[position])
        return {
            number: HomonymMember(
                id=entity.id,
                spellings=tuple(own),
                preferred=entity.name,
                others=tuple(name for name in entity.names if name not in own),
                species=self._species[entity.species],
                use=SpeciesUse(homonyms.use[number]),
            )
            for number, own in spellings.items()
        }

    def _first_choice(self, member: HomonymMember) -> Parts:
        """Return the first expansion; empty, for the original name, only if there is none."""
        return next(chain(member.expansions(self._order), member.defaults()))

    def _choose_first(self, progress: bool) -> None:
        entities = progress_bar(
            self._store, show=progress, desc="homonyms", unit=" entities", unit_scale=True
        )
        for row, entity in enumerate(entities):
            for number, member in self._members(row, entity).items():
                parts = self._first_choice(member)
                self._keys[number] = stable_hash(canonical_name(expand(member.homonym, parts)))
                self._plain[number] = not parts

    def _resolve(self) -> None:
        """Resolve the units in which first choices collide, and units that then collide with
        them."""
        unit = self._homonyms.unit
        # The original name collides only within its unit, where keys are equal.
        taken = self._store.may_be_shared(self._keys, self._homonyms.row) & ~self._plain
        hard = [np.flatnonzero(taken), *self._equal_keys(np.arange(len(unit)))]
        unsolved = unit[np.concatenate(hard)]
        # Units linked by collisions, directly or indirectly, are resolved together.
        component = np.arange(unit.max(initial=-1) + 1)
        links = np.empty((2, 0), dtype=unit.dtype)
        while True:
            collisions = [unit[members] for members in self._equal_keys(component[unit])]
            links = np.hstack([links, *(np.stack([units[:-1], units[1:]]) for units in collisions)])
            unsolved = np.concatenate([unsolved, *collisions])
            if not len(unsolved):
                return
            graph = coo_array(
                (np.ones(links.shape[1]), tuple(links)), shape=(len(component), len(component))
            )
            _, component = connected_components(graph, directed=False)
            members = np.flatnonzero(np.isin(component[unit], component[unsolved]))
            members = members[np.argsort(component[unit[members]], kind="stable")]
            for together in np.split(
                members, np.flatnonzero(np.diff(component[unit[members]])) + 1
            ):
                self._solve(together.tolist())
            unsolved = unsolved[:0]

    def _equal_keys(self, owners: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the members of each key that more than one of `owners` (n,) has, without failed
        ones.
        """
        numbers = np.delete(np.arange(len(self._keys)), list(self._failed))
        numbers = numbers[np.argsort(self._keys[numbers], kind="stable")]
        for group in groups_across_rows(self._keys[numbers], owners[numbers]):
            yield numbers[group.start : group.stop]

    def _solve(self, numbers: Sequence[int]) -> None:
        """Resolve the members of a component. RETURNS: their expansions, the hashes of these, and
        the failures.
        """
        members = [(number, self._member(number)) for number in numbers]
        # Members with a preferred name as only choice come first.
        members.sort(
            key=lambda item: (
                fold_name(item[1].homonym),
                item[1].homonym == item[1].preferred,
                item[1].id,
            )
        )
        ids = [member.id for _, member in members]
        wishes = [self._free_names(member, member.expansions(self._order)) for _, member in members]
        # Use the first default that no other entity has.
        defaults = [self._free_names(member, member.defaults()) for _, member in members]
        expansions, fallbacks = (
            [list(wish) for wish in wishes],
            [next(iter(default)) for default in defaults],
        )
        names = _assign(expansions, fallbacks)
        if failed := _failures(names, fallbacks, ids):
            # Two homonyms of one entity may get the same name: a member that can share leaves the
            # name to others.
            owners = {name: i for i, name in enumerate(names)}
            sharing = {
                i
                for i, name in enumerate(fallbacks)
                if (owner := owners.get(name, i)) != i and ids[owner] == ids[i]
            }
            again = _assign(expansions, fallbacks, sharing)
            if len(fewer := _failures(again, fallbacks, ids)) < len(failed):
                names, failed = again, fewer
        for i, (number, member) in enumerate(members):
            choices = {**defaults[i], **wishes[i]}
            name = names[i] or fallbacks[i]
            self._failed.pop(number, None)
            self._settled.pop(number, None)
            if i in failed:
                self._failed[number] = name
            self._keys[number] = stable_hash(canonical_name(name))
            self._plain[number] = not choices[name]
            if choices[name] != self._first_choice(member):
                self._settled[number] = choices[name]

    def _member(self, number: int) -> HomonymMember:
        row = int(self._homonyms.row[number])
        return self._members(row, self._store.entity_at(row))[number]

    def _free_names(self, member: HomonymMember, choices: Iterable[Parts]) -> dict[str, Parts]:
        """Return the folded names that `choices` make, in order, without names of other entities in
        the store. The homonym itself counts as a name of a member only if unchanged.
        """
        names: dict[str, Parts] = {}
        homonym = fold_name(member.homonym)
        for parts in choices:
            name = fold_name(expand(member.homonym, parts))
            if not parts or (name != homonym and not set(self._store.find(name)) - {member.id}):
                names.setdefault(name, parts)
        return names

    def _count(self) -> dict[str, Any]:
        shared = np.isin(self._keys, self._keys[list(self._failed)])
        n_homonyms = self._homonyms.n_homonyms
        n_left = len(np.unique(self._homonyms.homonym[shared]))
        return {
            "before": asdict(self._homonyms.figures()),
            "order": self._order,
            "second_choices": len(self._settled.keys() - self._failed.keys()),
            "unchanged": int((self._plain & ~shared).sum()),
            "failures": len(set(self._failed.values())),
            "success_rate": 1 - n_left / n_homonyms if n_homonyms else None,
        }


def _assign(
    expansions: Sequence[Sequence[str]], defaults: Sequence[str], sharing: Container[int] = ()
) -> list[str | None]:
    """Give each member a unique name: an expansion, its default, or None if there are too few
    names.

    expansions: of each member (n,), the preferred ones first. defaults: (n,). sharing: members that
        need no name.

    The assignment minimises, in this order: the members with None, those among them that are not
    `sharing`, the members with their default, and the sum of the expansions' ranks. On ties, the
    first members get the better name.
    """
    n = len(expansions)
    # Each cost exceeds the sum of all lower costs.
    default_cost = (n + 1) * (2 * max(map(len, expansions)) + 1)
    failure_cost = (n + 1) * (default_cost + n)
    nothing_cost = (n + 1) * (failure_cost + n)
    names: dict[str, int] = {}
    costs: dict[tuple[int, int], float] = {}
    for i, (own, default) in enumerate(zip(expansions, defaults, strict=True)):
        for rank, name in enumerate(own):
            costs[i, names.setdefault(name, len(names))] = 1 + rank * (2 - i / n)
        costs.setdefault((i, names.setdefault(default, len(names))), default_cost + n - i)
    # An extra column stands for None, so that every member can be matched.
    for i in range(n):
        costs[i, len(names) + i] = nothing_cost + n - i + (0 if i in sharing else failure_cost)
    cells = tuple(np.array(list(costs)).T)
    graph = coo_array((np.array(list(costs.values())), cells), shape=(n, len(names) + n)).tocsr()
    rows, columns = min_weight_full_bipartite_matching(graph)
    found: list[str | None] = [*names, *[None] * n]
    return [found[column] for column in columns[np.argsort(rows)].tolist()]


def _failures(names: Sequence[str | None], defaults: Sequence[str], ids: Sequence[str]) -> set[int]:
    """Return the members without a name whose default is that of another entity."""
    owners = dict(zip(names, ids, strict=True))
    return {i for i, name in enumerate(names) if name is None and owners[defaults[i]] != ids[i]}
