"""A spaCy knowledge base whose entities are known by the vectors of their prototypes."""

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Callable, Collection, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

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
from ..index.protocol import Mask, Rows, VectorIndex, Vectors
from ..util.manifest import new_directory, read_manifest
from ..views import View, span_view
from .candidates import candidate_dicts, spacy_candidates
from .entities import EntityLike, EntityTable, StringColumn
from .gold_prototypes import GOLD_WEIGHT, GoldCounts, gold_prototypes
from .hybrid import add_lexical
from .prototypes import Prototype, PrototypeTable
from .ranking import SearchResult, search_entities
from .references import References
from .storage import KIND, Source, pack, unpack

FORMAT_VERSION = 1
INDEX_DIR = "index"
METRIC = "inner product"

Encode = Callable[[List[View]], Vectors]
MakeIndex = Callable[[], VectorIndex]


class PrototypeKB(KnowledgeBase):
    """Entities, the prototypes of each, and an index over the prototypes' vectors.

    The score of an entity for a mention is the highest inner product of the mention's vector with one of the entity's
    prototypes (KRISSBERT §3.4), to each of which the vector of the entity's reference is added where there are
    references (§3.5, eq. 6). Entities stand in the order of their ids, and are named by their row in `search`.

    vocab: the shared vocabulary; every entity id is in its strings.
    entity_vector_length: width of the vectors; 0 takes that of the first vectors added or loaded.
    index: makes the index that searches the vectors, as `spacy-krissel.ExactIndex.v1` or `spacy-krissel.FaissIndex.v1`
        give. None: as a loaded folder says, exact where nothing is loaded. An index that a loaded folder does not hold
        is built when first needed.
    normalize: scale all vectors and queries to unit length, so that scores are cosines. A loaded folder's own policy
        wins, and so do its dtype and its reference_weight.
    dtype: "float32", or "float16" to store the vectors in half the space.
    n_candidates: how many candidates `get_candidates` gives.
    reference_weight: w of `c_p + w·r_e`; 1 in the paper.
    """

    def __init__(
        self,
        vocab: Vocab,
        entity_vector_length: int,
        *,
        index: Optional[MakeIndex] = None,
        normalize: bool = False,
        dtype: str = "float32",
        n_candidates: int = 16,
        reference_weight: float = 1.0,
    ) -> None:
        super().__init__(vocab, entity_vector_length)
        guard_forks()
        self._reference_weight = _checked_weight(reference_weight)
        self.normalized = normalize
        self.n_candidates = n_candidates
        self._make_index = index
        self._entities = EntityTable()
        self._prototypes = PrototypeTable(entity_vector_length, dtype)
        # Kept while they are not in use, to be used again.
        self._references: Optional[References] = None
        self._index: Optional[VectorIndex] = None
        self._encoder = ""
        self._encode: Optional[Encode] = None
        self._source: Optional[Source] = None

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
        return len(self._prototypes)

    @property
    def vectors(self) -> Vectors:
        """The vectors of all prototypes (n, d) as they are searched: with those of their entities' references added to
        them, where these are in use. Memory-mapped while unchanged. Not to be written to."""
        return self._prototypes.vectors

    @property
    def own_vectors(self) -> Vectors:
        """The vectors of all prototypes (n, d) by themselves."""
        return self._prototypes.own_vectors

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
        if weight != self._reference_weight:
            self._reference_weight = _checked_weight(weight)
            if self._references is not None:
                self._references = References(self._references.vectors, weight)
                self._use(self._references if self.use_references else None)

    @property
    def metric(self) -> str:
        return METRIC

    @property
    def dtype(self) -> str:
        return self._prototypes.dtype

    @property
    def encoder(self) -> str:
        """Fingerprint of the encoder that made the vectors; empty where none was stated."""
        return self._encoder

    @encoder.setter
    def encoder(self, fingerprint: str) -> None:
        if fingerprint != self._encoder:
            self._encoder = fingerprint
            self._source = None

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
        row = self._entities.resolve(id)
        return None if row is None else self.entity_ids[row]

    def entity_rows(self, entities: Sequence[str]) -> Rows:
        """The row of each id, -1 for those unknown: (len(entities),)."""
        return self._entities.rows(entities)

    def entity_types(self, row: int) -> Tuple[str, ...]:
        return self._entities.types_at(row)

    def prototypes_at(self, rows: Any) -> List[Prototype]:
        """The prototypes at `rows`, an array of any shape, flattened, as in `SearchResult.prototypes`."""
        found = self._prototypes.at(rows)
        ids = self.entity_ids.take(np.array([entity for entity, *_ in found], dtype=np.int64))
        return [Prototype(id_, kind, view, origin) for id_, (_, kind, view, origin) in zip(ids, found)]

    def prototype_mentions(self, rows: Any) -> List[str]:
        """The surface forms alone of the prototypes at `rows`, an array of any shape, flattened."""
        return self._prototypes.mentions(rows)

    def prototype_rows(self, entity: str) -> Rows:
        """The rows of an entity's prototypes; none for an unknown entity."""
        row = self.entity_row(entity)
        return np.zeros(0, dtype=np.int64) if row is None else self._prototypes.rows_of(row)

    def entities_with(self, *kinds: str) -> Mask:
        """The entities that have a prototype of one of these kinds: (n_entities,)."""
        mask = np.zeros(self.n_entities, dtype=bool)
        mask[self._prototypes.entities_of(kinds)] = True
        return mask

    def description(self) -> Dict[str, Any]:
        """Counts, dimensions and policies, as they stand in the manifest."""
        index = self._new_index() if self._index is None else self._index
        return {
            "entities": self.n_entities,
            "prototypes": self.n_prototypes,
            "prototype_kinds": self._prototypes.kind_counts(),
            "prototype_sources": self._prototypes.source_counts(),
            "dimensions": self.entity_vector_length,
            "metric": METRIC,
            "normalized": self.normalized,
            "dtype": self.dtype,
            "encoder": self._encoder,
            "index": {"kind": index.kind, "settings": index.settings},
            "references": self._describe_references(),
        }

    # What is put in.

    def set_entities(self, entities: Iterable[EntityLike]) -> None:
        """Take `id`, `name` and `types` of each entity, in place of the present ones; prototypes and references stay.

        Raises KrisselError K513 (an id twice), K514 (no id), K515 (an entity with prototypes is missing).
        """
        table = EntityTable.from_entities(entities)
        if self.n_prototypes:
            present = self._prototypes.by_entity.present
            moved = np.full(self.n_entities, -1, dtype=np.int64)
            moved[present] = table.rows(self.entity_ids.take(present))
            lost = present[moved[present] < 0]
            if len(lost):
                raise KrisselError(Errors.K515.format(count=len(lost), entity=self.entity_ids[lost[0]]))
            self._prototypes.move_entities(moved)
        if self._references is not None:
            in_use = self.use_references
            self._references = self._references.moved(table.rows(list(self.entity_ids)), len(table))
            # The sums are the same as before, and so is the index.
            self._prototypes.references = self._references if in_use else None
        self._entities = table
        self._source = None
        self._add_strings()

    def add_prototypes(
        self, prototypes: Iterable[Union[Prototype, Doc]], vectors: Any = None, *, weight: float = 1.0
    ) -> None:
        """Add `prototypes` with their `vectors` (len(prototypes), d); the index takes them in when next searched.

        Gold docs in the place of prototypes are added as `add_gold(docs)` does.

        vectors: None lets the lent encoder make them.
        weight: the scores of these prototypes are multiplied by it (their vectors are stored scaled).

        Raises KrisselError K503 (wrong width), K504 (NaN), K510 (unknown entity), K511 (another number of vectors),
        K512 (unknown kind), K521 (no vectors, and no encoder was lent), K006 (a weight that is not positive).
        """
        prototypes, docs = _sorted_out(prototypes)
        if docs:
            self.add_gold(docs)
            return
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
        rows = self._entities.rows(ids)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            first = int(unknown[0])
            message = Errors.K510.format(count=len(unknown), total=len(ids), entity=ids[first], first=first)
            raise KrisselError(message)
        if not self.entity_vector_length:
            self._set_width(matrix.shape[1])
            self._prototypes = PrototypeTable(matrix.shape[1], self.dtype)
        scaled = self._scaled(matrix)
        self._prototypes.append(rows, prototypes, scaled if weight == 1 else scaled * weight)
        self._source = None

    def set_references(self, entities: Sequence[str], vectors: Any) -> None:
        """Take and use the vectors (len(entities), d) of these entities' references, in place of all present ones.

        Entities that are not named have none. Raises KrisselError K503 (wrong width), K504 (NaN), K531 (another number
        of vectors), K532 (unknown entity).
        """
        matrix = check_vectors(vectors, self.entity_vector_length or None, "vectors of references")
        if len(matrix) != len(entities):
            raise KrisselError(Errors.K531.format(entities=len(entities), vectors=len(matrix)))
        rows = self._entities.rows(entities)
        unknown = np.flatnonzero(rows < 0)
        if len(unknown):
            first = int(unknown[0])
            raise KrisselError(Errors.K532.format(count=len(unknown), total=len(rows), entity=entities[first]))
        if not self.entity_vector_length:
            self._set_width(matrix.shape[1])
            self._prototypes = PrototypeTable(matrix.shape[1], self.dtype)
        references = np.zeros((self.n_entities, matrix.shape[1]), dtype=self.dtype)
        references[rows] = self._scaled(matrix)
        self._references = References(references, self._reference_weight)
        self._use(self._references)

    def add_gold(self, docs: Iterable[Doc], *, weight: float = GOLD_WEIGHT, **settings: Any) -> GoldCounts:
        """Lazy learning (KRISSBERT §3.7): make the linked mentions of annotated docs prototypes, without training.

        They are of kind "gold", and know their source, document and offsets: see `remove_prototypes`.

        weight: see `add_prototypes`. settings: `source`, `spans_key`, `labels`, `per_entity`, `surface_forms` and
            `seed`, see `gold_prototypes`.
        RETURNS: what was added and what was left out. Warns KW501 of ids that are not in the knowledge base.
        Raises KrisselError K521 before an encoder was lent, and what `gold_prototypes` and `add_prototypes` raise.
        """
        self._lent()
        prototypes, counts = gold_prototypes(docs, self, **settings)
        self.add_prototypes(prototypes, weight=weight)
        counts.warn()
        return counts

    def remove_prototypes(
        self,
        *,
        kind: Optional[str] = None,
        source: Optional[str] = None,
        docs: Optional[Collection[str]] = None,
    ) -> int:
        """Take out the prototypes of a `kind`, from a `source` and from the documents with the ids `docs`, where given.

        The index is made anew when it is next searched. RETURNS: how many were taken out.
        Raises KrisselError K006 for an unknown kind, or when nothing was given.
        """
        if kind is None and source is None and docs is None:
            raise KrisselError(Errors.K006.format(setting="kind", found=kind, expected="a kind, a source or documents"))
        removed = self._prototypes.where(kind=kind, source=source, docs=docs)
        count = int(removed.sum())
        if count:
            # New objects in the place of the old: `without_prototypes` puts those back.
            self._prototypes, self._index = self._prototypes.take(~removed), None
            self._source = None
        return count

    @contextmanager
    def without_prototypes(self, **which: Any) -> Iterator[int]:
        """Within, the prototypes that `remove_prototypes(**which)` takes out are gone; how many is given. Afterwards
        everything is as it was: what is added within is lost."""
        before = self._prototypes, self._index, self._source
        self._prototypes = self._prototypes.copy()
        try:
            yield self.remove_prototypes(**which)
        finally:
            self._prototypes, self._index, self._source = before
            if self._index is not None and len(self._index) > self.n_prototypes:
                # It took in what was added within.
                self._index = None

    def build_index(self) -> VectorIndex:
        """Bring the index up to date with the prototypes now, rather than at the next search or save."""
        self.check_filled()
        if self._index is None:
            self._index = self._new_index()
        known = len(self._index)
        if known != self.n_prototypes:
            # Growing to more than twice its size, an index that was trained on the old part alone is better made anew.
            if self._index.owns_vectors and 0 < known < self.n_prototypes <= 2 * known:
                self._index.add(self.vectors[known:])
            else:
                self._index.build(self.vectors)
        return self._index

    # What is asked of it.

    def entity_mask(self, *, types: Optional[Iterable[str]] = None, ids: Optional[Iterable[str]] = None) -> Mask:
        """The entities that have one of the `types` and are among the `ids`, where given, for `search(allowed=)`.

        Raises KrisselError K525 for a type or id that the knowledge base does not have.
        """
        return self._entities.mask(types, ids)

    def search(
        self,
        vectors: Any,
        k: int,
        *,
        allowed: Optional[Mask] = None,
        texts: Optional[Sequence[str]] = None,
        lexical_weight: float = 0.0,
    ) -> SearchResult:
        """The `k` nearest distinct entities of each vector (q, d), among the `allowed` entities (n_entities,).

        With a `lexical_weight` and the mentions' `texts` (q,), scores are the inner product plus so many times the
        similarity in spelling (`Lexicon`), over the entities that either finds.

        Raises KrisselError K520 (empty), K503 (wrong width), K504 (NaN), K505 (wrong mask).
        """
        index = self.build_index()
        queries = self._scaled(check_queries(vectors, self.entity_vector_length))
        if allowed is not None:
            allowed = check_mask(allowed, self.n_entities, "entity")
        result = search_entities(index, self._prototypes, queries, k, allowed)
        if texts is None or not lexical_weight or not k or not len(queries):
            return result
        return add_lexical(result, self._prototypes, queries, texts, lexical_weight, allowed)

    def nearest_prototypes(self, vectors: Any, n: int) -> Tuple[Vectors, Rows, Rows]:
        """The `n` nearest prototypes of each vector (q, d), best first.

        RETURNS: inner products, prototype rows and entity rows, each (q, n); where an index finds fewer, -inf and -1.
        Raises as `search` does.
        """
        index = self.build_index()
        queries = self._scaled(check_queries(vectors, self.entity_vector_length))
        scores, rows = index.search(queries, min(n, self.n_prototypes), None)
        return scores, rows, np.where(rows >= 0, self._prototypes.entity_rows[rows], -1)

    def describe(self, result: SearchResult, k: Optional[int] = None) -> List[List[Dict[str, Any]]]:
        """A search result as plain dicts, up to `k` a query, best first: "id", "name", "score", "kind", "evidence"."""
        return candidate_dicts(self, result, k)

    def lend_encoder(self, encode: Encode) -> None:
        """Let `get_candidates` encode views: a list of them in, their vectors (n, d) out. Never saved or pickled."""
        self._encode = encode

    def get_candidates(self, mention: Span) -> List[Candidate]:
        """spaCy's candidates of a mention, best first. Raises KrisselError K521 before an encoder was lent."""
        return self.get_candidates_batch([mention])[0]

    def get_candidates_batch(self, mentions: Iterable[Span]) -> List[List[Candidate]]:
        mentions = list(mentions)
        encode = self._lent()
        if not mentions:
            return []
        result = self.search(encode([span_view(mention) for mention in mentions]), self.n_candidates)
        return spacy_candidates(self, mentions, result)

    def get_vector(self, entity: str) -> Vectors:
        """The mean of the entity's prototypes (d,) in float32; zeros for an entity that is unknown or has none."""
        return self.get_vectors([entity])[0]

    def get_vectors(self, entities: Iterable[str]) -> Vectors:
        """The means of several entities' prototypes: (len(entities), d)."""
        rows = self._entities.rows(list(entities))
        means = np.zeros((len(rows), self.entity_vector_length), dtype=np.float32)
        for mean, row in zip(means, rows):
            prototypes = self._prototypes.rows_of(row)
            if len(prototypes):
                mean[:] = self.vectors[prototypes].mean(axis=0, dtype=np.float32)
        return means

    # Saving, loading, sending.

    def to_disk(self, path: Union[str, Path], exclude: Iterable[str] = SimpleFrozenList()) -> None:
        """Write the folder `path`, all or nothing; it may be the folder that was loaded.

        exclude: "index" leaves the index to be built after loading, "prototypes" keeps the entities alone.
        """
        excluded = set(exclude)
        path = Path(path)
        prototypes = self._prototypes
        if "prototypes" in excluded:
            prototypes = PrototypeTable(self.entity_vector_length, self.dtype)
        references = self._references if "prototypes" not in excluded else None
        with new_directory(path, KIND, FORMAT_VERSION) as directory:
            self._entities.to_disk(directory.path)
            prototypes.to_disk(directory.path)
            if references is not None:
                references.to_disk(directory.path)
            directory.info.update(self.description())
            directory.info.update(
                prototypes=len(prototypes),
                prototype_kinds=prototypes.kind_counts(),
                prototype_sources=prototypes.source_counts(),
                references=self._describe_references() if references is not None else None,
            )
            # An index without prototypes is no more than the intention to have one.
            directory.info["index_saved"] = bool(len(prototypes)) and not self.is_empty() and "index" not in excluded
            if directory.info["index_saved"]:
                (directory.path / INDEX_DIR).mkdir()
                self.build_index().to_disk(directory.path / INDEX_DIR)
        if not excluded & {"index", "prototypes"}:
            self._source = Source.of(path)

    def from_disk(self, path: Union[str, Path], exclude: Iterable[str] = SimpleFrozenList()) -> "PrototypeKB":
        """Read the folder `path`, memory-mapped. A lent encoder stays.

        Raises KrisselError K001 to K004 and K524 (missing, of another kind or version, damaged), K523 (vectors of
        another width), K501 and K507 (an index that cannot be used here).
        """
        excluded = set(exclude)
        path = Path(path)
        manifest = read_manifest(path, KIND, FORMAT_VERSION)
        source = Source.of(path)
        width = manifest["dimensions"]
        if self.entity_vector_length and width and width != self.entity_vector_length:
            raise KrisselError(Errors.K523.format(path=path, found=width, expected=self.entity_vector_length))
        entities = EntityTable.from_disk(path, manifest["entities"])
        index = references = None
        # Knowledge bases of before there were references say nothing of them.
        described = manifest.get("references")
        if "prototypes" in excluded:
            prototypes = PrototypeTable(width, manifest["dtype"])
        else:
            dtype, count = manifest["dtype"], manifest["prototypes"]
            references = References.from_disk(path, described, len(entities), width, dtype)
            used = references if described and described["used"] else None
            prototypes = PrototypeTable.from_disk(path, count, width, dtype, len(entities), used)
            saved = manifest["index"] if manifest["index_saved"] and "index" not in excluded else None
            index = self._load_index(path / INDEX_DIR, saved, prototypes.vectors)
        self._set_width(width or self.entity_vector_length)
        self._entities, self._prototypes, self._index = entities, prototypes, index
        self._references = references
        if references is not None:
            self._reference_weight = references.weight
        self.normalized = manifest["normalized"]
        self._encoder = manifest["encoder"]
        self._source = None if excluded & {"index", "prototypes"} or index is None else source
        self._add_strings()
        return self

    def to_bytes(self, *, exclude: Iterable[str] = SimpleFrozenList()) -> bytes:
        """All files of `to_disk` in one byte string: it holds the whole knowledge base in memory."""
        source = self._source
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "kb"
            self.to_disk(path, exclude=exclude)
            self._source = source
            return pack(path)

    def from_bytes(self, bytes_data: bytes, *, exclude: Iterable[str] = SimpleFrozenList()) -> "PrototypeKB":
        """Raises KrisselError K527, and all that `from_disk` raises."""
        # The mapped files live on after their names are gone; where that is not so, they stay in the folder for
        # temporary files.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            path = Path(directory) / "kb"
            unpack(bytes_data, path)
            self.from_disk(path, exclude=exclude)
        self._source = None
        return self

    def __reduce__(self) -> Tuple[Any, ...]:
        """By path where a folder holds the same, by bytes after a change. The lent encoder stays behind."""
        settings = {
            "index": self._make_index,
            "normalize": self.normalized,
            "dtype": self.dtype,
            "n_candidates": self.n_candidates,
            "reference_weight": self._reference_weight,
        }
        source: Union[Source, bytes]
        if self._source is not None and not self._source.problem():
            source = self._source
        else:
            source = self.to_bytes()
        return _restore, (type(self), self.vocab, self.entity_vector_length, settings, source)

    # Within.

    def _use(self, references: Optional[References]) -> None:
        self._prototypes.references = references
        self._index = None
        self._source = None

    def _describe_references(self) -> Optional[Dict[str, Any]]:
        if self._references is None:
            return None
        return {"entities": len(self._references), "weight": self._reference_weight, "used": self.use_references}

    def _lent(self) -> Encode:
        if self._encode is None:
            raise KrisselError(Errors.K521)
        return self._encode

    def _scaled(self, vectors: Vectors) -> Vectors:
        if not self.normalized:
            return vectors
        norms = np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1)

    def _set_width(self, width: int) -> None:
        # Read-only in the base class, except through its constructor.
        KnowledgeBase.__init__(self, self.vocab, width)

    def _add_strings(self) -> None:
        for id_ in self.entity_ids:
            # Never transient: candidates outlive the memory zone in which the knowledge base may be loaded.
            self.vocab.strings.add(id_, allow_transient=False)

    def _new_index(self) -> VectorIndex:
        return self._make_index() if self._make_index is not None else ExactIndex()

    def _load_index(self, path: Path, saved: Optional[Dict[str, Any]], vectors: Vectors) -> Optional[VectorIndex]:
        """The index saved at `path`, if it is the one that was asked for; None leaves it to be built."""
        if saved is None:
            return None
        if self._make_index is None:
            index = make_index(saved["kind"], saved["settings"])
        else:
            index = self._make_index()
            if not index.owns_vectors:
                saved = {"kind": index.kind, "settings": index.settings}
            if index.kind != saved["kind"] or not index.reads(saved["settings"]):
                return None
        index.from_disk(path, vectors)
        return index


def _checked_weight(weight: float) -> float:
    if not 0 <= weight < float("inf"):
        expected = "a weight of 0 or more"
        raise KrisselError(Errors.K006.format(setting="reference_weight", found=weight, expected=expected))
    return float(weight)


def _sorted_out(items: Iterable[Union[Prototype, Doc]]) -> Tuple[List[Prototype], List[Doc]]:
    prototypes: List[Prototype] = []
    docs: List[Doc] = []
    for item in items:
        if isinstance(item, Doc):
            docs.append(item)
        else:
            prototypes.append(item)
    return prototypes, docs


def _restore(
    cls: Any, vocab: Vocab, width: int, settings: Dict[str, Any], source: Union[Source, bytes]
) -> "PrototypeKB":
    kb = cls(vocab, width, **settings)
    if isinstance(source, bytes):
        return kb.from_bytes(source)
    problem = source.problem()
    if problem:
        raise KrisselError(Errors.K526.format(path=source.path, problem=problem))
    return kb.from_disk(source.path)
