"""The prototypes of a knowledge base: what was seen of each entity, and the vectors that are searched."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Errors, KrisselError
from ..index.protocol import Mask, Rows, Vectors
from ..util.lock import Lock
from ..views import View
from .columns import (
    BLOCK_ROWS,
    GrowingVectors,
    appended,
    coded,
    read_array,
    read_table,
    take_rows,
    write_array,
    write_table,
)
from .groups import Groups
from .lexical_index import LexicalIndex
from .references import References

# `SUMS_FILE` holds what is searched where that is not the prototypes' own vectors, so that it can be mapped too.
FILE, VECTORS_FILE = "prototypes.arrow", "vectors.npy"
REFERENCES_FILE, SUMS_FILE = "references.npy", "sums.npy"
# Stored by number: new kinds go to the end.
KINDS = ("name", "mention", "gold", "reference", "replaced", "class")
# Those that a mined mention has been made into: what an entity that was never mined does not have.
MINED = ("mention", "replaced")
MENTIONS = ("name", "class", "gold", *MINED)
SCHEMA = pa.schema(
    [
        ("entity", pa.int32()),
        ("kind", pa.int8()),
        ("left", pa.large_string()),
        ("mention", pa.large_string()),
        ("right", pa.large_string()),
        ("masked", pa.bool_()),
        ("source", pa.large_string()),
        ("doc", pa.large_string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("text_hash", pa.large_string()),
    ]
)


class Origin(NamedTuple):
    """Where a prototype was seen, so that it can be told from others and taken out again.

    source: a label for what it came with, such as the name of a corpus.
    doc, start, end: id of the document and character offsets in it; "" and -1 where there is none.
    text_hash: of the document's text, by which it is known under another id, or without one.
    """

    source: str = ""
    doc: str = ""
    start: int = -1
    end: int = -1
    text_hash: str = ""


NO_ORIGIN = Origin()


class Prototype(NamedTuple):
    """One view of an entity.

    entity: the entity's id.
    kind: "name" (of the ontology), "mention" (self-supervised), "gold" (annotated), "reference" (the entity-centric one
        of §3.5), "replaced" (a mention's context with another of the entity's names in its place), "class" (a word that
        the names of the entities below this one share).
    view: the text that was encoded; a reference's own kind of view where `kind` is "reference".
    origin: where it was seen; recorded for gold mentions.
    """

    entity: str
    kind: str
    view: View
    origin: Origin = NO_ORIGIN


class PrototypeTable:
    """Prototypes by row: entity row, kind, text and vector. Never changed: each change gives another table, which
    shares what it can.

    table: of `SCHEMA`. prototype_vectors: c_p (n, width), memory-mapped as long as nothing was added. references: those
    in use. vectors: what is searched (n, width): c_p, or c_p + w·r_e where references are in use (KRISSBERT eq. 6).
    path: the file that the table, or part of it, is mapped from.
    """

    def __init__(
        self,
        table: pa.Table,
        own: GrowingVectors,
        references: References | None = None,
        sums: GrowingVectors | None = None,
        path: Path | None = None,
    ) -> None:
        """own, sums: the vectors without and with references; `sums` is None without any."""
        self.table = table
        self.references = references
        self.path = path
        self._own = own
        self._sums = sums
        self.prototype_vectors = own.array
        self.vectors = own.array if sums is None else sums.array
        self._lock = Lock()
        self._entity_rows: Rows | None = None
        self._by_entity: Groups | None = None
        self._lexical_index: LexicalIndex | None = None
        self._gold_entities: Rows | None = None

    @classmethod
    def empty(cls, width: int, dtype: str) -> "PrototypeTable":
        return cls(SCHEMA.empty_table(), GrowingVectors(np.zeros((0, width), dtype=dtype)))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def dtype(self) -> str:
        return self.vectors.dtype.name

    def appended(
        self, entity_rows: Rows, prototypes: Sequence[Prototype], vectors: Vectors, scratch: Path | None = None
    ) -> "PrototypeTable":
        """With `prototypes` whose entities stand at `entity_rows` (m,), and their vectors (m, width).

        scratch: a folder for unnamed files that hold what is added, mapped, so that the table may be larger than
            memory; None: in memory.

        Raises KrisselError K512 for an unknown kind.
        """
        number = {kind: i for i, kind in enumerate(KINDS)}
        for first, prototype in enumerate(prototypes):
            if prototype.kind not in number:
                known = ", ".join(KINDS)
                raise KrisselError(
                    Errors.K512.format(first=first, entity=prototype.entity, kind=prototype.kind, known=known)
                )
        columns = {
            "entity": entity_rows.astype(np.int32),
            "kind": [number[prototype.kind] for prototype in prototypes],
            "left": [prototype.view.left for prototype in prototypes],
            "mention": [prototype.view.mention for prototype in prototypes],
            "right": [prototype.view.right for prototype in prototypes],
            "masked": [prototype.view.masked for prototype in prototypes],
            **{name: [prototype.origin[i] for prototype in prototypes] for i, name in enumerate(Origin._fields)},
        }
        table = appended(self.table, pa.table(columns, schema=SCHEMA), scratch)
        own = self._own.appended(vectors, scratch)
        sums = self._sums
        if self.references is not None and sums is not None:
            sums = _with_sums(sums, self.references, own.array[len(self) :], entity_rows, scratch)
        return PrototypeTable(table, own, self.references, sums, self.path)

    def with_references(self, references: References, scratch: Path | None = None) -> "PrototypeTable":
        """With these references in use; scratch: see `appended`."""
        none = GrowingVectors(self.prototype_vectors[:0])
        sums = _with_sums(none, references, self.prototype_vectors, self.entity_rows, scratch)
        return PrototypeTable(self.table, self._own, references, sums, self.path)

    def moved(self, new_rows: Rows, n_entities: int) -> "PrototypeTable":
        """After entity row i became `new_rows[i]` of `n_entities`; -1: it is gone, and had no prototypes."""
        entities = pa.array(new_rows[self.entity_rows].astype(np.int32))
        table = self.table.set_column(0, SCHEMA.field("entity"), entities)
        references = None if self.references is None else self.references.moved(new_rows, n_entities)
        return PrototypeTable(table, self._own, references, self._sums, self.path)

    @coded
    def take(self, mask: Mask) -> "PrototypeTable":
        """The prototypes at `mask` (len(self),), in memory."""
        sums = None if self._sums is None else GrowingVectors(self.vectors[mask])
        table = self.table.filter(pa.array(mask)).combine_chunks()
        return PrototypeTable(table, GrowingVectors(self.prototype_vectors[mask]), self.references, sums, self.path)

    @coded
    def where(
        self,
        *,
        kind: str | None = None,
        source: str | None = None,
        docs: Collection[str] | None = None,
    ) -> Mask:
        """The prototypes of this kind, from this source and from one of these documents, where given: (len(self),).

        docs: ids of documents, or hashes of their texts.

        Raises KrisselError K006 for an unknown kind.
        """
        mask = np.ones(len(self), dtype=bool)
        if kind is not None:
            if kind not in KINDS:
                raise KrisselError(
                    Errors.K006.format(setting="kind", found=kind, expected=f"one of {', '.join(KINDS)}")
                )
            mask &= self.table.column("kind").to_numpy() == KINDS.index(kind)
        if source is not None:
            if not isinstance(source, str):
                raise KrisselError(Errors.K006.format(setting="source", found=source, expected="a source's name"))
            mask &= pc.equal(self.table.column("source"), source).to_numpy().astype(bool)
        if docs is not None:
            if isinstance(docs, str) or not all(isinstance(each, str) for each in docs):
                expected = "a list of documents' ids or hashes, such as ['12']"
                raise KrisselError(Errors.K006.format(setting="docs", found=docs, expected=expected))
            wanted = pa.array(sorted(docs), pa.large_string())
            doc, text = (pc.is_in(self.table.column(name), value_set=wanted) for name in ("doc", "text_hash"))
            mask &= pc.or_(doc, text).to_numpy().astype(bool)
        return mask

    @coded
    def source_counts(self) -> dict[str, int]:
        """How many prototypes each named source gave."""
        counts = self.table.column("source").value_counts().to_pylist()
        return {
            each["values"]: each["counts"] for each in sorted(counts, key=lambda each: each["values"]) if each["values"]
        }

    @property
    def entity_rows(self) -> Rows:
        """The entity row of each prototype: (n,)."""
        with self._lock:
            if self._entity_rows is None:
                self._entity_rows = self.table.column("entity").to_numpy().astype(np.int64)
            return self._entity_rows

    @property
    def by_entity(self) -> Groups:
        """Prototype rows by entity row, those of an entity in ascending order."""
        with self._lock:
            if self._by_entity is None:
                order = np.argsort(self.entity_rows, kind="stable")
                self._by_entity = Groups.of(self.entity_rows[order], order)
            return self._by_entity

    @property
    @coded
    def lexical_index(self) -> LexicalIndex:
        """The surface forms of all prototypes but references, which are no mentions; made when first asked for."""
        with self._lock:
            if self._lexical_index is None:
                rows = self.rows_of_kinds(MENTIONS)
                # What the entities below one share is a guess at a name of it.
                named = self.table.column("kind").to_numpy()[rows] != KINDS.index("class")
                self._lexical_index = LexicalIndex(self.mentions(rows), self.entity_rows[rows], named)
            return self._lexical_index

    @property
    def gold_entities(self) -> Rows:
        """The rows of the entities that gold mentions are prototypes of, in ascending order."""
        with self._lock:
            if self._gold_entities is None:
                self._gold_entities = self.entities_of(("gold",))
            return self._gold_entities

    def rows_of(self, entity_row: int) -> Rows:
        return self.by_entity.at(entity_row)

    def rows_of_kinds(self, kinds: Sequence[str]) -> Rows:
        numbers = [KINDS.index(kind) for kind in kinds]
        return np.flatnonzero(np.isin(self.table.column("kind").to_numpy(), numbers))

    def kind_counts(self) -> dict[str, int]:
        counts = np.bincount(self.table.column("kind").to_numpy(), minlength=len(KINDS))
        return {kind: int(count) for kind, count in zip(KINDS, counts, strict=True) if count}

    def entities_of(self, kinds: Sequence[str]) -> Rows:
        """The rows of the entities that have a prototype of one of these kinds, each once."""
        numbers = [KINDS.index(kind) for kind in kinds]
        return np.unique(self.entity_rows[np.isin(self.table.column("kind").to_numpy(), numbers)])

    @coded
    def at(self, rows: Any) -> list[tuple[int, str, View, Origin]]:
        """Entity row, kind, view and origin of the prototypes at `rows`, an array of any shape, flattened."""
        taken = take_rows(self.table, rows).to_pydict()
        kinds = [KINDS[kind] for kind in taken["kind"]]
        are_references = [kind == "reference" for kind in kinds]
        views = map(View, taken["left"], taken["mention"], taken["right"], taken["masked"], are_references)
        origins = map(Origin, *(taken[name] for name in Origin._fields))
        return list(zip(taken["entity"], kinds, views, origins, strict=True))

    @coded
    def mentions(self, rows: Any) -> list[str]:
        """The surface forms of the prototypes at `rows`, an array of any shape, flattened."""
        return take_rows(self.table.select(["mention"]), rows).column(0).to_pylist()

    @coded
    def distinct_mentions(self) -> list[str]:
        """The surface forms of all prototypes but references, each once, in the order they come in."""
        return take_rows(self.table.select(["mention"]), self.rows_of_kinds(MENTIONS)).column(0).unique().to_pylist()

    @coded
    def entities_of_mention(self, text: str) -> Rows:
        """The entity row of each prototype, but references, with just this surface form: (m,)."""
        rows = np.flatnonzero(pc.equal(self.table.column("mention"), text).to_numpy().astype(bool))
        return self.entity_rows[np.intersect1d(rows, self.rows_of_kinds(MENTIONS))]

    @coded
    def in_context(self, rows: Rows, left: str, right: str) -> Mask:
        """Which of the prototypes at `rows` (n,) stand between the texts `left` and `right`: (n,)."""
        taken = take_rows(self.table.select(["left", "right"]), rows)
        return pc.and_(pc.equal(taken["left"], left), pc.equal(taken["right"], right)).to_numpy().astype(bool)

    def to_disk(self, directory: Path) -> None:
        write_table(self.table, directory / FILE)
        write_array(self.prototype_vectors, directory / VECTORS_FILE)
        if self.references is not None:
            write_array(self.references.vectors, directory / REFERENCES_FILE)
            write_array(self.vectors, directory / SUMS_FILE)

    @classmethod
    def from_disk(
        cls,
        directory: Path,
        rows: int,
        width: int,
        dtype: str,
        n_entities: int,
        references: References | None = None,
        *,
        verify: bool = True,
    ) -> "PrototypeTable":
        """references: those whose sums were saved. verify: check all that is in the files.

        Raises KrisselError K524 when the files do not hold what the manifest says.
        """
        table = read_table(directory / FILE, SCHEMA, rows, verify=verify)
        for column, n, what in (("entity", n_entities, "entity rows"), ("kind", len(KINDS), "kinds")):
            found = pc.min_max(table.column(column)).as_py()
            if rows and (found["min"] < 0 or found["max"] >= n):
                problem = f"{FILE} names {what} outside 0 to {n - 1}"
                raise KrisselError(Errors.K524.format(path=directory, problem=problem))
        own = GrowingVectors(read_array(directory / VECTORS_FILE, rows, width, dtype, verify=verify))
        sums = None
        if references is not None:
            sums = GrowingVectors(read_array(directory / SUMS_FILE, rows, width, dtype, verify=verify))
        return cls(table, own, references, sums, directory / FILE)


def _with_sums(
    sums: GrowingVectors, references: References, own: Vectors, entity_rows: Rows, scratch: Path | None
) -> GrowingVectors:
    """`sums` and those of further prototypes with the vectors `own` (m, width), of entities at `entity_rows` (m,)."""
    for start in range(0, len(own), BLOCK_ROWS):
        block = slice(start, start + BLOCK_ROWS)
        sums = sums.appended(references.added_to(own[block], entity_rows[block]), scratch)
    return sums
