"""A spaCy knowledge base whose entities are known by the vectors of their prototypes."""

import copy
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

import numpy as np
from spacy.kb import Candidate, KnowledgeBase
from spacy.tokens import Doc, Span
from spacy.util import SimpleFrozenList
from spacy.vocab import Vocab

from ..errors import Errors, KrisselError
from ..index.checks import check_mask, check_queries, check_vectors
from ..index.exact import ExactIndex
from ..index.fork import guard_forks
from ..index.kinds import make_index
from ..index.protocol import MakeIndex, Mask, Rows, Searches, VectorIndex, Vectors
from ..ontology.entity import Entity
from ..util.lock import Lock
from ..util.settings import NotNegative, Positive, PositiveInt, check, checked, maker
from ..views import View, span_view
from .build.gold_prototypes import GOLD_WEIGHT, GoldCounts, add_gold, add_gold_prototypes
from .candidates import spacy_candidates
from .columns import zero_vectors
from .directory import Source, pack, read_folder, unpack, write_folder
from .entity_columns import EntityLike, EntityTable, StringColumn
from .hybrid import CanSee, LexicalQuery, rank_candidates, with_ties
from .prototype_table import Prototype, PrototypeTable
from .ranking import SearchResult, best_entities, search_entities
from .references import References

METRIC = "inner product"
# Above this many entities, an id enters the vocabulary when it is first linked, not on load: a million ids take two
# seconds and 230 MB, and every saved vocabulary would hold them again.
MAX_STRINGS = 100_000
# What a change replaces. Prototypes and index also grow in place, where no version in use shares them.
STATE = (
    *("_entities", "_prototypes", "_references", "_reference_weight", "_encoder"),
    *("_index", "_tuning", "_source", "_saved"),
)

Encode = Callable[[list[View]], Vectors]


