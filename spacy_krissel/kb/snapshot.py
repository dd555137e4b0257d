"""Immutable state of a knowledge base, with search and look-ups."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import Errors, KrisselError
from ..index.devices import check_device
from ..index.exact import ExactIndex
from ..index.kinds import make_index
from ..index.protocol import MakeIndex, Mask, Rows, VectorIndex, Vectors, check_mask, check_queries
from ..ontology.entity import Entity
from ..util.folding import canonical_name
from .directory import Source
from .entity_columns import EntityTable, StringColumn
from .prototype_table import NAME_KINDS, Prototype, PrototypeTable
from .ranking import search_entities
from .search_result import SearchResult
from .verdicts import Verdict, VerdictTable

METRIC = "inner product"
# Maximum entities that are considered to have one name.
MAX_WITH_NAME = 64


class Lookups:
    """Search and look-ups, each in the snapshot that is `current` at the call."""

    @property
    def current(self) -> "KBSnapshot":
        """The snapshot to look up; its index may lack recently added prototypes."""
        raise NotImplementedError

    def snapshot(self) -> "KBSnapshot":
        """Return the current snapshot with an index of all prototypes.

        Raises KrisselError K520 if it is empty.
        """
        raise NotImplementedError

    def __len__(self) -> int:
        """Number of entities."""
        return len(self.current.entities)

    def __bool__(self) -> bool:
        return True  # even without entities

    def __contains__(self, entity: object) -> bool:
        """Return whether this is the primary id of an entity."""
        return isinstance(entity, str) and self.current.entities.row(entity) is not None

    def __getitem__(self, entity: str) -> Entity:
        """Return the entity with this primary or alternative id.

        Any usual spelling is accepted (`HP_0001677`, `D003920`, a URL). Without details
        (`prototypes --no-details`) it has no aliases, definition, xrefs, parents or tree numbers.
        Raises KrisselError K525 for an unknown id.
        """
        entities = self.current.entities
        row = entities.resolve(entity)
        if row is None:
            raise entities.unknown("ids", [entity])
        return entities.at(row)

    @property
    def n_entities(self) -> int:
        return len(self)

    @property
    def entity_ids(self) -> StringColumn:
        """Ids by entity row, ascending."""
        return self.current.entities.ids

    def resolve(self, id: str) -> str | None:
        """Return the primary id for an id or alternative id, or None, as
        `OntologyStore.resolve`.
        """
        entities = self.current.entities
        row = entities.resolve(id)
        return None if row is None else entities.ids[row]

    def owners(self, id: str) -> list[str]:
        """Return the ids of the entities that an id leads to, as `OntologyStore.owners`."""
        return self.current.entities.owners(id)

    def with_name(self, name: str) -> list[str]:
        """Return the ids of the entities with this name, in canonical form."""
        now = self.current
        index, form = now.prototypes.lexical_index, canonical_name(name)
        rows = index.entities_with_forms(index.read([name]).forms, MAX_WITH_NAME).ravel()
        ids = [self.entity_ids[int(row)] for row in np.unique(rows[rows >= 0])]
        # The text of a gold mention is a form, too.
        return [each for each in ids if form in map(canonical_name, self.names_of(each))]

    def names_of(self, id: str) -> list[str]:
        """Return the names of an entity, the preferred one first. Raises KrisselError K525 for an
        unknown id."""
        names = [*self[id].names]
        if self.current.entities.details is None:
            # The entity has only its first name. Mined mentions are names too.
            prototypes = self.prototypes_at(self.prototype_rows(id))
            names += [each.view.mention for each in prototypes if each.kind in NAME_KINDS]
        return names

    @property
    def id_prefixes(self) -> frozenset[str]:
        """Prefixes of the ids (`id_prefix`)."""
        return self.current.entities.id_prefixes

    def inactive_name(self, id: str) -> str | None:
        """Return the name of an entity of an earlier release that nothing replaces; None if there
        is none."""
        inactive = self.current.inactive
        row = None if inactive is None else inactive.entities.resolve(id)
        return None if inactive is None or row is None else inactive.entities.names[row]

    def find(self, text: str, k: int) -> list[Entity]:
        """Return at most k entities with a lexically similar name, best first.

        The entity with the id `text` comes before all others.
        """
        index = self.current.prototypes.lexical_index
        texts = index.read([text])
        rows = np.append(index.entities_with_forms(texts.forms, k), index.search(texts.vectors, k))
        rows = np.unique(rows[rows >= 0])
        similar = index.similarity(texts, rows * 0, rows)
        ids = [
            self.entity_ids[int(row)]
            for _, row in sorted(zip(-similar, rows.tolist(), strict=True))
        ]
        exact = self.resolve(text.strip()) if text.strip() else None
        return [self[id_] for id_ in dict.fromkeys([*([exact] if exact else []), *ids])][:k]

    def similar_forms(self, text: str, entities: Sequence[str]) -> list[str]:
        """Return the name or mention of each of the entities (ids) that is most similar to `text`.

        "" if none shares an n-gram with it. Raises KrisselError K525 for an unknown id.
        """
        index = self.current.prototypes.lexical_index
        query = index.vectors([text]).T
        found = []
        for entity in entities:
            prototypes = self.current.prototypes_at(self.prototype_rows(entity))
            forms = [
                *dict.fromkeys(each.view.mention for each in prototypes if not each.view.reference)
            ]
            similar = (index.vectors(forms) @ query).toarray().ravel() if forms else np.zeros(0)
            found.append(forms[int(np.argmax(similar))] if similar.any() else "")
        return found

    def entity_mask(self, types: Iterable[str]) -> Mask:
        """Return the mask of entities with one of these semantic types, for `search(allowed=)`.

        Its shape is (n_entities,). Raises KrisselError K525 for a type that is not in the
        knowledge base.
        """
        return self.current.entities.mask(types)

    @property
    def species(self) -> list[str]:
        """Distinct species of the entities (`Entity.species`); "" for entities without one."""
        return self.current.entities.species[1]

    @property
    def n_prototypes(self) -> int:
        return len(self.current.prototypes)

    @property
    def vectors(self) -> Vectors:
        """Vectors of all prototypes (n, d) as searched: c_p + w·r_e with references, else c_p.

        Memory-mapped while unchanged. Read-only.
        """
        return self.current.prototypes.vectors

    @property
    def has_gold(self) -> bool:
        """True if gold mentions are among the prototypes."""
        return len(self.current.prototypes.gold_entities) > 0

    @property
    def verdicts(self) -> VerdictTable:
        """Corrections and rejections of links."""
        return self.current.verdict_table

    def verdicts_on(self, sentence: int) -> Iterator[tuple[int, Verdict]]:
        """Yield the verdicts on a mention in its sentence (`sentence_key`), oldest first, each
        after its number (`VerdictTable`)."""
        table = self.current.verdicts
        rows = table.on_sentence(sentence)
        said = table.at(rows, self.current.entity_ids)
        return zip(table.numbers[rows].tolist(), said, strict=True)

    def prototypes_at(self, rows: Any) -> list[Prototype]:
        """Return the prototypes at `rows`, an array of any shape, flattened.

        Rows are those of `SearchResult.prototypes`.
        """
        now = self.current
        found = now.prototypes.at(rows)
        ids = now.entities.ids.take(np.array([entity for entity, *_ in found], dtype=np.int64))
        return [
            Prototype(id_, kind, view, origin)
            for id_, (_, kind, view, origin) in zip(ids, found, strict=True)
        ]

    def prototype_rows(self, entity: str) -> Rows:
        """Return the rows of an entity's prototypes; none for an unknown entity."""
        now = self.current
        row = now.entities.row(entity)
        return np.zeros(0, dtype=np.int64) if row is None else now.prototypes.by_entity.at(row)

    def is_empty(self) -> bool:
        now = self.current
        return not (len(now.entities) and len(now.prototypes))

    def check_filled(self) -> None:
        """Raise KrisselError K520 if there is nothing to link to."""
        now = self.current
        if now.is_empty():
            raise KrisselError(
                Errors.K520.format(entities=len(now.entities), prototypes=len(now.prototypes))
            )

    def search(self, vectors: Any, k: int, *, allowed: Mask | None = None) -> SearchResult:
        """Return the `k` nearest distinct entities of each vector (q, d).

        allowed: mask of the entities to consider (n_entities,).

        Raises KrisselError K520 (empty), K503 (wrong width), K504 (NaN), K505 (wrong mask).
        """
        now = self.snapshot()
        if allowed is not None:
            allowed = check_mask(allowed, len(now.entities), "entity")
        return search_entities(now.build_index(), now.prototypes, now.queries(vectors), k, allowed)

    def queries(self, vectors: Any) -> Vectors:
        """Return `vectors` (q, d) as search queries.

        They are float32, of unit length if the knowledge base is normalised. Raises KrisselError
        K503 (wrong width), K504 (NaN).
        """
        now = self.current
        return now.scaled(check_queries(vectors, now.width))

    def build_index(self) -> VectorIndex:
        """Update the index with all prototypes now, rather than at the next search or save."""
        now = self.snapshot()
        assert now.index is not None, "a snapshot has it"
        return now.index

    def contains_entity(self, entity: str) -> bool:
        return entity in self

    def get_size_entities(self) -> int:
        return self.n_entities

    def get_entity_strings(self) -> list[str]:
        return list(self.entity_ids)

    def contains_alias(self, alias: str) -> bool:
        """Return whether exactly this text is a name or mention among the prototypes."""
        return bool(self.current.prototypes.entities_of_mention(alias).size)

    def get_size_aliases(self) -> int:
        return len(self.get_alias_strings())

    def get_alias_strings(self) -> list[str]:
        """Return the distinct names and mentions among the prototypes."""
        return self.current.prototypes.distinct_mentions()

    def get_prior_prob(self, entity: str, alias: str) -> float:
        """Return the fraction, 0 to 1, of the prototypes with this text that are the entity's.

        0 if either is unknown.
        """
        now = self.current
        found = now.prototypes.entities_of_mention(alias)
        row = now.entities.row(entity)
        return 0.0 if row is None or not found.size else float((found == row).mean())

    def get_vector(self, entity: str) -> Vectors:
        """Return the mean of the entity's prototypes (d,) in float32; zeros if it has none."""
        return self.get_vectors([entity])[0]

    def get_vectors(self, entities: Iterable[str]) -> Vectors:
        """Return the means of several entities' prototypes: (len(entities), d)."""
        now = self.current
        vectors, rows = now.prototypes.vectors, now.entities.rows(list(entities))
        means = np.zeros((len(rows), now.width), dtype=np.float32)
        for mean, row in zip(means, rows, strict=True):
            prototypes = now.prototypes.by_entity.at(row)
            if len(prototypes):
                mean[:] = vectors[prototypes].mean(axis=0, dtype=np.float32)
        return means

    def description(self) -> dict[str, Any]:
        """Return counts, dimensions and policies, as in the manifest."""
        now = self.current
        prototypes, references = now.prototypes, None
        index = now.new_index() if now.index is None else now.index
        if (used := prototypes.references) is not None:
            references = {"entities": len(used), "weight": used.weight}
        return {
            "entities": len(now.entities),
            "details": now.entities.details is not None,
            "ontology": now.ontology,
            "made_with": now.made_with,
            "inactive": _inactive_counts(now.inactive),
            "prototypes": len(prototypes),
            "prototype_kinds": prototypes.kind_counts(),
            "prototype_sources": prototypes.source_counts(),
            "dimensions": now.width,
            "metric": METRIC,
            "normalized": now.normalized,
            "dtype": prototypes.dtype,
            "encoder": now.encoder,
            "index": {"kind": index.kind, "settings": index.settings},
            "tuning": now.tuning,
            "references": references,
            "lexical": prototypes.saves_lexical_index,
            "verdicts": len(now.verdicts),
            "verdict_sources": now.verdicts.source_counts(),
        }

    def is_saved(self, path: str | Path) -> bool:
        """Return whether it was saved to or loaded from `path`, and not changed since.

        The folder is not read.
        """
        saved, path = self.current.saved, Path(path)
        return saved is not None and saved.path.resolve() == path.resolve() and path.exists()


