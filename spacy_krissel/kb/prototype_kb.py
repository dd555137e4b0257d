"""A spaCy knowledge base whose entities are represented by the vectors of their prototypes."""

import copy
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

import numpy as np
from spacy.kb import Candidate, KnowledgeBase
from spacy.tokens import Doc, Span
from spacy.util import SimpleFrozenList
from spacy.vocab import Vocab

from ..errors import Errors, KrisselError, KrisselWarning, Warnings, wrong_setting
from ..index.devices import guard_forks
from ..index.kinds import make_index
from ..index.protocol import MakeIndex, Rows, VectorIndex, Vectors
from ..util.lock import Lock
from ..util.settings import NotNegative, Positive, PositiveInt, checked, factory_for
from ..views import View, span_view
from .candidates import spacy_candidates
from .changes import (
    changed,
    with_entities,
    with_inactive,
    with_prototypes,
    with_references,
    with_verdicts,
    without_prototypes,
    without_verdicts,
)
from .directory import Source, pack, unpack
from .doc_verdicts import doc_verdicts, not_repeated
from .entity_columns import EntityTable
from .prototype_table import Kind, Prototype, PrototypeTable
from .snapshot import KBSnapshot, Lookups, device_of, verdicts_of
from .storage import read_snapshot, write_snapshot
from .verdicts import NOTHING_SAID, NumberedVerdicts, Verdict

# With more entities, an id enters the vocabulary when it is first linked, not on load. A million
# ids take two seconds and 230 MB, and every saved vocabulary would contain them again.
MAX_STRINGS = 100_000
Encode = Callable[[list[View]], Vectors]


