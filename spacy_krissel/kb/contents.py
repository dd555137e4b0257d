"""What a knowledge base of prototypes holds."""

from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union
from weakref import WeakSet

import numpy as np
from spacy.kb import KnowledgeBase
from spacy.tokens import Doc
from spacy.vocab import Vocab

from ..errors import Errors, KrisselError
from ..index.checks import check_vectors
from ..index.protocol import Mask, Rows, Vectors
from ..util.lock import Lock
from ..views import View
from .build.gold_prototypes import GOLD_WEIGHT, Document, GoldCounts, document_of, gold_prototypes, split_shared
from .columns import zero_vectors
from .entity_columns import EntityLike, EntityTable, StringColumn
from .lexical_index import folded_form
from .prototype_table import Prototype, PrototypeTable
from .references import References, checked_weight

METRIC = "inner product"
# The ids of more entities than this come into the vocabulary as they are linked, not when they are loaded: a million
# takes two seconds and 230 MB, and each saved vocabulary would hold them again.
MAX_STRINGS = 100_000

Encode = Callable[[List[View]], Vectors]


class Contents(KnowledgeBase):
    """Entities, their prototypes and their references, to be read and changed; `PrototypeKB` searches and saves them.

    Any thread may read while another one changes it: whatever takes more than one look is read from a version that is
    never changed (`_now`), and a change is made to tables and an index that no version in use holds (`_editing`).

    vocab, entity_vector_length, normalize, dtype, reference_weight: see there.
    """

    def __init__(
        self, vocab: Vocab, entity_vector_length: int, *, normalize: bool, dtype: str, reference_weight: float
    ) -> None:
        super().__init__(vocab, entity_vector_length)
        self._reference_weight = checked_weight(reference_weight)
        self.normalized = normalize
        self._entities = EntityTable()
        self._prototypes = PrototypeTable(entity_vector_length, dtype)
        # Kept while they are not in use, to be used again.
        self._references: Optional[References] = None
        self._encoder = ""
        self._encode: Optional[Encode] = None
        self._lock = Lock()
        # The version that is read, until the next change; itself where this is one.
        self._version: Optional[Any] = None
        self._is_version = False
        # This knowledge base and its versions still in use, which share tables and indexes.
        self._family: WeakSet[Any] = WeakSet([self])

    # What it holds.

    @property
    def entity_ids(self) -> StringColumn:
        """Ids by entity row, in ascending order."""
        return self._entities.ids

    @property
    def entity_names(self) -> StringColumn:
        """Canonical names by entity row."""
        return self._entities.names

    @property
    def n_entities(self) -> int:
        return len(self._entities)

    @property
    def n_prototypes(self) -> int:
        if self._is_version:
            return len(self._prototypes)
        with self._lock:
            return len(self._prototypes)

    @property
    def vectors(self) -> Vectors:
        """The vectors of all prototypes (n, d) as they are searched: with those of their entities' references added to
        them, where these are in use. Memory-mapped while unchanged. Not to be written to."""
        return self._now._prototypes.vectors

    @property
    def prototype_vectors(self) -> Vectors:
        """The vectors of all prototypes (n, d) by themselves."""
        return self._now._prototypes.prototype_vectors

    @property
    def scratch(self) -> Optional[Path]:
        """A folder on a disk with room for all vectors and texts. What is added stands there in nameless files until it
        is saved, so that a knowledge base can be built that is larger than memory; None: in memory."""
        return self._prototypes.scratch

    @scratch.setter
    def scratch(self, directory: Optional[Path]) -> None:
        with self._editing():
            self._prototypes = self._prototypes.copy(directory)

    @property
    def has_gold(self) -> bool:
        """Are gold mentions among the prototypes?"""
        return len(self._now._prototypes.gold_entities) > 0

    @property
    def metric(self) -> str:
        return METRIC

    @property
    def dtype(self) -> str:
        return self._prototypes.dtype

    @property
    def references(self) -> Optional[Vectors]:
        """The vectors of the entities' references by entity row (n_entities, d), in use or not; None without any."""
        return None if self._references is None else self._references.vectors

    @property
    def use_references(self) -> bool:
        """Whether references are part of the scores. Set it to leave them out, or to take them in again: the sums and
        the index are then made anew. Raises KrisselError K530 where there are none to use."""
        return self._prototypes.references is not None

    @use_references.setter
    def use_references(self, use: bool) -> None:
        with self._editing():
            if use and self._references is None:
                raise KrisselError(Errors.K530)
            if use != self.use_references:
                self._use(self._references if use else None)

    @property
    def reference_weight(self) -> float:
        """How much references count in the scores; may be set like `use_references`."""
        return self._reference_weight

    @reference_weight.setter
    def reference_weight(self, weight: float) -> None:
        with self._editing():
            if weight != self._reference_weight:
                self._reference_weight = checked_weight(weight)
                if self._references is not None:
                    self._references = References(self._references.vectors, weight)
                    self._use(self._references if self.use_references else None)

    @property
    def encoder(self) -> str:
        """Fingerprint of the encoder that made the vectors; empty where none was stated."""
        return self._encoder

    @encoder.setter
    def encoder(self, fingerprint: str) -> None:
        with self._editing():
            if fingerprint != self._encoder:
                self._encoder = fingerprint
                self._changed()

    def check_encoder(self, fingerprint: str, width: Optional[int] = None) -> None:
        """Raises KrisselError K522 when another encoder made the vectors, K528 when it gives vectors of another width.

        A knowledge base whose `encoder` is not stated takes any of the right width.
        """
        if width and self.entity_vector_length and width != self.entity_vector_length:
            raise KrisselError(Errors.K528.format(expected=self.entity_vector_length, found=width))
        if self._encoder and self._encoder != fingerprint:
            raise KrisselError(Errors.K522.format(expected=self._encoder, found=fingerprint))

    def is_empty(self) -> bool:
        return not (self.n_entities and self.n_prototypes)

    def check_filled(self) -> None:
        """Raises KrisselError K520 when there is nothing to link to."""
        if self.is_empty():
            raise KrisselError(Errors.K520.format(entities=self.n_entities, prototypes=self.n_prototypes))

    def entity_row(self, entity: str) -> Optional[int]:
        return self._entities.row(entity)

    def resolve(self, id: str) -> Optional[str]:
        """The primary id for an id or alternative id, None if there is none, as `OntologyStore.resolve`."""
        entities = self._entities
        row = entities.resolve(id)
        return None if row is None else entities.ids[row]

    def entity_rows(self, entities: Sequence[str]) -> Rows:
        """The row of each id, -1 for those unknown: (len(entities),)."""
        return self._entities.rows(entities)

    def entity_species(self) -> List[str]:
        """The species of all entities, each once, sorted; without that of entities that have none."""
        return self._entities.species()

    def entity_types(self, row: int) -> Tuple[str, ...]:
        return self._entities.types_at(row)

    def prototypes_at(self, rows: Any) -> List[Prototype]:
        """The prototypes at `rows`, an array of any shape, flattened, as in `SearchResult.prototypes`."""
        now = self._now
        found = now._prototypes.at(rows)
        ids = now.entity_ids.take(np.array([entity for entity, *_ in found], dtype=np.int64))
        return [Prototype(id_, kind, view, origin) for id_, (_, kind, view, origin) in zip(ids, found, strict=True)]

    def prototype_mentions(self, rows: Any) -> List[str]:
        """The surface forms alone of the prototypes at `rows`, an array of any shape, flattened."""
        return self._now._prototypes.mentions(rows)

    def prototypes_in_context(self, rows: Rows, left: str, right: str) -> Mask:
        """Which of the prototypes at `rows` (n,) were seen between just these texts: (n,)."""
        return self._now._prototypes.in_context(rows, left, right)

    # As in spaCy's own knowledge base. What changes that one (`add_entity`, `add_alias`, `append_alias`) has no
    # counterpart: an entity's names are prototypes, and come with their vectors (`set_entities`, `add_prototypes`).

    def __len__(self) -> int:
        return self.n_entities

    def __bool__(self) -> bool:
        # Not whether it has entities, as its length would say.
        return True

    def contains_entity(self, entity: str) -> bool:
        """Is this the id of an entity?"""
        return self.entity_row(entity) is not None

    def get_size_entities(self) -> int:
        return self.n_entities

    def get_entity_strings(self) -> List[str]:
        """The ids of all entities."""
        return list(self.entity_ids)

    def contains_alias(self, alias: str) -> bool:
        """Is this text, in just this spelling, a name or mention among the prototypes?"""
        return bool(self._now._prototypes.entities_of_mention(alias).size)

    def get_size_aliases(self) -> int:
        return len(self.get_alias_strings())

    def get_alias_strings(self) -> List[str]:
        """The names and mentions among the prototypes, each once."""
        return self._now._prototypes.distinct_mentions()

    def get_prior_prob(self, entity: str, alias: str) -> float:
        """The fraction, 0 to 1, of the prototypes with this text that are of the entity; 0 where either is unknown."""
        now = self._now
        found = now._prototypes.entities_of_mention(alias)
        row = now.entity_row(entity)
        return 0.0 if row is None or not found.size else float((found == row).mean())

    def prototype_rows(self, entity: str) -> Rows:
        """The rows of an entity's prototypes; none for an unknown entity."""
        now = self._now
        row = now.entity_row(entity)
        return np.zeros(0, dtype=np.int64) if row is None else now._prototypes.rows_of(row)

    @property
    def prototype_entities(self) -> Rows:
        """The entity row of each prototype: (n_prototypes,). Not to be written to."""
        return self._now._prototypes.entity_rows

    def entities_with(self, *kinds: str) -> Mask:
        """The entities that have a prototype of one of these kinds: (n_entities,)."""
        now = self._now
        mask = np.zeros(now.n_entities, dtype=bool)
        mask[now._prototypes.entities_of(kinds)] = True
        return mask

    # What is put in.

    def set_entities(self, entities: Iterable[EntityLike]) -> None:
        """Take `id`, `name`, `types`, `alt_ids` and `species` of each entity, in place of the present ones; prototypes
        and references stay.

        Raises KrisselError K513 (an id twice), K514 (no id), K515 (an entity with prototypes is missing).
        """
        table = EntityTable.from_entities(entities)
        with self._editing():
            if self.n_prototypes:
                present = self._prototypes.by_entity.present
                moved = np.full(self.n_entities, -1, dtype=np.int64)
                moved[present] = table.rows(self.entity_ids.take(present))
                lost = present[moved[present] < 0]
                if len(lost):
                    raise KrisselError(Errors.K515.format(count=len(lost), entity=self.entity_ids[lost[0]]))
                self._own_prototypes().move_entities(moved)
            if self._references is not None:
                in_use = self.use_references
                self._references = self._references.moved(table.rows(list(self.entity_ids)), len(table))
                # The sums are the same as before, and so is the index.
                self._own_prototypes().references = self._references if in_use else None
            self._entities = table
            self._changed()
        self._add_strings()

    def add_prototypes(
        self, prototypes: Iterable[Union[Prototype, Doc]], vectors: Any = None, *, weight: Optional[float] = None
    ) -> None:
        """Add `prototypes` with their `vectors` (len(prototypes), d); the index takes them in when next searched.

        Gold docs in the place of all prototypes are added as `add_gold(docs)` does, without vectors.

        vectors: None lets the lent encoder make them.
        weight: the scores of these prototypes are multiplied by it (their vectors are stored scaled); where references
            are in use, it scales c_p alone. None: 1, and for gold docs what `add_gold` has.

        Raises KrisselError K503 (wrong width), K504 (NaN), K510 (unknown entity), K511 (another number of vectors),
        K512 (unknown kind), K521 (no vectors, and no encoder was lent), K006 (a weight that is not positive, docs
        among prototypes, vectors of docs).
        """
        prototypes, docs = _sorted_out(prototypes)
        if docs:
            if prototypes or vectors is not None:
                beside = f"{len(prototypes)} prototypes" if prototypes else "vectors"
                found, expected = f"{len(docs)} docs beside {beside}", "prototypes alone, or docs alone without vectors"
                raise KrisselError(Errors.K006.format(setting="prototypes", found=found, expected=expected))
            self.add_gold(docs, weight=GOLD_WEIGHT if weight is None else weight)
            return
        weight = 1.0 if weight is None else weight
        if not weight > 0:
            raise KrisselError(Errors.K006.format(setting="weight", found=weight, expected="a number above 0"))
        if vectors is None:
            vectors = self._lent()([prototype.view for prototype in prototypes])
        matrix = check_vectors(vectors, self.entity_vector_length or None, "vectors of prototypes")
        if len(matrix) != len(prototypes):
            raise KrisselError(Errors.K511.format(prototypes=len(prototypes), vectors=len(matrix)))
        if not len(prototypes):
            return
        ids = [prototype.entity for prototype in prototypes]
        with self._editing():
            rows = self._entities.rows(ids)
            unknown = np.flatnonzero(rows < 0)
            if len(unknown):
                first = int(unknown[0])
                message = Errors.K510.format(count=len(unknown), total=len(ids), entity=ids[first], first=first)
                raise KrisselError(message)
            self._take_width(matrix.shape[1])
            scaled = self._scaled(matrix)
            self._own_prototypes().append(rows, prototypes, scaled if weight == 1 else scaled * weight)
            self._changed()

    def set_references(self, entities: Sequence[str], vectors: Any) -> None:
        """Take and use the vectors (len(entities), d) of these entities' references, in place of all present ones.

        Entities that are not named have none. Raises KrisselError K503 (wrong width), K504 (NaN), K531 (another number
        of vectors), K532 (unknown entity).
        """
        self.stream_references([(entities, vectors)])

    def stream_references(self, blocks: Iterable[Tuple[Sequence[str], Any]]) -> None:
        """`set_references` from blocks of entities and vectors, for more than fit into memory. Raises what it does; the
        present references stay then."""
        with self._editing():
            self._references = References(self._reference_vectors(blocks), self._reference_weight)
            self._use(self._references)

    def add_gold(self, docs: Iterable[Doc], *, weight: float = GOLD_WEIGHT, **settings: Any) -> GoldCounts:
        """Lazy learning (KRISSBERT §3.7): make the linked mentions of annotated docs prototypes, without training.

        They are of kind "gold", and know their source, document and offsets: see `remove_prototypes`.

        Names that other entities have too are believed less: see `split_shared`. What is added or removed later does
        not change what was made of these, and each call reads all names: documents are best added together.

        weight: see `add_prototypes`. settings: `source`, `spans_key`, `labels`, `per_entity`, `surface_forms` and
            `seed`, see `gold_prototypes`.
        RETURNS: what was added and what was left out. Warns KW501 of ids that are not in the knowledge base, KW030 of
        mentions of a corpus that were corrected in `doc.ents`. A document that is added twice is there twice: take it
        out first, with `remove_prototypes(docs=[…])`.
        Raises KrisselError K521 before an encoder was lent, and what `gold_prototypes` and `add_prototypes` raise.
        """
        self._lent()
        prototypes, counts = gold_prototypes(docs, self, **settings)
        counts.prototypes, counts.shared = self.add_gold_prototypes(prototypes, weight=weight)
        counts.warn()
        return counts

    def add_gold_prototypes(
        self, prototypes: Iterable[Prototype], *, encode: Optional[Encode] = None, weight: float = GOLD_WEIGHT
    ) -> Tuple[int, int]:
        """Add what `gold_prototypes` made, those of shared names with no more weight than others (`split_shared`).

        encode: makes their vectors (n, d); None: the lent encoder. RETURNS: how many were added, and of shared names.
        Raises what `add_prototypes` raises.
        """
        encode = encode or self._lent()
        prototypes = list(prototypes)
        forms = {folded_form(prototype.view.mention) for prototype in prototypes}
        # One change, so that nobody sees the first part without the second, or adds to what was read here.
        with self._lock:
            believed, others = split_shared(prototypes, self._bearers(forms), self._gold_documents(forms))
            # Before anything is added: an encoder that fails leaves nothing half done.
            vectors = encode([prototype.view for prototype in [*believed, *others]])
            self.add_prototypes(believed, vectors[: len(believed)], weight=weight)
            self.add_prototypes(others, vectors[len(believed) :])
        return len(believed) + len(others), len(others)

    def remove_prototypes(
        self,
        *,
        kind: Optional[str] = None,
        source: Optional[str] = None,
        docs: Optional[Collection[str]] = None,
    ) -> int:
        """Take out the prototypes of a `kind`, from a `source` and from the documents `docs`, where given.

        docs: ids of documents (`document_id`), or hashes of their texts (`text_hash`).

        The index is made anew when it is next searched. RETURNS: how many were taken out.
        Raises KrisselError K006 for an unknown kind, for documents that are no list, or when nothing was given.
        """
        if kind is None and source is None and docs is None:
            raise KrisselError(Errors.K006.format(setting="kind", found=kind, expected="a kind, a source or documents"))
        with self._editing():
            removed = self._prototypes.where(kind=kind, source=source, docs=docs)
            count = int(removed.sum())
            if count:
                # New objects in the place of the old: `without_prototypes` puts those back.
                self._prototypes = self._prototypes.take(~removed)
                self._changed(vectors=True)
        return count

    # Within.

    @property
    def _now(self) -> Any:
        """What it holds now, as a knowledge base of which nobody changes anything."""
        version = self if self._is_version else self._version
        if version is None:
            with self._lock:
                if self._version is None:
                    self._version = self._new_version()
                version = self._version
        return version

    def _new_version(self) -> Any:
        # Joined to what was added and never again written to, for as long as a version holds the table.
        _ = self._prototypes.vectors
        version = type(self).__new__(type(self))
        KnowledgeBase.__init__(version, self.vocab, self.entity_vector_length)
        version.__dict__.update(self.__dict__, _is_version=True, _version=None)
        self._family.add(version)
        return version

    @contextmanager
    def _editing(self) -> Iterator[None]:
        """Within, this thread alone changes it; others read the version of before, or wait."""
        with self._lock:
            for other in self._family:
                if other is self or other._version is self:
                    other._version = None
            self._is_version = False
            yield

    def _shares(self, attribute: str) -> bool:
        """Does a version in use hold the same table or index?"""
        mine = getattr(self, attribute)
        return any(other is not self and getattr(other, attribute) is mine for other in self._family)

    def _own_prototypes(self) -> PrototypeTable:
        """The prototypes, to be changed."""
        if self._shares("_prototypes"):
            self._prototypes = self._prototypes.copy(self.scratch)
        return self._prototypes

    def _changed(self, *, vectors: bool = False) -> None:
        """Called after each change. vectors: those that were there before are others now, or gone."""
        raise NotImplementedError

    def _reference_vectors(self, blocks: Iterable[Tuple[Sequence[str], Any]]) -> Vectors:
        references: Optional[Vectors] = None
        for entities, vectors in blocks:
            matrix = check_vectors(vectors, self.entity_vector_length or None, "vectors of references")
            if len(matrix) != len(entities):
                raise KrisselError(Errors.K531.format(entities=len(entities), vectors=len(matrix)))
            rows = self._entities.rows(entities)
            unknown = np.flatnonzero(rows < 0)
            if len(unknown):
                first = int(unknown[0])
                raise KrisselError(Errors.K532.format(count=len(unknown), total=len(rows), entity=entities[first]))
            self._take_width(matrix.shape[1])
            if references is None:
                references = zero_vectors(self.n_entities, matrix.shape[1], self.dtype, self.scratch)
            references[rows] = self._scaled(matrix)
        if references is None:
            references = zero_vectors(self.n_entities, self.entity_vector_length, self.dtype, self.scratch)
        return references

    def _use(self, references: Optional[References]) -> None:
        self._own_prototypes().references = references
        self._changed(vectors=True)

    def _lent(self) -> Encode:
        if self._encode is None:
            raise KrisselError(Errors.K521)
        return self._encode

    def _bearers(self, forms: Collection[str]) -> Dict[str, Set[str]]:
        """The entities that each of these surface forms names, the same as a search goes by."""
        forms = list(forms)
        now = self._now
        rows, places = now._prototypes.lexical_index.bearers(forms)
        found: Dict[str, Set[str]] = {form: set() for form in forms}
        for entity, place in zip(now.entity_ids.take(rows), places.tolist(), strict=True):
            found[forms[place]].add(entity)
        return found

    def _gold_documents(self, forms: Collection[str]) -> Dict[Tuple[str, str], Set[Document]]:
        """The documents in which gold gives each of these surface forms to an entity, by form and entity."""
        now = self._now
        rows = now._prototypes.rows_of_kinds(("gold",))
        wanted = [folded_form(mention) in forms for mention in now._prototypes.mentions(rows)]
        found: Dict[Tuple[str, str], Set[Document]] = {}
        for prototype in now.prototypes_at(rows[np.array(wanted, dtype=bool)]):
            key = (folded_form(prototype.view.mention), prototype.entity)
            found.setdefault(key, set()).add(document_of(prototype.origin))
        return found

    def _scaled(self, vectors: Vectors) -> Vectors:
        if not self.normalized:
            return vectors
        norms = np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1)

    def _take_width(self, width: int) -> None:
        """The first vectors decide on the width, where nothing else did."""
        if not self.entity_vector_length:
            self._set_width(width)
            self._prototypes = PrototypeTable(width, self.dtype, self.scratch)

    def _set_width(self, width: int) -> None:
        # Read-only in the base class, except through its constructor.
        if width != self.entity_vector_length:
            KnowledgeBase.__init__(self, self.vocab, width)

    def _add_strings(self) -> None:
        if self.n_entities > MAX_STRINGS:
            return
        for id_ in self.entity_ids:
            # Never transient: candidates outlive the memory zone in which the knowledge base may be loaded.
            self.vocab.strings.add(id_, allow_transient=False)


def _sorted_out(items: Iterable[Union[Prototype, Doc]]) -> Tuple[List[Prototype], List[Doc]]:
    items = list(items)
    return [item for item in items if not isinstance(item, Doc)], [item for item in items if isinstance(item, Doc)]