@dataclass(frozen=True, eq=False)
class KBSnapshot(Lookups):
    """Contents of a knowledge base at one time. A change makes another one, which shares data.

    encoder: fingerprint of the encoder that made the vectors; empty if unknown.
    ontology: provenance of the entities: `info.provenance` of the ontology store's manifest.
    made_with: settings of the `PrototypeSource` that filled it; empty if nothing recorded them.
    inactive: entities that earlier releases of the ontology had, and what people added to them:
        gold mentions and names. Never searched; a later release may have the entity again.
    make_index: makes the requested kind of index. make_saved: makes the kind that was loaded, used
        if none was requested.
    index_device: device of either; None: their own setting.
    index: of all prototypes if `is_indexed`, else of the first ones; None: to be built.
    tuning: measurements of the index.
    verdict_table: corrections and rejections.
    source: the folder with the same contents. saved: the folder with the same contents except for
        the index.
    """

    entities: EntityTable
    prototypes: PrototypeTable
    normalized: bool
    encoder: str = ""
    ontology: list[dict[str, Any]] = field(default_factory=list)
    make_index: MakeIndex | None = None
    make_saved: MakeIndex | None = None
    index_device: str | None = None
    index: VectorIndex | None = None
    is_indexed: bool = False
    tuning: dict[str, Any] | None = None
    source: Source | None = None
    saved: Source | None = None
    made_with: dict[str, Any] = field(default_factory=dict)
    inactive: "KBSnapshot | None" = None
    verdict_table: VerdictTable = field(default_factory=lambda: VerdictTable.empty(0, "float32"))

    @property
    def current(self) -> "KBSnapshot":
        return self

    def snapshot(self) -> "KBSnapshot":
        self.check_filled()
        assert self.is_indexed, "a snapshot of the knowledge base is"
        return self

    @property
    def width(self) -> int:
        return self.prototypes.vectors.shape[1]

    def new_index(self) -> VectorIndex:
        return _on_device((self.make_index or self.make_saved or ExactIndex)(), self.index_device)

    def indexed(self, earlier: VectorIndex | None) -> "KBSnapshot":
        """Return the snapshot with an index of all prototypes.

        earlier: an index of the first ones, which may grow; None to make another.
        """
        index, vectors = self.new_index() if earlier is None else earlier, self.prototypes.vectors
        known = 0 if earlier is None else len(earlier)
        if known == len(vectors):
            # It grew for a snapshot that is current again.
            return replace(self, index=index, is_indexed=True)
        # Above twice its size, an index that was trained on the old part alone is better rebuilt.
        if index.owns_vectors and 0 < known < len(vectors) <= 2 * known:
            index.add(vectors[known:])
        else:
            index.build(vectors)
        return replace(self, index=index, is_indexed=True)

    def check_device(self) -> None:
        """Raise KrisselError K006 if `index_device` is invalid, or refused by the index."""
        if self.index_device is not None:
            check_device(self.index_device)
            self.new_index()

    def scaled(self, vectors: Vectors) -> Vectors:
        if not self.normalized:
            return vectors
        norms = np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1)