@checked
class PrototypeKB(Lookups, KnowledgeBase):
    """Entities, the prototypes of each, and an index over the prototypes' vectors.

    The score of an entity for a mention is the highest inner product of the mention's vector with
    one of the entity's prototypes (KRISSBERT §3.4). If references are in use, the vector of the
    entity's reference is added to each prototype (§3.5, eq. 6). Entities are sorted by id; `search`
    returns their rows.

    Threads may read it while another one changes it: each call reads one `KBSnapshot`.

    vocab: the shared vocabulary. It gets every entity id, or with more than 100,000 entities those
        that were linked.
    entity_vector_length: width of the vectors; 0 takes the width of the first vectors added or
        loaded.
    index: makes the index that searches the vectors (`spacy-krissel.ExactIndex.v1`,
        `spacy-krissel.FaissIndex.v1`). null: the index saved with the knowledge base, else the
        exact one.
    index_device: device of the index: "cpu", "cuda", "cuda:N" or "cuda:all". null: the index's own
        setting; a saved index on the CPU. The config keeps this setting; a saved knowledge base
        does not.
    normalize: scale all vectors and queries to unit length, so that scores are cosines. A loaded
        knowledge base keeps its own policy, dtype and reference_weight.
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
        index_device: str | None = None,
        normalize: bool = False,
        dtype: Literal["float32", "float16"] = "float32",
        n_candidates: PositiveInt = 16,
        reference_weight: NotNegative = 1.0,
        verify: bool = True,
    ) -> None:
        super().__init__(vocab, entity_vector_length)
        guard_forks()
        self.n_candidates = n_candidates
        self.verify = verify
        self._reference_weight = reference_weight
        # Folder for unnamed files of unsaved additions, so that a knowledge base can exceed memory;
        # None: in memory.
        self.scratch: Path | None = None
        self._encode: Encode | None = None
        # Held during a change. Branches share the lock, and so do the snapshots in use, since they
        # may share an index that grows.
        self.lock = Lock()
        self._snapshots: WeakSet[KBSnapshot] = WeakSet()
        prototypes = PrototypeTable.empty(entity_vector_length, dtype)
        self.replace(
            KBSnapshot(
                EntityTable(), prototypes, normalize, make_index=index, index_device=index_device
            )
        )
        self.current.check_device()

    @property
    def current(self) -> KBSnapshot:
        return self._current

    def replace(self, snapshot: KBSnapshot) -> None:
        """Set the current snapshot; the caller must hold the `lock` since it read the current
        one.
        """
        self._snapshots.add(snapshot)
        self._current = snapshot
        if snapshot.width != self.entity_vector_length:
            # Read-only in the base class, except through its constructor.
            KnowledgeBase.__init__(self, self.vocab, snapshot.width)

    # Entities -------------------------------------------------------------------------------------

    @property
    def entities(self) -> EntityTable:
        return self.current.entities

    def set_entities(self, entities: Iterable[Any], *, details: bool = True) -> None:
        """Replace the entities; prototypes and references are kept.

        entities: objects with `id`, `name`, `types` and, optionally, the other fields of an
            `Entity`.
        details: keep the fields that search does not read: aliases, definitions, xrefs, parents,
            tree numbers.
        Raises KrisselError K513 (an id twice), K514 (no id), K515 (an entity with prototypes is
        missing).
        """
        table = EntityTable.from_entities(entities, details=details, scratch=self.scratch)
        with self.lock:
            self.replace(with_entities(self.current, table))
        self._add_strings()

    # Prototypes -----------------------------------------------------------------------------------

    @property
    def prototypes(self) -> PrototypeTable:
        return self.current.prototypes

    @checked
    def add_prototypes(
        self,
        prototypes: Iterable[Prototype],
        vectors: Any = None,
        *,
        weight: Positive | list[Positive] = 1.0,
    ) -> None:
        """Add `prototypes` with their `vectors` (len(prototypes), d); the next search indexes them.

        vectors: None computes them with the attached encoder.
        weight: factor of the scores of these prototypes, or one factor per prototype (their vectors
            are stored scaled). If references are in use, it scales c_p alone.

        Raises KrisselError K503 (wrong width), K504 (NaN), K510 (unknown entity), K511 (another
        number of vectors), K512 (unknown kind), K521 (neither vectors nor an encoder), K006 (a
        weight that is not positive, another number of weights, gold docs).
        """
        prototypes = list(prototypes)
        if any(isinstance(each, Doc) for each in prototypes):
            expected = "prototypes (add_gold(kb, docs) takes annotated docs)"
            raise wrong_setting("prototypes", "docs", expected)
        if vectors is None:
            vectors = self.attached_encoder()([prototype.view for prototype in prototypes])
        weights = (
            np.full(len(prototypes), weight)
            if isinstance(weight, (int, float))
            else np.array(weight)
        )
        if len(weights) != len(prototypes):
            expected = f"one number, or one for each of the {len(prototypes)} prototypes"
            raise wrong_setting("weight", f"{len(weights)} numbers", expected)
        with self.lock:
            self.replace(with_prototypes(self.current, prototypes, vectors, weights, self.scratch))

    @checked
    def remove_prototypes(
        self, *, kind: Kind | None = None, source: str | None = None, docs: list[str] | None = None
    ) -> int:
        """Remove the prototypes of a `kind`, from a `source` and from the documents `docs`, if
        given.

        docs: ids of documents (`document_id`), or hashes of their texts (`text_hash`).

        Inactive ones (`inactive`) are removed as well. The index is rebuilt at the next search.
        RETURNS: the number of removed prototypes, without the inactive ones. Raises KrisselError
        K006 for an unknown kind, for documents that are not a list, or if nothing was given.
        """
        if kind is None and source is None and docs is None:
            raise wrong_setting("kind", kind, "a kind, a source or documents")
        with self.lock:
            removed, inactive = self.prototypes.where(kind, source, docs), self.inactive
            others = None if inactive is None else inactive.prototypes.where(kind, source, docs)
            self.replace(without_prototypes(self.current, removed, others))
        return int(removed.sum())

    @contextmanager
    def without_prototypes(self, **which: Any) -> Iterator[int]:
        """Context without the prototypes that `remove_prototypes(**which)` removes.

        It yields their number. On exit the earlier state is restored: changes made meanwhile are
        lost.
        """
        before = self.current
        try:
            yield self.remove_prototypes(**which)
        finally:
            with self.lock:
                self.replace(before)

    # Verdicts -------------------------------------------------------------------------------------

    def add_corrections(
        self,
        docs: Doc | Iterable[Doc],
        *,
        source: str = "",
        spans_key: str = "",
        same_document: bool = False,
        skip_unknown: bool = False,
    ) -> int:
        """Correct links: each mention of annotated docs is linked to its `kb_id_` from now on.

        In its sentence the correction is the link, with confidence 1, whatever the settings. Other
        mentions of its canonical form gain evidence for the entity, by how alike the contexts are.
        No other link changes. The last correction of a mention counts.

        docs: mentions with the ids of their entities in `kb_id_`, "NIL" for none (`gold_spans`).
        source: a label, by which they can be undone (`remove_verdicts`).
        spans_key: the group of mentions; "": those of the corpus, else `doc.ents`.
        same_document: they hold in these documents only, by id or text; else in each text that has
            the sentence.
        skip_unknown: leave out mentions with ids that the knowledge base lacks (KW501).
        RETURNS: the number of new verdicts.

        Raises KrisselError K521 without an attached encoder, K533 for unknown ids.
        """
        options = {"source": source, "spans_key": spans_key, "same_document": same_document}
        return self._add_said(docs, skip_unknown, rejects=False, **options)

    def add_rejections(
        self,
        docs: Doc | Iterable[Doc],
        *,
        source: str = "",
        spans_key: str = "",
        same_document: bool = False,
        skip_unknown: bool = False,
    ) -> int:
        """Reject links: no mention of annotated docs is the entity in its `kb_id_`.

        In its sentence the mention is never linked to that entity; "NIL" links it to none at all.
        For other mentions of its canonical form the entity has less score and confidence, by how
        alike the contexts are. No other link changes.

        The rest as in `add_corrections`.
        """
        options = {"source": source, "spans_key": spans_key, "same_document": same_document}
        return self._add_said(docs, skip_unknown, rejects=True, **options)

    def _add_said(self, docs: Any, skip_unknown: bool, **options: Any) -> int:
        self.attached_encoder()
        verdicts, unknown = doc_verdicts(docs, self, **options)
        if unknown:
            total = len(verdicts) + len(unknown)
            counts = {"count": len(unknown), "total": total, "examples": "; ".join(unknown[:3])}
            if not skip_unknown:
                raise KrisselError(Errors.K533.format(**counts))
            warnings.warn(Warnings.KW501.format(**counts), KrisselWarning, stacklevel=3)
        with self.lock:
            new = not_repeated(verdicts, self.current)
            return len(self.add_verdicts(new))

    def add_verdicts(
        self,
        verdicts: Iterable[Verdict],
        vectors: Any = None,
        numbers: Sequence[int] | None = None,
    ) -> Rows:
        """Add verdicts, each after those before it: the last correction of a mention is its link.

        vectors: of their views (len(verdicts), d); None computes them with the attached encoder.
        numbers: their order among all verdicts, see `VerdictTable`; None: after all others.
        RETURNS: their rows in the `VerdictTable`.

        Raises KrisselError K503 (wrong width), K504 (NaN), K511 (another number of vectors), K521
        (neither vectors nor an encoder), K535 (a verdict that says nothing, or names an entity that
        the knowledge base lacks).
        """
        verdicts = [*verdicts]
        if vectors is None:
            vectors = self.attached_encoder()([each.view for each in verdicts])
        with self.lock:
            start = self.verdicts.n_rows
            self.replace(with_verdicts(self.current, verdicts, vectors, numbers))
            return np.arange(start, self.verdicts.n_rows)

    def all_verdicts(self) -> Iterator[Verdict]:
        """Yield all verdicts, oldest first, as `add_verdicts` takes them."""
        return verdicts_of(self.current)

    @checked
    def remove_verdicts(
        self, *, source: str | None = None, docs: list[str] | None = None, rows: Any = None
    ) -> int:
        """Undo the verdicts of a `source`, and of the documents `docs`, if given: links are as if
        they had never been.

        docs: see `remove_prototypes`. rows: of the `VerdictTable`, instead of both.

        Inactive ones (`inactive`) are undone as well. RETURNS: the number of verdicts, without the
        inactive ones. Raises KrisselError K006 for documents that are not a list, or if nothing was
        given.
        """
        if source is None and docs is None and rows is None:
            raise wrong_setting("source", source, "a source or documents")
        with self.lock:
            table = self.verdicts
            removed = table.where(source, docs) if rows is None else np.zeros(table.n_rows, bool)
            if rows is not None:
                removed[rows] = table.active[rows]
            now = without_verdicts(self.current, removed)
            if now.inactive is not None and rows is None:
                others = now.inactive.verdicts.where(source, docs)
                now = changed(now, inactive=without_verdicts(now.inactive, others))
            self.replace(now)
        return int(removed.sum())

    @contextmanager
    def without_verdicts(self, **which: Any) -> Iterator[int]:
        """Context without the verdicts that `remove_verdicts(**which)` removes, as
        `without_prototypes`."""
        before = self.current
        try:
            yield self.remove_verdicts(**which)
        finally:
            with self.lock:
                self.replace(before)

    # References and encoder -----------------------------------------------------------------------

    def set_references(self, blocks: Iterable[tuple[Sequence[str], Any]]) -> None:
        """Replace all references by those of `blocks`, pairs of entity ids and vectors (len(ids),
        d).

        Other entities have none. On an error the present references are kept. Raises KrisselError
        K503 (wrong width), K504 (NaN), K531 (another number of vectors), K532 (unknown entity).
        """
        with self.lock:
            self.replace(
                with_references(self.current, blocks, self._reference_weight, self.scratch)
            )

    @property
    def ontology(self) -> list[dict[str, Any]]:
        """Provenance of the entities, one entry per source: its file, format, `version` and
        `licence`.

        Unknown values are missing.
        """
        return self.current.ontology

    @ontology.setter
    def ontology(self, provenance: list[dict[str, Any]]) -> None:
        with self.lock:
            self.replace(changed(self.current, ontology=provenance))

    @property
    def made_with(self) -> dict[str, Any]:
        """Settings of the `PrototypeSource` that filled it, to fill one of another release
        likewise."""
        return self.current.made_with

    @made_with.setter
    def made_with(self, settings: dict[str, Any]) -> None:
        with self.lock:
            self.replace(changed(self.current, made_with=settings))

    @property
    def inactive(self) -> KBSnapshot | None:
        """Entities that earlier releases of the ontology had, with the gold mentions and names that
        people added to them; None if there are none. They are not searched."""
        return self.current.inactive

    def set_inactive(
        self,
        entities: Iterable[Any],
        prototypes: Sequence[Prototype],
        vectors: Any,
        weights: np.ndarray,
        said: NumberedVerdicts = NOTHING_SAID,
    ) -> None:
        """Replace the inactive entities, their prototypes, and the verdicts that name them.

        vectors: of the prototypes (n, d). weights: (n,), see `add_prototypes`. said: the verdicts.
        Raises KrisselError K513 and K514 (entities), and those of `add_prototypes` and
        `add_verdicts`.
        """
        table = EntityTable.from_entities(entities, details=False)
        with self.lock:
            self.replace(with_inactive(self.current, table, prototypes, vectors, weights, said))

    @property
    def encoder(self) -> str:
        """Fingerprint of the encoder that made the vectors; empty if unknown."""
        return self.current.encoder

    @encoder.setter
    def encoder(self, fingerprint: str) -> None:
        with self.lock:
            if fingerprint != self.encoder:
                self.replace(changed(self.current, encoder=fingerprint))

    def check_encoder(self, fingerprint: str, width: int | None = None) -> None:
        """Check that the vectors were made by this encoder.

        A knowledge base without a stated `encoder` accepts any encoder of its width.

        Raises KrisselError K522 if another encoder made the vectors, K528 if its vectors have
        another width.
        """
        if width and self.entity_vector_length and width != self.entity_vector_length:
            raise KrisselError(Errors.K528.format(expected=self.entity_vector_length, found=width))
        if self.encoder and self.encoder != fingerprint:
            raise KrisselError(Errors.K522.format(expected=self.encoder, found=fingerprint))

    def attach_encoder(self, encode: Encode) -> None:
        """Set the encoder of `get_candidates` and `add_prototypes`.

        encode: takes a list of views and returns their vectors (n, d). It is never saved or
            pickled.
        """
        self._encode = encode

    def attached_encoder(self) -> Encode:
        """Return the attached encoder. Raises KrisselError K521 if there is none."""
        if self._encode is None:
            raise KrisselError(Errors.K521)
        return self._encode

    # Search ---------------------------------------------------------------------------------------

    def snapshot(self) -> KBSnapshot:
        now = self.current
        if now.is_indexed:
            return now
        with self.lock:
            now = self.current
            now.check_filled()
            if not now.is_indexed:
                index = now.index
                if any(other.index is index for other in self._snapshots if other is not now):
                    # The index is shared with other snapshots.
                    index = copy.copy(index)
                now = now.indexed(index)
                self.replace(now)
            return now

    def branch(self) -> "PrototypeKB":
        """Return a knowledge base with the same contents, sharing all memory with this one.

        Later changes of either do not affect the other.

        Raises KrisselError K520 if there is nothing to link to.
        """
        now = self.snapshot()
        other = type(self).__new__(type(self))
        KnowledgeBase.__init__(other, self.vocab, now.width)
        other.__dict__.update(vars(self), _current=now)
        return other

    def emptied(self) -> "PrototypeKB":
        """Return an empty knowledge base with the same policies: index, dtype, normalisation,
        weight of references."""
        now = self.current
        other = type(self).__new__(type(self))
        KnowledgeBase.__init__(other, self.vocab, now.width)
        empty = PrototypeTable.empty(now.width, now.prototypes.dtype)
        kept = {name: getattr(now, name) for name in ("make_index", "make_saved", "index_device")}
        snapshot = KBSnapshot(EntityTable(), empty, now.normalized, **kept)
        other.__dict__.update(vars(self), lock=Lock(), _snapshots=WeakSet([snapshot]))
        other._current = snapshot
        if now.prototypes.references is not None:
            other._reference_weight = now.prototypes.references.weight
        return other

    def use_index(self, index: MakeIndex | None) -> None:
        """Search with another kind of index from now on; it is built when first needed.

        index: None is the exact one. Raises KrisselError K006 if it cannot live on the
            `index_device`.
        """
        with self.lock:
            now = changed(
                self.current,
                make_index=index,
                make_saved=None,
                index=None,
                is_indexed=False,
                tuning=None,
            )
            now.check_device()
            self.replace(now)

    def set_index(self, index: VectorIndex, tuning: dict[str, Any] | None = None) -> None:
        """Set the index of its `vectors`.

        The index stays on its device, which replaces the `index_device` if there is one.
        tuning: measurements of the index, for the manifest. JSON values only.
        """
        device = device_of(index)
        make = partial(make_index, index.kind, index.settings, device)
        with self.lock:
            now = changed(
                self.current, make_index=make, make_saved=None, index=index, tuning=tuning
            )
            device_kept = self.index_device and device
            self.replace(
                replace(now, is_indexed=len(index) == now.n_prototypes, index_device=device_kept)
            )

    @property
    def index_device(self) -> str | None:
        """Device of the index by the setting of this name; None: the index's own setting."""
        return self.current.index_device

    def keep_lexical_index(self) -> None:
        """Build the lexical index now, rather than at the first search, and save it with the rest.

        It is saved until the prototypes change.
        """
        with self.lock:
            self.replace(
                changed(self.current, prototypes=self.prototypes.with_lexical_index(self.scratch))
            )

    # spaCy's look-ups -----------------------------------------------------------------------------

    # Its `add_entity` and `add_alias` have no counterpart: names are prototypes with vectors.

    def get_candidates(self, mention: Span) -> list[Candidate]:
        """Return spaCy's candidates of a mention, best first.

        Raises KrisselError K521 without an attached encoder.
        """
        return self.get_candidates_batch([mention])[0]

    def get_candidates_batch(self, mentions: Iterable[Span]) -> list[list[Candidate]]:
        mentions = list(mentions)
        encode = self.attached_encoder()
        if not mentions:
            return []
        vectors = encode([span_view(mention) for mention in mentions])
        now = self.snapshot()
        return spacy_candidates(self, now, mentions, now.search(vectors, self.n_candidates))

    # Saving and loading ---------------------------------------------------------------------------

    def to_disk(self, path: str | Path, exclude: Iterable[str] = SimpleFrozenList()) -> None:
        """Write the folder `path` atomically; it may be the loaded folder.

        exclude: "index" leaves out the index, to be built after loading; "prototypes" keeps only
            the entities.
        """
        now = self._to_save(exclude)
        written = write_snapshot(now, Path(path), exclude)
        with self.lock:
            # Unless another thread changed it meanwhile.
            if self.current is now:
                self.replace(written)

    def from_disk(
        self,
        path: str | Path,
        exclude: Iterable[str] = SimpleFrozenList(),
        *,
        verify: bool | None = None,
    ) -> "PrototypeKB":
        """Read the folder `path`, memory-mapped. An attached encoder is kept.

        verify: compare every file with its checksum, which reads all of them once; False trusts
            large files, for a folder that was verified before. None: the setting `verify`.

        Raises KrisselError K001 to K004 and K524 (missing, of another kind or version, damaged),
        K523 (vectors of another width), K501 and K507 (an index that cannot be used here).
        """
        verify = self.verify if verify is None else verify
        wanted = self.current.make_index, self.current.index_device
        read = read_snapshot(Path(path), self.entity_vector_length, *wanted, exclude, verify=verify)
        with self.lock:
            self.replace(read)
        self._add_strings()
        return self

    def to_bytes(self, *, exclude: Iterable[str] = SimpleFrozenList()) -> bytes:
        """Return all files of `to_disk` as one byte string."""
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "kb"
            write_snapshot(self._to_save(exclude), path, exclude)
            return pack(path)

    def from_bytes(
        self, bytes_data: bytes, *, exclude: Iterable[str] = SimpleFrozenList()
    ) -> "PrototypeKB":
        """Read the bytes of `to_bytes`. Raises KrisselError K527, and the errors of `from_disk`."""
        # Mapped files outlive their names. Where they do not (Windows), they stay in the folder for
        # temporary files.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
            path = Path(directory) / "kb"
            unpack(bytes_data, path)
            self.from_disk(path, exclude=exclude)
        with self.lock:
            # The folder is deleted.
            self.replace(changed(self.current))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by path if a folder holds the same, else by bytes, without the attached
        encoder.
        """
        now = self.current
        settings = {
            "index": now.make_index,
            "index_device": now.index_device,
            "normalize": now.normalized,
            "dtype": now.prototypes.dtype,
            "n_candidates": self.n_candidates,
            "reference_weight": self._reference_weight,
            "verify": self.verify,
        }
        source = (
            now.source if now.source is not None and not now.source.problem() else self.to_bytes()
        )
        return _restore, (type(self), self.vocab, self.entity_vector_length, settings, source)

    def _to_save(self, excluded: Iterable[str]) -> KBSnapshot:
        # An index without prototypes cannot be built.
        return (
            self.current
            if self.is_empty() or {"index", "prototypes"} & set(excluded)
            else self.snapshot()
        )

    # Helpers --------------------------------------------------------------------------------------

    def _add_strings(self) -> None:
        if self.n_entities > MAX_STRINGS:
            return
        for id_ in self.entity_ids:
            # Never transient: candidates outlive the memory zone in which the knowledge base may be
            # loaded.
            self.vocab.strings.add(id_, allow_transient=False)


def _restore(
    cls: Any, vocab: Vocab, width: int, settings: dict[str, Any], source: Source | bytes
) -> "PrototypeKB":
    kb = cls(vocab, width, **settings)
    if isinstance(source, bytes):
        return kb.from_bytes(source)
    source.check(Errors.K526)
    return kb.from_disk(source.path)


# As functions, next to `add_gold`.
add_corrections, add_rejections = PrototypeKB.add_corrections, PrototypeKB.add_rejections

# Registered as `spacy-krissel.EmptyKB.v1`: makes a `PrototypeKB` from a vocabulary and a vector
# width.
empty_kb = factory_for(PrototypeKB, "vocab", "entity_vector_length")