@checked
class PrototypeKB(KnowledgeBase):
    """Entities, the prototypes of each, and an index over the prototypes' vectors.

    The score of an entity for a mention is the highest inner product of the mention's vector with one of the entity's
    prototypes (KRISSBERT §3.4), to each of which the vector of the entity's reference is added where references are in
    use (§3.5, eq. 6). Entities are sorted by id; `search` names them by row.

    Threads may read it while another one changes it: reads go to an immutable version (`snapshot`), and changes are
    made to tables and an index that no version in use shares.

    vocab: the shared vocabulary. It gets every entity id, or with more than 100,000 entities those that were linked.
    entity_vector_length: width of the vectors; 0 takes the width of the first vectors added or loaded.
    index: makes the index that searches the vectors (`spacy-krissel.ExactIndex.v1`, `spacy-krissel.FaissIndex.v1`,
        `spacy-krissel.MilvusIndex.v1`). null: the index saved with the knowledge base, else the exact one.
    normalize: scale all vectors and queries to unit length, so that scores are cosines. A loaded knowledge base keeps
        its own policy, dtype and reference_weight.
    dtype: "float32", or "float16" to store the vectors in half the space.
    n_candidates: number of candidates that `get_candidates` returns.
    reference_weight: w of `c_p + w·r_e`; 1 in the paper.
    verify: whether `from_disk` checks file hashes and contents by default.
    """

    def __init__(
        self,
        vocab: Vocab,
        entity_vector_length: int,
        *,
        index: MakeIndex | None = None,
        normalize: bool = False,
        dtype: Literal["float32", "float16"] = "float32",
        n_candidates: PositiveInt = 16,
        reference_weight: NotNegative = 1.0,
        verify: bool = True,
    ) -> None:
        super().__init__(vocab, entity_vector_length)
        guard_forks()
        self.normalized = normalize
        self.n_candidates = n_candidates
        self.verify = verify
        self._entities = EntityTable()
        self._prototypes = PrototypeTable(entity_vector_length, dtype)
        # Kept while they are not in use.
        self._references: References | None = None
        self._reference_weight = reference_weight
        self._encoder = ""
        self._encode: Encode | None = None
        self._make_index = index
        # The kind of index that was read, used where none was asked for.
        self._make_read: MakeIndex | None = None
        self._index: VectorIndex | None = None
        self._tuning: dict[str, Any] | None = None
        # The folder that holds the same, and the one that does so except for the index.
        self._source: Source | None = None
        self._saved: Source | None = None
        self._lock = Lock()
        # The version that is read, until the next change; itself where this is one.
        self._version: Any | None = None
        self._is_version = False
        # This knowledge base and its versions in use, which share tables and indexes.
        self._family: WeakSet[Any] = WeakSet([self])

    # Entities ------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of entities."""
        return len(self._entities)

    def __bool__(self) -> bool:
        return True  # even without entities

    def __contains__(self, entity: object) -> bool:
        """Is this the primary id of an entity?"""
        return isinstance(entity, str) and self.entity_row(entity) is not None

    def __getitem__(self, entity: str) -> Entity:
        """The entity with this primary or alternative id, without names other than the canonical one.

        Raises KrisselError K525 for an unknown id.
        """
        entities = self._entities
        row = entities.resolve(entity)
        if row is None:
            raise entities.unknown("ids", [entity])
        return entities.at(row)

    @property
    def n_entities(self) -> int:
        return len(self._entities)

    @property
    def entity_ids(self) -> StringColumn:
        """Ids by entity row, ascending."""
        return self._entities.ids

    @property
    def entity_names(self) -> StringColumn:
        """Canonical names by entity row."""
        return self._entities.names

    def entity_row(self, entity: str) -> int | None:
        return self._entities.row(entity)

    def entity_rows(self, entities: Sequence[str]) -> Rows:
        """The row of each id, -1 for unknown ones: (len(entities),)."""
        return self._entities.rows(entities)

    def entity_types(self, row: int) -> tuple[str, ...]:
        return self._entities.types_at(row)

    def entity_species(self) -> list[str]:
        """The distinct species of all entities, sorted."""
        return self._entities.species()

    def resolve(self, id: str) -> str | None:
        """The primary id for an id or alternative id, None if there is none, as `OntologyStore.resolve`."""
        entities = self._entities
        row = entities.resolve(id)
        return None if row is None else entities.ids[row]

    def entity_mask(
        self,
        *,
        types: Iterable[str] | None = None,
        ids: Iterable[str] | None = None,
        species: Iterable[str] | None = None,
    ) -> Mask:
        """The entities with one of the `types`, one of the `ids` and one of the `species`, where given, for
        `search(allowed=)`. An entity without a species counts as any species.

        Raises KrisselError K525 for a type, id or species that the knowledge base does not have.
        """
        return self._entities.mask(types, ids, species)

    def set_entities(self, entities: Iterable[EntityLike]) -> None:
        """Replace the entities (`id`, `name`, `types`, `alt_ids`, `species` of each); prototypes and references stay.

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
                self._unshared_prototypes().move_entities(moved)
            if self._references is not None:
                in_use = self.use_references
                self._references = self._references.moved(table.rows(list(self.entity_ids)), len(table))
                # Vectors and index stay the same.
                self._unshared_prototypes().references = self._references if in_use else None
            self._entities = table
            self._changed()
        self._add_strings()

    # Prototypes ----------------------------------------------------------------------------------------------------

    @property
    def n_prototypes(self) -> int:
        if self._is_version:
            return len(self._prototypes)
        with self._lock:
            return len(self._prototypes)

    @property
    def vectors(self) -> Vectors:
        """The vectors of all prototypes (n, d) as they are searched: c_p + w·r_e where references are in use, else c_p.
        Memory-mapped while unchanged. Read only."""
        return self._now._prototypes.vectors

    @property
    def prototype_vectors(self) -> Vectors:
        """The vectors c_p of all prototypes (n, d), without references. Read only."""
        return self._now._prototypes.prototype_vectors

    @property
    def prototype_entities(self) -> Rows:
        """The entity row of each prototype: (n_prototypes,). Read only."""
        return self._now._prototypes.entity_rows

    @property
    def dtype(self) -> str:
        return self._prototypes.dtype

    @property
    def has_gold(self) -> bool:
        """Are gold mentions among the prototypes?"""
        return len(self._now._prototypes.gold_entities) > 0

    @property
    def scratch(self) -> Path | None:
        """A folder for unnamed temporary files that hold what is added until it is saved, so that a knowledge base can
        exceed memory; None: in memory."""
        return self._prototypes.scratch

    @scratch.setter
    def scratch(self, directory: Path | None) -> None:
        with self._editing():
            self._prototypes = self._prototypes.copy(directory)

    def prototypes_at(self, rows: Any) -> list[Prototype]:
        """The prototypes at `rows`, an array of any shape, flattened, as in `SearchResult.prototypes`."""
        now = self._now
        found = now._prototypes.at(rows)
        ids = now.entity_ids.take(np.array([entity for entity, *_ in found], dtype=np.int64))
        return [Prototype(id_, kind, view, origin) for id_, (_, kind, view, origin) in zip(ids, found, strict=True)]

    def prototype_mentions(self, rows: Any) -> list[str]:
        """The surface forms of the prototypes at `rows`, an array of any shape, flattened."""
        return self._now._prototypes.mentions(rows)

    def prototypes_in_context(self, rows: Rows, left: str, right: str) -> Mask:
        """Which of the prototypes at `rows` (n,) have exactly this context: (n,)."""
        return self._now._prototypes.in_context(rows, left, right)

    def prototype_rows(self, entity: str) -> Rows:
        """The rows of an entity's prototypes; none for an unknown entity."""
        now = self._now
        row = now.entity_row(entity)
        return np.zeros(0, dtype=np.int64) if row is None else now._prototypes.rows_of(row)

    def rows_of_kind(self, kind: str) -> Rows:
        """The rows of the prototypes of this kind, ascending."""
        return self._now._prototypes.rows_of_kinds([kind])

    def entities_named(self, texts: Sequence[str]) -> tuple[Rows, Rows]:
        """The rows of the entities with each text as a surface form, and the place of that text in `texts`."""
        return self._now._prototypes.lexical_index.named(texts)

    def entities_with(self, *kinds: str) -> Mask:
        """The entities that have a prototype of one of these kinds: (n_entities,)."""
        now = self._now
        mask = np.zeros(now.n_entities, dtype=bool)
        mask[now._prototypes.entities_of(kinds)] = True
        return mask

    @checked
    def add_prototypes(self, prototypes: Iterable[Prototype], vectors: Any = None, *, weight: Positive = 1.0) -> None:
        """Add `prototypes` with their `vectors` (len(prototypes), d); the index takes them in at the next search.

        vectors: None lets the attached encoder make them.
        weight: the scores of these prototypes are multiplied by it (their vectors are stored scaled); where references
            are in use, it scales c_p alone.

        Raises KrisselError K503 (wrong width), K504 (NaN), K510 (unknown entity), K511 (another number of vectors),
        K512 (unknown kind), K521 (neither vectors nor an encoder), K006 (a weight that is not positive, gold docs).
        """
        prototypes = list(prototypes)
        if any(isinstance(each, Doc) for each in prototypes):
            expected = "prototypes (kb.add_gold(docs) takes annotated docs)"
            raise KrisselError(Errors.K006.format(setting="prototypes", found="docs", expected=expected))
        if vectors is None:
            vectors = self._attached()([prototype.view for prototype in prototypes])
        matrix = check_vectors(vectors, self.entity_vector_length or None, "vectors of prototypes")
        if len(matrix) != len(prototypes):
            raise KrisselError(Errors.K511.format(prototypes=len(prototypes), vectors=len(matrix)))
        if not prototypes:
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
            self._unshared_prototypes().append(rows, prototypes, scaled if weight == 1 else scaled * weight)
            self._changed()

    def remove_prototypes(
        self, *, kind: str | None = None, source: str | None = None, docs: Collection[str] | None = None
    ) -> int:
        """Remove the prototypes of a `kind`, from a `source` and from the documents `docs`, where given.

        docs: ids of documents (`document_id`), or hashes of their texts (`text_hash`).

        The index is rebuilt at the next search. RETURNS: the number of removed prototypes.
        Raises KrisselError K006 for an unknown kind, for documents that are no list, or when nothing was given.
        """
        if kind is None and source is None and docs is None:
            raise KrisselError(Errors.K006.format(setting="kind", found=kind, expected="a kind, a source or documents"))
        with self._editing():
            removed = self._prototypes.where(kind=kind, source=source, docs=docs)
            count = int(removed.sum())
            if count:
                self._prototypes = self._prototypes.take(~removed)
                self._changed(vectors=True)
        return count

    @contextmanager
    def one_change(self) -> Iterator["PrototypeKB"]:
        """Within, other threads change nothing, and see no part of what this one changes; gives the present version."""
        with self._lock:
            yield self._now

    @contextmanager
    def without_prototypes(self, **which: Any) -> Iterator[int]:
        """Within, the prototypes that `remove_prototypes(**which)` removes are gone; gives their number. Afterwards all
        is as before: changes made within are lost, those of entities and references too."""
        with self._editing():
            before = self._new_version()
        try:
            yield self.remove_prototypes(**which)
        finally:
            with self._editing():
                for name in STATE:
                    setattr(self, name, getattr(before, name))

    def add_gold(self, docs: Iterable[Doc], *, weight: float = GOLD_WEIGHT, **settings: Any) -> GoldCounts:
        """Lazy learning (KRISSBERT §3.7): add the linked mentions of annotated docs; see `gold_prototypes.add_gold`."""
        return add_gold(self, self._attached(), docs, weight=weight, **settings)

    def add_gold_prototypes(
        self, prototypes: Iterable[Prototype], *, encode: Encode | None = None, weight: float = GOLD_WEIGHT
    ) -> tuple[int, int]:
        """Add gold prototypes; see `gold_prototypes.add_gold_prototypes`. encode: None: the attached encoder."""
        return add_gold_prototypes(self, encode or self._attached(), prototypes, weight=weight)

    # References and encoder ----------------------------------------------------------------------------------------

    @property
    def references(self) -> Vectors | None:
        """The reference vectors by entity row (n_entities, d), in use or not; None without any."""
        return None if self._references is None else self._references.vectors

    @property
    def use_references(self) -> bool:
        """Whether references are part of the scores. Settable: the vectors and the index are then rebuilt. Raises
        KrisselError K530 where there are none to use."""
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
        """The weight of references in the scores, 0 or more; settable like `use_references`."""
        return self._reference_weight

    @reference_weight.setter
    def reference_weight(self, weight: float) -> None:
        weight = check("reference_weight", weight, NotNegative)
        with self._editing():
            if weight != self._reference_weight:
                self._reference_weight = weight
                if self._references is not None:
                    self._references = References(self._references.vectors, weight)
                    self._use(self._references if self.use_references else None)

    def set_references(self, entities: Sequence[str], vectors: Any) -> None:
        """Replace all references by the vectors (len(entities), d) of these entities, and use them.

        Other entities have none. Raises KrisselError K503 (wrong width), K504 (NaN), K531 (another number of vectors),
        K532 (unknown entity).
        """
        self.stream_references([(entities, vectors)])

    def stream_references(self, blocks: Iterable[tuple[Sequence[str], Any]]) -> None:
        """`set_references` from blocks of entities and vectors, for more than fit into memory. Where it raises, the
        present references stay."""
        with self._editing():
            self._references = References(self._reference_vectors(blocks), self._reference_weight)
            self._use(self._references)

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

    def check_encoder(self, fingerprint: str, width: int | None = None) -> None:
        """Raises KrisselError K522 when another encoder made the vectors, K528 when its vectors have another width.

        A knowledge base whose `encoder` is not stated takes any of the right width.
        """
        if width and self.entity_vector_length and width != self.entity_vector_length:
            raise KrisselError(Errors.K528.format(expected=self.entity_vector_length, found=width))
        if self._encoder and self._encoder != fingerprint:
            raise KrisselError(Errors.K522.format(expected=self._encoder, found=fingerprint))

    def attach_encoder(self, encode: Encode) -> None:
        """Let `get_candidates` and `add_gold` encode views: a list of them in, their vectors (n, d) out. Never saved or
        pickled."""
        self._encode = encode

    # Search --------------------------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        return not (self.n_entities and self.n_prototypes)

    def check_filled(self) -> None:
        """Raises KrisselError K520 when there is nothing to link to."""
        if self.is_empty():
            raise KrisselError(Errors.K520.format(entities=self.n_entities, prototypes=self.n_prototypes))

    def snapshot(self) -> "PrototypeKB":
        """The present version, ready to be searched: changes by other threads do not show in it. It shares all memory
        with this one; changes made to it stay in it.

        Raises KrisselError K520 when there is nothing to link to.
        """
        now = self._now
        if not now._is_indexed():
            self.build_index()
            # Another thread may have changed it since; the version then builds an index of its own.
            now.build_index()
        return now

    def search(
        self,
        vectors: Any,
        k: int,
        *,
        allowed: Mask | None = None,
        texts: Sequence[str] | None = None,
        lexical_weight: float = 0.0,
        names: Any = None,
        name_weight: float = 0.0,
        gold_prior: float = 0.0,
        break_ties: bool = True,
    ) -> SearchResult:
        """The `k` nearest distinct entities of each vector (q, d), among the `allowed` entities (n_entities,).

        texts, lexical_weight: the mentions' texts (q,), and the weight of their lexical similarity (`LexicalIndex`) in
            the score, over the entities that either search finds.
        names, name_weight: vectors (q, d) of the mentions' texts alone, and their fraction, 0 to 1, in the similarity
            of vectors.
        gold_prior: added to the score of each entity that has a gold mention among its prototypes.
            Neither this nor `names` counts for one of the `texts` that is a surface form of several entities.
        break_ties: entities that share the best prototype are ordered by their next best ones.

        Raises KrisselError K520 (empty), K503 (wrong width), K504 (NaN), K505 (wrong mask).
        """
        now = self.snapshot()
        index, prototypes = now.build_index(), now._prototypes
        queries = now._queries(vectors)
        if allowed is not None:
            allowed = check_mask(allowed, now.n_entities, "entity")
        name_vectors = None if names is None or not name_weight > 0 else now._queries(names)
        found = [search_entities(index, prototypes, queries, k, allowed, break_ties)]
        is_lexical = texts is not None and lexical_weight > 0
        if not k or not len(queries) or not (is_lexical or name_vectors is not None or gold_prior):
            return found[0]
        if name_vectors is not None:
            found.append(search_entities(index, prototypes, name_vectors, k, allowed, break_ties))
        return rank_candidates(
            prototypes,
            queries,
            *with_ties(found),
            k,
            allowed=allowed,
            lexical=LexicalQuery(prototypes.lexical_index, texts) if is_lexical else None,
            lexical_weight=lexical_weight,
            texts=texts,
            names=name_vectors,
            name_weight=name_weight,
            gold_prior=gold_prior,
            break_ties=break_ties,
        )

    def search_unseen(
        self,
        vectors: Any,
        k: int,
        can_see: CanSee,
        n_prototypes: int,
        *,
        texts: Sequence[str],
        hidden: Sequence[bool],
        lexical_weight: float = 0.0,
    ) -> SearchResult:
        """`search` by the prototypes that each query can see, the others left out as if they were not there.

        can_see: (number of the query, prototype rows (n,)) → mask (n,). n_prototypes: the nearest ones looked through.
        hidden (q,): for these `texts`, the surface form that they fold to does not count in the lexical similarity.
        """
        now = self.snapshot()
        prototypes, queries = now._prototypes, now._queries(vectors)
        scores, rows, entities = now.nearest_prototypes(vectors, n_prototypes)
        for query in range(len(queries)):
            inside = np.flatnonzero(rows[query] >= 0)
            unseen = inside[~can_see(query, rows[query, inside])]
            scores[query, unseen], rows[query, unseen], entities[query, unseen] = -np.inf, -1, -1
        found = best_entities(entities, scores, rows, k)
        if not lexical_weight:
            return found
        lexical = LexicalQuery(prototypes.lexical_index, texts, hidden)
        return rank_candidates(
            prototypes,
            queries,
            found.entities,
            found.prototypes,
            k,
            lexical=lexical,
            lexical_weight=lexical_weight,
            can_see=can_see,
            break_ties=False,
        )

    def search_with(self, index: Searches, vectors: Any, k: int) -> SearchResult:
        """`search` by vectors alone, with another index of `self.vectors`. Raises what `search` does."""
        now = self._now
        now.check_filled()
        return search_entities(index, now._prototypes, now._queries(vectors), k, None)

    def nearest_prototypes(self, vectors: Any, n: int) -> tuple[Vectors, Rows, Rows]:
        """The `n` nearest prototypes of each vector (q, d), best first.

        RETURNS: inner products, prototype rows and entity rows, each (q, n), padded with -inf and -1.
        Raises as `search` does.
        """
        now = self.snapshot()
        scores, rows = now.build_index().search(now._queries(vectors), min(n, now.n_prototypes), None)
        return scores, rows, np.where(rows >= 0, now._prototypes.entity_rows[rows], -1)

    def use_index(self, index: MakeIndex | None) -> None:
        """Search with another kind of index from now on; it is built when first needed. None is the exact one."""
        with self._editing():
            self._make_index = index
            self._make_read = self._index = self._tuning = None
            self._source = self._saved = None

    def set_index(self, index: VectorIndex, tuning: dict[str, Any] | None = None) -> None:
        """Search with this index of its `vectors` from now on.

        tuning: what was measured of it, for the manifest. JSON values only.
        """
        with self._editing():
            self.use_index(partial(make_index, index.kind, index.settings))
            self._index, self._tuning = index, tuning

    def build_index(self) -> VectorIndex:
        """Bring the index up to date with the prototypes now, rather than at the next search or save."""
        if self._is_version and self._is_indexed() and self._index is not None:
            return self._index
        with self._lock:
            now = self._now
            now.check_filled()
            index, known = self._index, 0 if self._index is None else len(self._index)
            if index is None or known != now.n_prototypes:
                # Searches go on with the present index until this one is complete.
                if index is None:
                    index = self._new_index()
                elif self._shares("_index"):
                    index = copy.copy(index)
                # Above twice its size, an index that was trained on the old part alone is better rebuilt.
                if index.owns_vectors and 0 < known < now.n_prototypes <= 2 * known:
                    index.add(now.vectors[known:])
                else:
                    index.build(now.vectors)
            self._index = now._index = index
            return index

    # spaCy's look-ups. Its `add_entity` and `add_alias` have no counterpart: names are prototypes with vectors. ------

    def contains_entity(self, entity: str) -> bool:
        return entity in self

    def get_size_entities(self) -> int:
        return self.n_entities

    def get_entity_strings(self) -> list[str]:
        return list(self.entity_ids)

    def contains_alias(self, alias: str) -> bool:
        """Is exactly this text a name or mention among the prototypes?"""
        return bool(self._now._prototypes.entities_of_mention(alias).size)

    def get_size_aliases(self) -> int:
        return len(self.get_alias_strings())

    def get_alias_strings(self) -> list[str]:
        """The distinct names and mentions among the prototypes."""
        return self._now._prototypes.distinct_mentions()

    def get_prior_prob(self, entity: str, alias: str) -> float:
        """The fraction, 0 to 1, of the prototypes with this text that are of the entity; 0 where either is unknown."""
        now = self._now
        found = now._prototypes.entities_of_mention(alias)
        row = now.entity_row(entity)
        return 0.0 if row is None or not found.size else float((found == row).mean())

    def get_candidates(self, mention: Span) -> list[Candidate]:
        """spaCy's candidates of a mention, best first. Raises KrisselError K521 without an attached encoder."""
        return self.get_candidates_batch([mention])[0]

    def get_candidates_batch(self, mentions: Iterable[Span]) -> list[list[Candidate]]:
        mentions = list(mentions)
        encode = self._attached()
        if not mentions:
            return []
        vectors = encode([span_view(mention) for mention in mentions])
        now = self.snapshot()
        return spacy_candidates(now, mentions, now.search(vectors, self.n_candidates))

    def get_vector(self, entity: str) -> Vectors:
        """The mean of the entity's prototypes (d,) in float32; zeros for an entity that is unknown or has none."""
        return self.get_vectors([entity])[0]

    def get_vectors(self, entities: Iterable[str]) -> Vectors:
        """The means of several entities' prototypes: (len(entities), d)."""
        now = self._now
        rows = now._entities.rows(list(entities))
        means = np.zeros((len(rows), now.entity_vector_length), dtype=np.float32)
        for mean, row in zip(means, rows, strict=True):
            prototypes = now._prototypes.rows_of(row)
            if len(prototypes):
                mean[:] = now.vectors[prototypes].mean(axis=0, dtype=np.float32)
        return means

    # Saving and loading --------------------------------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """Counts, dimensions and policies, as they stand in the manifest."""
        now = self._now
        index = self._new_index() if self._index is None else self._index
        references = None
        if now._references is not None:
            count, used = len(now._references), now.use_references
            references = {"entities": count, "weight": now.reference_weight, "used": used}
        return {
            "entities": now.n_entities,
            "prototypes": now.n_prototypes,
            "prototype_kinds": now._prototypes.kind_counts(),
            "prototype_sources": now._prototypes.source_counts(),
            "dimensions": now.entity_vector_length,
            "metric": METRIC,
            "normalized": now.normalized,
            "dtype": now.dtype,
            "encoder": now._encoder,
            "index": {"kind": index.kind, "settings": index.settings},
            "tuning": now._tuning,
            "references": references,
        }

    def to_disk(self, path: str | Path, exclude: Iterable[str] = SimpleFrozenList()) -> None:
        """Write the folder `path` atomically; it may be the folder that was loaded.

        exclude: "index" leaves the index to be built after loading, "prototypes" keeps the entities alone.
        """
        now = self._written(Path(path), set(exclude))
        if not set(exclude) & {"index", "prototypes"}:
            source = Source.of(Path(path))
            with self._lock:
                if self._now is now:
                    for each in {self, now}:
                        each._source = each._saved = source

    def from_disk(
        self, path: str | Path, exclude: Iterable[str] = SimpleFrozenList(), *, verify: bool | None = None
    ) -> "PrototypeKB":
        """Read the folder `path`, memory-mapped. An attached encoder stays.

        verify: compare every file with its checksum, which reads all of them once; False trusts large files, for a
            folder that was verified before. None: the setting `verify`.

        Raises KrisselError K001 to K004 and K524 (missing, of another kind or version, damaged), K523 (vectors of
        another width), K501 and K507 (an index that cannot be used here).
        """
        excluded = set(exclude)
        verify = self.verify if verify is None else verify
        read = read_folder(Path(path), self.entity_vector_length, self._make_index, excluded, verify=verify)
        with self._editing():
            self._set_width(read.manifest["dimensions"] or self.entity_vector_length)
            self._entities, self._prototypes, self._references = read.entities, read.prototypes, read.references
            if read.references is not None:
                self._reference_weight = read.references.weight
            self.normalized = read.manifest["normalized"]
            self._encoder = read.manifest["encoder"]
            self._index = found = read.index
            self._make_read = None if found is None else partial(make_index, found.kind, found.settings)
            self._tuning = None if found is None else read.manifest["tuning"]
            # Without an index it does not hold all that the folder does, or is to hold something else.
            self._source = None if found is None else read.source
            self._saved = None if "prototypes" in excluded else read.source
        self._add_strings()
        return self

    def to_bytes(self, *, exclude: Iterable[str] = SimpleFrozenList()) -> bytes:
        """All files of `to_disk` in one byte string: it holds the whole knowledge base in memory."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "kb"
            self._written(path, set(exclude))
            return pack(path)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = SimpleFrozenList()) -> "PrototypeKB":
        """Raises KrisselError K527, and all that `from_disk` raises."""
        # Mapped files outlive their names; where they do not (Windows), they stay in the folder for temporary files.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            path = Path(directory) / "kb"
            unpack(bytes_data, path)
            self.from_disk(path, exclude=exclude)
        with self._editing():
            self._source = self._saved = None
        return self

    def is_saved(self, path: str | Path) -> bool:
        """Was it saved to or loaded from the folder `path`, and not changed since? Changes to the folder by other
        processes do not count."""
        saved, path = self._now._saved, Path(path)
        return saved is not None and saved.path.resolve() == path.resolve() and path.exists()

    def __reduce__(self) -> tuple[Any, ...]:
        """By path where a folder holds the same, by bytes after a change. The attached encoder is left out."""
        now = self._now
        settings = {
            "index": self._make_index,
            "normalize": now.normalized,
            "dtype": now.dtype,
            "n_candidates": self.n_candidates,
            "reference_weight": now._reference_weight,
            "verify": self.verify,
        }
        saved: Source | None = now._source
        source = saved if saved is not None and not saved.problem() else now.to_bytes()
        return _restore, (type(self), self.vocab, self.entity_vector_length, settings, source)

    def _written(self, path: Path, excluded: set[str]) -> "PrototypeKB":
        """Write the folder `path`. RETURNS: the version that was written."""
        now: PrototypeKB = self._now
        prototypes, references, index = now._prototypes, now._references, None
        if "prototypes" in excluded:
            prototypes, references = PrototypeTable(now.entity_vector_length, now.dtype), None
        # An index without prototypes cannot be built.
        if not excluded & {"index", "prototypes"} and not now.is_empty():
            self.build_index()
            index = now.build_index()
        write_folder(path, now.description(), now._entities, prototypes, references, index)
        return now

    # Versions ------------------------------------------------------------------------------------------------------

    @property
    def _now(self) -> Any:
        """The present version: a knowledge base that nobody changes."""
        version = self if self._is_version else self._version
        if version is None:
            with self._lock:
                if self._version is None:
                    self._version = self._new_version()
                version = self._version
        return version

    def _new_version(self) -> Any:
        # Joins what was added: the table is never written to again while a version holds it.
        _ = self._prototypes.vectors
        version = type(self).__new__(type(self))
        KnowledgeBase.__init__(version, self.vocab, self.entity_vector_length)
        version.__dict__.update(self.__dict__, _is_version=True, _version=None)
        self._family.add(version)
        if not version._is_indexed():
            # The next version makes it grow.
            version._index = None
        return version

    @contextmanager
    def _editing(self) -> Iterator[None]:
        """Within, this thread alone changes it; others read the version before, or wait."""
        with self._lock:
            for other in self._family:
                if other is self or other._version is self:
                    other._version = None
            self._is_version = False
            yield

    def _changed(self, *, vectors: bool = False) -> None:
        """Called after each change. vectors: earlier vectors were changed or removed."""
        self._source = self._saved = None
        if vectors:
            self._index = None

    def _shares(self, attribute: str) -> bool:
        """Does a version in use hold the same table or index?"""
        mine = getattr(self, attribute)
        return any(other is not self and getattr(other, attribute) is mine for other in self._family)

    def _unshared_prototypes(self) -> PrototypeTable:
        """The prototypes, to be changed."""
        if self._shares("_prototypes"):
            self._prototypes = self._prototypes.copy(self.scratch)
        return self._prototypes

    # Helpers -------------------------------------------------------------------------------------------------------

    def _is_indexed(self) -> bool:
        index = self._index
        return index is not None and len(index) == len(self._prototypes) > 0

    def _new_index(self) -> VectorIndex:
        make: MakeIndex = self._make_index or self._make_read or ExactIndex
        return make()

    def _attached(self) -> Encode:
        if self._encode is None:
            raise KrisselError(Errors.K521)
        return self._encode

    def _queries(self, vectors: Any) -> Vectors:
        return self._scaled(check_queries(vectors, self.entity_vector_length))

    def _scaled(self, vectors: Vectors) -> Vectors:
        if not self.normalized:
            return vectors
        norms = np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1)

    def _use(self, references: References | None) -> None:
        self._unshared_prototypes().references = references
        self._changed(vectors=True)

    def _reference_vectors(self, blocks: Iterable[tuple[Sequence[str], Any]]) -> Vectors:
        references: Vectors | None = None
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


def _restore(cls: Any, vocab: Vocab, width: int, settings: dict[str, Any], source: Source | bytes) -> "PrototypeKB":
    kb = cls(vocab, width, **settings)
    if isinstance(source, bytes):
        return kb.from_bytes(source)
    problem = source.problem()
    if problem:
        raise KrisselError(Errors.K526.format(path=source.path, problem=problem))
    return kb.from_disk(source.path)


# Registered as `spacy-krissel.EmptyKB.v1`: makes a `PrototypeKB` of a vocabulary and a width of vectors.
empty_kb = maker(PrototypeKB, "vocab", "entity_vector_length")
