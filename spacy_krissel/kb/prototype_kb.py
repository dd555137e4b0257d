"""A spaCy knowledge base whose entities are known by the vectors of their prototypes."""

import copy
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

import numpy as np
from spacy.kb import Candidate
from spacy.tokens import Span
from spacy.util import SimpleFrozenList
from spacy.vocab import Vocab

from ..errors import Errors, KrisselError
from ..index.checks import check_mask, check_queries
from ..index.exact import ExactIndex
from ..index.fork import guard_forks
from ..index.kinds import make_index
from ..index.protocol import MakeIndex, Mask, Rows, Scores, Searches, VectorIndex, Vectors
from ..views import span_view
from .candidates import candidate_dicts, spacy_candidates
from .contents import METRIC, Contents, Encode
from .directory import Source, pack, read_folder, unpack, write_folder
from .hybrid import Evidence, Spelling, rank_by_all
from .prototype_table import PrototypeTable
from .ranking import SearchResult, search_entities

# What changes, always by a new object in the place of the old one. Prototypes and index grow in place, too.
STATE = ("_entities", "_prototypes", "_references", "_reference_weight", "_encoder", "_index", "_source", "_saved")


class PrototypeKB(Contents):
    """Entities, the prototypes of each, and an index over the prototypes' vectors.

    The score of an entity for a mention is the highest inner product of the mention's vector with one of the entity's
    prototypes (KRISSBERT §3.4), to each of which the vector of the entity's reference is added where there are
    references (§3.5, eq. 6). Entities stand in the order of their ids, and are named by their row in `search`.

    vocab: the shared vocabulary; every entity id is in its strings; where there are more than 100,000, each that was a
        candidate or a link.
    entity_vector_length: width of the vectors; 0 takes that of the first vectors added or loaded.
    index: makes the index that searches the vectors, as `spacy-krissel.ExactIndex.v1`, `spacy-krissel.FaissIndex.v1`
        or `spacy-krissel.MilvusIndex.v1` give. None: as a loaded folder says, exact where nothing is loaded. An index
        that a loaded folder does not hold is built when first needed.
    normalize: scale all vectors and queries to unit length, so that scores are cosines. A loaded folder's own policy
        wins, and so do its dtype and its reference_weight.
    dtype: "float32", or "float16" to store the vectors in half the space.
    n_candidates: how many candidates `get_candidates` gives.
    reference_weight: w of `c_p + w·r_e`; 1 in the paper.
    verify: what `from_disk` does where it is not told.
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
        verify: bool = True,
    ) -> None:
        super().__init__(
            vocab, entity_vector_length, normalize=normalize, dtype=dtype, reference_weight=reference_weight
        )
        guard_forks()
        self.n_candidates = n_candidates
        self.verify = verify
        self._make_index = index
        # Without one that was asked for, the kind that was read.
        self._make_read: Optional[MakeIndex] = None
        self._index: Optional[VectorIndex] = None
        self._tuning: Optional[Dict[str, Any]] = None
        # The folder that holds the same, and the one that does so but for the index.
        self._source: Optional[Source] = None
        self._saved: Optional[Source] = None

    def description(self) -> Dict[str, Any]:
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

    def snapshot(self) -> "PrototypeKB":
        """What it holds now, ready to be searched, for several questions about one version: what other threads change
        meanwhile does not show there. It shares all memory with this one; what is changed in it stays in it.

        Raises KrisselError K520 when there is nothing to link to.
        """
        now = self._now
        if not now._is_indexed():
            self.build_index()
            # Another thread may have changed it since; the version makes an index of its own then.
            now.build_index()
        return now

    @contextmanager
    def without_prototypes(self, **which: Any) -> Iterator[int]:
        """Within, the prototypes that `remove_prototypes(**which)` takes out are gone; how many is given. Afterwards
        everything is as it was: what is added or changed within is lost, entities and references too."""
        with self._editing():
            before = {name: getattr(self, name) for name in STATE}
            self._prototypes = self._prototypes.copy(self.scratch)
        try:
            yield self.remove_prototypes(**which)
        finally:
            with self._editing():
                for name, value in before.items():
                    setattr(self, name, value)
                if self._index is not None and len(self._index) > self.n_prototypes:
                    # It took in what was added within.
                    self._index = None

    def use_index(self, index: Optional[MakeIndex]) -> None:
        """Search with another kind of index from now on; it is made when first needed. None is the exact one."""
        with self._editing():
            self._make_index = index
            self._make_read = self._index = self._tuning = None
            self._source = self._saved = None

    def set_index(self, index: VectorIndex, tuning: Optional[Dict[str, Any]] = None) -> None:
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
                # Whoever searches the present one goes on with it until this one is whole.
                if index is None:
                    index = self._new_index()
                elif self._shares("_index"):
                    index = copy.copy(index)
                # Growing to more than twice its size, one that was trained on the old part alone is better made anew.
                if index.owns_vectors and 0 < known < now.n_prototypes <= 2 * known:
                    index.add(now.vectors[known:])
                else:
                    index.build(now.vectors)
            self._index = now._index = index
            return index

    def _is_indexed(self) -> bool:
        index = self._index
        return index is not None and len(index) == len(self._prototypes) > 0

    # What is asked of it.

    def entity_mask(
        self,
        *,
        types: Optional[Iterable[str]] = None,
        ids: Optional[Iterable[str]] = None,
        species: Optional[Iterable[str]] = None,
    ) -> Mask:
        """The entities that have one of the `types`, are among the `ids` and are of one of the `species`, where given,
        for `search(allowed=)`. One without a species may be of any.

        Raises KrisselError K525 for a type, id or species that the knowledge base does not have.
        """
        return self._entities.mask(types, ids, species)

    def search(
        self,
        vectors: Any,
        k: int,
        *,
        allowed: Optional[Mask] = None,
        texts: Optional[Sequence[str]] = None,
        lexical_weight: float = 0.0,
        names: Any = None,
        name_weight: float = 0.0,
        gold_prior: float = 0.0,
        break_ties: bool = True,
    ) -> SearchResult:
        """The `k` nearest distinct entities of each vector (q, d), among the `allowed` entities (n_entities,).

        With a `lexical_weight` and the mentions' `texts` (q,), scores are the inner product plus so many times the
        similarity in spelling (`LexicalIndex`), over the entities that either finds.

        names, name_weight: vectors (q, d) of the mentions' texts alone, and their share, 0 to 1, in the inner product.
        gold_prior: added to the score of each entity that has a gold mention among its prototypes.
        Neither counts for one of the `texts` that is a surface form of several entities.
        break_ties: entities that share the best prototype are told apart by their next ones.

        Raises KrisselError K520 (empty), K503 (wrong width), K504 (NaN), K505 (wrong mask).
        """
        now = self.snapshot()
        index, prototypes = now.build_index(), now._prototypes
        queries = now._scaled(check_queries(vectors, now.entity_vector_length))
        if allowed is not None:
            allowed = check_mask(allowed, now.n_entities, "entity")
        if names is not None:
            names = now._scaled(check_queries(names, now.entity_vector_length))
        evidence = Evidence(texts, lexical_weight, names, name_weight, gold_prior)
        found = [search_entities(index, prototypes, queries, k, allowed, break_ties)]
        if not evidence or not k or not len(queries):
            return found[0]
        if names is not None and evidence.names_weigh:
            found.append(search_entities(index, prototypes, names, k, allowed, break_ties))
        return rank_by_all(found, prototypes, queries, evidence, allowed, break_ties)

    def search_with(self, index: Searches, vectors: Any, k: int) -> SearchResult:
        """`search` by vectors alone, with another index of `self.vectors`. Raises what `search` does."""
        now = self._now
        now.check_filled()
        queries = now._scaled(check_queries(vectors, now.entity_vector_length))
        return search_entities(index, now._prototypes, queries, k, None)

    def nearest_prototypes(self, vectors: Any, n: int) -> Tuple[Vectors, Rows, Rows]:
        """The `n` nearest prototypes of each vector (q, d), best first.

        RETURNS: inner products, prototype rows and entity rows, each (q, n); where an index finds fewer, -inf and -1.
        Raises as `search` does.
        """
        now = self.snapshot()
        queries = now._scaled(check_queries(vectors, now.entity_vector_length))
        scores, rows = now.build_index().search(queries, min(n, now.n_prototypes), None)
        return scores, rows, np.where(rows >= 0, now._prototypes.entity_rows[rows], -1)

    def products(self, vector: Vectors, rows: Rows) -> Scores:
        """The inner products of one vector (d,) with the prototypes at `rows` (n,): (n,), as `search` has them."""
        return self.vectors[rows].astype(np.float32, copy=False) @ self._scaled(vector[None])[0]

    def spelling(self, texts: Sequence[str], hidden: Sequence[bool]) -> Spelling:
        """What `search` with a `lexical_weight` adds for the texts (q,), those `hidden` (q,) without their own form."""
        return Spelling(self._now._prototypes.lexical_index, texts, hidden)

    def describe(self, result: SearchResult, k: Optional[int] = None) -> List[List[Dict[str, Any]]]:
        """A search result as plain dicts, up to `k` a query, best first: "id", "name", "score", "kind", "evidence"."""
        return candidate_dicts(self._now, result, k)

    def attach_encoder(self, encode: Encode) -> None:
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

    # Saving, loading, sending.

    def to_disk(self, path: Union[str, Path], exclude: Iterable[str] = SimpleFrozenList()) -> None:
        """Write the folder `path`, all or nothing; it may be the folder that was loaded.

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
        self,
        path: Union[str, Path],
        exclude: Iterable[str] = SimpleFrozenList(),
        *,
        verify: Optional[bool] = None,
    ) -> "PrototypeKB":
        """Read the folder `path`, memory-mapped. A lent encoder stays.

        verify: compare every file with its checksum, which reads all of them once; False takes large ones as they are,
            as a folder that was verified before may be. None: as the knowledge base was made with.

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
            self._index = read.index
            found = read.index
            self._make_read = None if found is None else partial(make_index, found.kind, found.settings)
            self._tuning = read.manifest["tuning"] if read.index is not None else None
            # Without an index it does not hold all that the folder does, or is to hold something else.
            self._source = None if read.index is None else read.source
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
        # The mapped files live on after their names are gone; where that is not so, they stay in the folder for
        # temporary files.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            path = Path(directory) / "kb"
            unpack(bytes_data, path)
            self.from_disk(path, exclude=exclude)
        with self._editing():
            self._source = self._saved = None
        return self

    def is_saved(self, path: Union[str, Path]) -> bool:
        """Does the folder `path` still hold its entities, prototypes and references? False after a change here, or
        where they were never saved there; what other processes wrote there since is theirs."""
        saved, path = self._now._saved, Path(path)
        return saved is not None and saved.path.resolve() == path.resolve() and path.exists()

    def __reduce__(self) -> Tuple[Any, ...]:
        """By path where a folder holds the same, by bytes after a change. The lent encoder stays behind."""
        now = self._now
        settings = {
            "index": self._make_index,
            "normalize": now.normalized,
            "dtype": now.dtype,
            "n_candidates": self.n_candidates,
            "reference_weight": now._reference_weight,
            "verify": self.verify,
        }
        saved: Optional[Source] = now._source
        source = saved if saved is not None and not saved.problem() else now.to_bytes()
        return _restore, (type(self), self.vocab, self.entity_vector_length, settings, source)

    # Within.

    def _changed(self, *, vectors: bool = False) -> None:
        self._source = self._saved = None
        if vectors:
            self._index = None

    def _new_version(self) -> "PrototypeKB":
        version = super()._new_version()
        if not version._is_indexed():
            # The next version makes it grow.
            version._index = None
        return version

    def _written(self, path: Path, excluded: Set[str]) -> "PrototypeKB":
        """The version that was written to the folder `path`."""
        now: PrototypeKB = self._now
        prototypes, references, index = now._prototypes, now._references, None
        if "prototypes" in excluded:
            prototypes, references = PrototypeTable(now.entity_vector_length, now.dtype), None
        # An index without prototypes is no more than the intention to have one.
        if not excluded & {"index", "prototypes"} and not now.is_empty():
            self.build_index()
            index = now.build_index()
        write_folder(path, now.description(), now._entities, prototypes, references, index)
        return now

    def _new_index(self) -> VectorIndex:
        make: MakeIndex = self._make_index or self._make_read or ExactIndex
        return make()


def empty_kb(
    index: Optional[MakeIndex] = None,
    normalize: bool = False,
    dtype: str = "float32",
    n_candidates: int = 16,
    reference_weight: float = 1.0,
    verify: bool = True,
) -> Callable[[Vocab, int], PrototypeKB]:
    """Registered as `spacy-krissel.EmptyKB.v1`: makes a `PrototypeKB` of a vocabulary and a width of vectors.

    index, normalize, dtype, n_candidates, reference_weight, verify: as in `PrototypeKB`.
    """
    return partial(
        PrototypeKB,
        index=index,
        normalize=normalize,
        dtype=dtype,
        n_candidates=n_candidates,
        reference_weight=reference_weight,
        verify=verify,
    )


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
