"""Move of a knowledge base to another release of its ontology: where each entity is now, and what
people added to it."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..index.protocol import Rows
from ..kb.entity_columns import EntityTable
from ..kb.prototype_kb import Encode, PrototypeKB
from ..kb.prototype_table import MINED_KINDS, NO_ORIGIN, Prototype
from ..kb.snapshot import KBSnapshot, numbers_of, verdicts_of
from ..kb.verdicts import NumberedVerdicts, Verdict
from ..mentions.own_sentence import sentence_key
from ..mining.shards import MentionList, MinedMention
from ..ontology.entity import Entity
from ..ontology.store import OntologyStore
from ..views import View
from .sources import PrototypeSource

# Kinds of prototypes whose vectors an update may take from the earlier knowledge base: they have no
# weights.
REUSED_KINDS = ("name", *MINED_KINDS)


# Changes of a correction that a later one on the same mention makes void, and what it is then.
TO_OVERRULE = ("inactive", "still inactive", "active again")
OVERRULED = "overruled by a later one"
# Verdicts and their vectors, by number.
_Parts = dict[int, tuple[Verdict, np.ndarray]]


class Change(NamedTuple):
    """One difference between two releases.

    what: "entity", "name", "correction" (a gold mention, too), "rejection", "no entity" (a person
        said so), "own name" (one that people added) or "link".
    change: the kind of change. before, after: id and name of an entity; "" for none.
    doc, start, end, view: a mention.
    """

    what: str
    change: str
    before: tuple[str, str] = ("", "")
    after: tuple[str, str] = ("", "")
    doc: str = ""
    start: int = -1
    end: int = -1
    view: View | None = None


class Release:
    """Where the entities of a knowledge base are in another release of its ontology.

    An id leads to the entity with it, else to all with it as an alternative id, which readers give
    to the entities that replace it, over any number of steps. An id that leads to exactly one
    entity is followed. One that leads to none, or to several since it was split, is not: only a
    person can choose.

    old: the knowledge base; its inactive entities, of still earlier releases, may be back.
    store: the other release.
    targets: the ids that each id leads to.
    """

    def __init__(self, old: KBSnapshot, store: OntologyStore) -> None:
        self.old, self.store = old, store
        self.earlier = EntityTable() if old.inactive is None else old.inactive.entities
        ids = [*old.entity_ids, *self.earlier.ids]
        self.targets = dict(zip(ids, leads_to(ids, store), strict=True))

    def moved(self, id: str) -> str | None:
        """Return the id of the entity that an id of the knowledge base leads to; None if it is not
        followed."""
        found = self.targets.get(id, ())
        return found[0] if len(found) == 1 else None

    @cached_property
    def names(self) -> dict[str, str]:
        """Preferred names of the release by id."""
        return dict(zip(self.store.ids, self.store.each("name"), strict=True))

    @cached_property
    def names_before(self) -> dict[str, dict[str, str]]:
        """Names that the entities of the release, and those that lead to them, had in the knowledge
        base, by id: the id that had each name."""
        old, found = self.old.entities, defaultdict[str, dict[str, str]](dict)
        for id_, name, aliases in zip(old.ids, old.names, old.each("aliases"), strict=True):
            target = self.moved(id_)
            if target is not None:
                own = {name: id_ for name in (name, *aliases) if name.strip()}
                found[target] = found[target] | own if id_ == target else own | found[target]
        return found

    @cached_property
    def n_leading_to(self) -> Counter[str]:
        """Number of entities of the knowledge base that lead to each entity."""
        return Counter(id_ for each in self.old.entity_ids if (id_ := self.moved(each)) is not None)

    @cached_property
    def former_ids(self) -> dict[str, list[str]]:
        """Ids that only the knowledge base knows, by the entity they lead to.

        As alternative ids of the new entities, they keep leading there in later releases.
        """
        found: dict[str, list[str]] = defaultdict(list)
        for table in (self.old.entities, self.earlier):
            for id_, alt_ids in zip(table.ids, table.each("alt_ids"), strict=True):
                target = self.moved(id_)
                for each in (id_, *alt_ids) if target is not None else ():
                    if each != target and self.store.row(each) is None:
                        found[str(target)].append(each)
        return found

    def entities(self) -> Iterator[Entity]:
        """Yield the entities that become inactive, or stay so."""
        seen: set[str] = set()
        for table in (self.old.entities, self.earlier):
            for row, id_ in enumerate(table.ids):
                if self.moved(id_) is None and id_ not in seen:
                    seen.add(id_)
                    yield table.at(row)

    # Changes --------------------------------------------------------------------------------------

    def entity_changes(self) -> Iterator[Change]:
        """Yield entities that are new, returned, retired, renamed, replaced by another one, merged
        with others, or split."""
        old, names = self.old.entities, self.names
        for id_, name in zip(old.ids, old.names, strict=True):
            found = self.targets[id_]
            change = {0: "retired", 1: ""}.get(len(found), "split")
            if len(found) == 1 and found[0] != id_:
                change = "merged" if self.n_leading_to[found[0]] > 1 else "replaced"
            elif len(found) == 1 and names[id_] != name:
                change = "renamed"
            if change:
                yield Change("entity", change, (id_, name), entity_after(found, names))
        returned = set()
        for id_, name in zip(self.earlier.ids, self.earlier.names, strict=True):
            if (target := self.moved(id_)) is not None:
                returned.add(target)
                yield Change("entity", "returned", (id_, name), (target, names[target]))
        for id_, name in names.items():
            if id_ not in returned and not self.n_leading_to[id_]:
                yield Change("entity", "new", after=(id_, name))

    def name_changes(self) -> Iterator[Change]:
        """Yield names, as written, that entities of the knowledge base have gained and lost. A lost
        name is that of the id that had it, before the id that it leads to."""
        for entity in self.store:
            known = self.names_before.get(entity.id)
            if known is None:
                continue
            names = {*entity.names}
            for name in sorted(names - known.keys()):
                yield Change("name", "added", after=(entity.id, name))
            for name in sorted(known.keys() - names):
                before = known[name]
                after = (entity.id, "") if before != entity.id else ("", "")
                yield Change("name", "removed", (before, name), after)

    # What people added ----------------------------------------------------------------------------

    def own_rows(self) -> Rows:
        """Return the rows of the prototypes that people added: gold mentions, and names that
        were not in the ontology."""
        table, entities = self.old.prototypes, self.old.entities
        gold = table.rows_of_kinds(["gold"])
        if entities.details is None:
            # The other names are unknown.
            return gold
        rows = table.rows_of_kinds(["name"])
        aliases = entities.details.column("aliases")
        known = pa.chunked_array(
            [
                *_pairs(np.arange(len(entities)), entities.table.column("name")).chunks,
                *_pairs(pc.list_parent_indices(aliases), pc.list_flatten(aliases)).chunks,
            ]
        )
        mentions = pa.chunked_array([pa.array(table.mentions(rows), pa.string())])
        is_known = pc.is_in(_pairs(table.entity_rows[rows], mentions), value_set=known)
        own = rows[~is_known.to_numpy().astype(bool)]
        return np.sort(np.concatenate([gold, own]))

    def carry_over(self, kb: PrototypeKB) -> list[Change]:
        """Add to `kb`, which has the release's entities, what people added to the knowledge base:
        of entities that are followed as prototypes with their vectors and weights, of others as
        inactive.

        RETURNS: what changes for each mention and name.
        """
        active, inactive, changes = _Own(), _Own(), dict[tuple[str, object], Change]()
        parts = [(self.old, self.own_rows(), False)]
        if self.old.inactive is not None:
            parts.append((self.old.inactive, np.arange(self.old.inactive.n_prototypes), True))
        for snapshot, rows, was_inactive in parts:
            vectors, weights = _weighted(snapshot, rows)
            for i, prototype in enumerate(snapshot.prototypes_at(rows)):
                target = self.moved(prototype.entity)
                kept = prototype if target is None else prototype._replace(entity=target)
                (inactive if target is None else active).add(kept, vectors[i], weights[i])
                key = prototype.entity, _mention_key(prototype)
                if key not in changes:
                    before = prototype.entity, snapshot[prototype.entity].name
                    changes[key] = self._change(prototype, before, was_inactive)
        kept, gone = self._said(changes)
        kb.set_inactive(self.entities(), *inactive.columns(), gone)
        kb.add_verdicts(*kept)
        prototypes, vectors, weights = active.columns()
        if prototypes:
            kb.add_prototypes(prototypes, vectors, weight=weights.tolist())
        return [*changes.values()]

    def _said(
        self, changes: dict[tuple[str, object], Change]
    ) -> tuple[NumberedVerdicts, NumberedVerdicts]:
        """Return the verdicts on entities that are followed, and those on others. Adds what changes
        for each mention and entity to `changes`.

        A verdict that names both is divided: each part says what it said of its entities. Parts of
        one verdict that are on the same side again are joined.
        """
        parts: tuple[_Parts, _Parts] = ({}, {})
        for snapshot, was_inactive in ((self.old, False), (self.old.inactive, True)):
            if snapshot is None:
                continue
            table = snapshot.verdicts
            for row, number, verdict in zip(
                table.active_rows, numbers_of(snapshot), verdicts_of(snapshot), strict=True
            ):
                for side, part in zip(parts, self._divided(verdict), strict=True):
                    if part is not None:
                        known, _ = side.get(number, (part, None))
                        side[number] = _joined(known, part), table.vectors[row]
                view, origin = verdict.view, verdict.origin
                at = (origin.doc, origin.start, origin.end, view)
                if verdict.no_entity:
                    said = Change("no entity", "kept", ("", ""), ("", ""), *at)
                    changes.setdefault(("", ("no entity", origin, view)), said)
                for id_ in verdict.ids:
                    change = self._change_of(id_, was_inactive)
                    if change in TO_OVERRULE and self._is_replaced(verdict, number):
                        change = OVERRULED
                    before = id_, snapshot[id_].name
                    after = entity_after(self.targets[id_], self.names)
                    what = "correction" if id_ in verdict.right else "rejection"
                    said = Change(what, change, before, after, *at)
                    changes.setdefault((id_, (what, origin, view)), said)
        kept, gone = (_numbered(side, self.old.width) for side in parts)
        return kept, gone

    def _is_replaced(self, verdict: Verdict, number: float = -math.inf) -> bool:
        """Return whether a later verdict, active or not, replaces this one."""
        return any(
            later > number and other.replaces(verdict)
            for part in (self.old, self.old.inactive)
            if part is not None and len(part.verdicts)
            for later, other in part.verdicts_on(sentence_key(verdict.view))
        )

    def _divided(self, verdict: Verdict) -> tuple[Verdict | None, Verdict | None]:
        """Return what a verdict says of entities that are followed, and of others; None for
        nothing."""
        right, rejected = (
            [(id_, self.moved(id_)) for id_ in ids] for ids in (verdict.right, verdict.rejected)
        )
        followed = verdict._replace(
            right=tuple(dict.fromkeys(new for _, new in right if new is not None)),
            rejected=tuple(dict.fromkeys(new for _, new in rejected if new is not None)),
        )
        others = verdict._replace(
            right=tuple(id_ for id_, new in right if new is None),
            rejected=tuple(id_ for id_, new in rejected if new is None),
            no_entity=False,
        )
        both = (followed, others)
        first, second = (None if each.problem() else each for each in both)
        return first, second

    def _change(self, prototype: Prototype, before: tuple[str, str], was_inactive: bool) -> Change:
        after = entity_after(self.targets[prototype.entity], self.names)
        change = self._change_of(prototype.entity, was_inactive)
        what = "correction" if prototype.kind == "gold" else "own name"
        # A verdict counts more than a gold mention, whichever is later.
        said = Verdict(prototype.view, (prototype.entity,), origin=prototype.origin)
        if what == "correction" and change in TO_OVERRULE and self._is_replaced(said):
            change = OVERRULED
        _, doc, start, end, _ = prototype.origin
        return Change(what, change, before, after, doc, start, end, prototype.view)

    def _change_of(self, id: str, was_inactive: bool) -> str:
        """Return what becomes of what people said of an entity."""
        found = self.targets[id]
        if len(found) != 1:
            return "still inactive" if was_inactive else "inactive"
        if was_inactive:
            return "active again"
        return "kept" if found[0] == id else "followed"

    # Mined mentions -------------------------------------------------------------------------------

    def mined_mentions(self) -> tuple[MentionList, int]:
        """Return the mined mentions of entities that are followed, and the number of those left
        out.

        They were found by name. A mention is left out if its text is now a name of other entities
        only; if its entity was split, the one with that name has it.
        """
        table = self.old.prototypes
        found: dict[tuple[str, object], MinedMention | None] = {}
        # Contexts with another name may be all that was kept of a mention.
        rows = np.concatenate([table.rows_of_kinds([kind]) for kind in MINED_KINDS])
        for prototype in self.old.prototypes_at(rows):
            view, origin = prototype.view, prototype.origin
            key = prototype.entity, view if origin == NO_ORIGIN else origin
            if key in found:
                continue
            named, targets = self.store.find(view.mention), self.targets[prototype.entity]
            own = [each for each in targets if not named or each in named]
            at = (origin.doc, origin.start, origin.end, view.left, view.mention, view.right)
            found[key] = MinedMention(own[0], view.mention, *at) if len(own) == 1 else None
        kept = [each for each in found.values() if each is not None]
        return MentionList(kept), len(found) - len(kept)


class ReleaseSource(PrototypeSource):
    """Entities and prototypes of a release, which also answer to the ids that earlier releases
    had."""

    def __init__(self, release: Release, mentions: MentionList, **settings: Any) -> None:
        super().__init__(release.store, mentions if len(mentions) else None, **settings)
        self._former = release.former_ids

    def entities(self) -> Iterator[Entity]:
        for entity in super().entities():
            former = self._former.get(entity.id)
            if former is None:
                yield entity
            else:
                yield replace(entity, alt_ids=tuple(dict.fromkeys((*entity.alt_ids, *former))))


class _Own:
    """Distinct prototypes that people added, with their vectors and weights."""

    def __init__(self) -> None:
        self._rows: dict[Prototype, tuple[np.ndarray, float]] = {}

    def add(self, prototype: Prototype, vector: np.ndarray, weight: float) -> None:
        self._rows.setdefault(prototype, (vector, weight))

    def columns(self) -> tuple[list[Prototype], np.ndarray, np.ndarray]:
        vectors = [vector for vector, _ in self._rows.values()]
        weights = np.array([weight for _, weight in self._rows.values()])
        return [*self._rows], np.stack(vectors) if vectors else np.zeros((0, 0)), weights


def _joined(first: Verdict, second: Verdict) -> Verdict:
    """Return what two parts of one verdict say."""
    return first._replace(
        right=tuple(dict.fromkeys(first.right + second.right)),
        rejected=tuple(dict.fromkeys(first.rejected + second.rejected)),
        no_entity=first.no_entity or second.no_entity,
    )


def _numbered(parts: _Parts, width: int) -> NumberedVerdicts:
    """Return the verdicts in the order in which they were said."""
    numbers = sorted(parts)
    said = [parts[number] for number in numbers]
    vectors = [vector for _, vector in said]
    return NumberedVerdicts(
        [verdict for verdict, _ in said],
        np.stack(vectors) if vectors else np.zeros((0, width)),
        numbers,
    )


def leads_to(ids: Sequence[str], store: OntologyStore) -> Iterable[tuple[str, ...]]:
    """Yield for each id the ids of the entities that it leads to (`OntologyStore.owners`)."""
    is_primary = pc.is_in(pa.array(ids, pa.string()), value_set=store.primary_ids())
    for id_, is_there in zip(ids, is_primary.to_pylist(), strict=True):
        yield (id_,) if is_there else tuple(store.owners(id_))


def reusing_vectors(encode: Encode, kb: KBSnapshot) -> Encode:
    """Return a function that encodes views, and takes the vectors of those that are prototypes of
    `kb` from there, if it has no references."""
    if kb.prototypes.references is not None:
        return encode
    rows = kb.prototypes.rows_of_kinds(REUSED_KINDS)
    known = {each.view: int(row) for each, row in zip(kb.prototypes_at(rows), rows, strict=True)}

    def encode_new(views: list[View]) -> np.ndarray:
        new = [*dict.fromkeys(view for view in views if view not in known)]
        numbers = {view: number for number, view in enumerate(new)}
        vectors = np.zeros((len(views), kb.width), dtype=np.float32)
        is_new = np.array([view in numbers for view in views], dtype=bool)
        if new:
            found = encode(new)
            vectors[is_new] = found[[numbers[view] for view in views if view in numbers]]
        vectors[~is_new] = kb.vectors[[known[view] for view in views if view in known]]
        return vectors

    return encode_new


def entity_after(found: Sequence[str], names: Mapping[str, str]) -> tuple[str, str]:
    """Return id and name of the entity that an id leads to; no id, but all of them as the name, if
    there are several."""
    return (found[0], names[found[0]]) if len(found) == 1 else ("", " | ".join(found))


def _pairs(rows: Any, texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return each text after the number of its entity."""
    numbers = pa.chunked_array([rows]) if isinstance(rows, (pa.Array, np.ndarray)) else rows
    return pc.binary_join_element_wise(numbers.cast(pa.string()), texts, "\t")