def verdicts_of(kb: KBSnapshot) -> Iterator[Verdict]:
    """Yield the verdicts of a knowledge base, oldest first, with the ids of their entities."""
    return kb.verdicts.at(kb.verdicts.active_rows, kb.entity_ids)


def numbers_of(kb: KBSnapshot) -> list[int]:
    """Return the order of the verdicts of `verdicts_of` among all verdicts, see `VerdictTable`."""
    return kb.verdicts.numbers[kb.verdicts.active_rows].tolist()


def _inactive_counts(inactive: KBSnapshot | None) -> dict[str, int] | None:
    if inactive is None:
        return None
    gold = inactive.prototypes.kind_counts().get("gold", 0)
    return {
        "entities": len(inactive.entities),
        "prototypes": len(inactive.prototypes),
        "gold": gold,
        "verdicts": len(inactive.verdicts),
    }


def device_of(index: VectorIndex) -> str:
    """Return the device of an index; "cpu" for a kind without devices."""
    return getattr(index, "device", "cpu")


def _on_device(index: VectorIndex, device: str | None) -> VectorIndex:
    """Return the empty index, or one like it on the `device`.

    Raises KrisselError K006 if the index refuses the device.
    """
    if device is None or device == device_of(index):
        return index
    return make_index(index.kind, index.settings, device)