def _weighted(kb: KBSnapshot, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the vectors of the prototypes at `rows` without references, and the weights by which a
    normalised knowledge base has scaled them."""
    vectors = kb.prototypes.base_vectors(rows)
    weights = np.ones(len(rows))
    if kb.normalized:
        norms = np.linalg.norm(vectors, axis=1)
        weights[norms > 0] = norms[norms > 0]
    return vectors, weights


def _mention_key(prototype: Prototype) -> object:
    """Return what all prototypes of one mention share."""
    own = prototype.origin != NO_ORIGIN
    return prototype.origin if own else (prototype.kind, prototype.view.mention)


def share_with_a_name(release: Release) -> tuple[int, int]:
    """Return how many entities of the release have a name that they had in the knowledge base, in
    any case, and how many were there."""
    n = 0
    for entity in release.store:
        if known := release.names_before.get(entity.id):
            own = {name.casefold() for name in entity.names}
            n += not own.isdisjoint(name.casefold() for name in known)
    return n, len(release.names_before)


def shares_followed(release: Release) -> dict[str, tuple[int, int]]:
    """Return for each source of the knowledge base's entities how many lead to an entity of the
    release, and how many there are."""
    total: Counter[str] = Counter()
    followed: Counter[str] = Counter()
    entities = release.old.entities
    for id_, source in zip(entities.ids, entities.each("source"), strict=True):
        total[source] += 1
        followed[source] += bool(release.targets[id_])
    return {source: (followed[source], total[source]) for source in total}
