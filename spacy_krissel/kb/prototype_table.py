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
    coded,
    on_disk,
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
FILE, VECTORS_FILE, SUMS_FILE = "prototypes.arrow", "vectors.npy", "sums.npy"
# Stored by number: new kinds go to the end.
KINDS = ("name", "mention", "gold", "reference", "replaced", "class")
# Those that a mined mention has been made into: what an entity that was never mined does not have.
MINED = ("mention", "replaced")
MENTIONS = ("name", "class", "gold", *MINED)
# Bytes of text that are held in memory before they are written to the `scratch` folder.
SCRATCH_BYTES = 64 * 2**20
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
    """Prototypes by row: entity row, kind, text and vector. Grows at the end; many threads may read what does not.

    Where `references` are in use, what is searched is the sum of a prototype's own vector and its entity's reference.

    scratch: a folder in which what is added is kept in nameless files, mapped, so that the table may be larger than
        memory; None: in memory.
    """

    def __init__(self, width: int, dtype: str = "float32", scratch: Path | None = None) -> None:
        self.dtype = dtype
        self.scratch = scratch
        # The file of which some rows are mapped.
        self.path: Path | None = None
        self._table = SCHEMA.empty_table()
        # What was added and not joined yet, so that many small additions cost no more than one.
        self._new_tables: list[pa.Table] = []
        self._own = GrowingVectors(np.zeros((0, width), dtype=dtype), scratch)
        self._references: References | None = None
        # With references: of the first prototypes, until those added since are searched.
        self._sums: GrowingVectors | None = None
        self._lock = Lock()
        # The first of many threads that read joins what was added.
        self._joining = Lock()
        self._summing = Lock()
        self._entity_rows: Rows | None = None
        self._by_entity: Groups | None = None
        self._lexical_index: LexicalIndex | None = None
        self._gold_entities: Rows | None = None

    def __len__(self) -> int:
        with self._joining:
            return len(self._table) + sum(map(len, self._new_tables))

    def append(self, entity_rows: Rows, prototypes: Sequence[Prototype], vectors: Vectors) -> None:
        """Add prototypes whose entities stand at `entity_rows` (m,), with their vectors (m, width).

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
        self._new_tables.append(pa.table(columns, schema=SCHEMA))
        self._own.append(vectors)
        if self.scratch is not None and sum(table.nbytes for table in self._new_tables) >= SCRATCH_BYTES:
            self._join()
        self._forget()

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

    def copy(self, scratch: Path | None = None) -> "PrototypeTable":
        """A table that grows on its own, in the folder `scratch` or in memory; what both hold is shared."""
        copied = PrototypeTable(self.vectors.shape[1], self.dtype, scratch)
        copied.path = self.path
        copied._table, copied._own = self.table, GrowingVectors(self.prototype_vectors, scratch)
        copied._references = self._references
        copied._sums = None if self._sums is None else GrowingVectors(self._sums.array, scratch)
        copied._entity_rows, copied._by_entity = self._entity_rows, self._by_entity
        copied._lexical_index, copied._gold_entities = self._lexical_index, self._gold_entities
        return copied

    @coded
    def take(self, mask: Mask) -> "PrototypeTable":
        """A new table of the prototypes at `mask` (len(self),), in memory; this one stays as it is."""
        taken = PrototypeTable(self.vectors.shape[1], self.dtype)
        taken._table = self.table.filter(pa.array(mask)).combine_chunks()
        taken.path = self.path
        taken._own = GrowingVectors(self.prototype_vectors[mask])
        taken._references = self._references
        return taken

    @coded
    def source_counts(self) -> dict[str, int]:
        """How many prototypes each named source gave."""
        counts = self.table.column("source").value_counts().to_pylist()
        return {
            each["values"]: each["counts"] for each in sorted(counts, key=lambda each: each["values"]) if each["values"]
        }

    def move_entities(self, new_rows: Rows) -> None:
        """Entity row i becomes `new_rows[i]`. Their references, if any, are to be set anew."""
        self._join()
        entities = pa.array(new_rows[self.entity_rows].astype(np.int32))
        self._table = self._table.set_column(0, SCHEMA.field("entity"), entities)
        self._forget()

    @property
    def table(self) -> pa.Table:
        self._join()
        return self._table

    @property
    def prototype_vectors(self) -> Vectors:
        """c_p of all prototypes (n, width), of `dtype`; mapped as long as nothing was added."""
        return self._own.array

    @property
    def vectors(self) -> Vectors:
        """What is searched (n, width): c_p, or c_p + w·r_e where references are in use (KRISSBERT eq. 6)."""
        own = self.prototype_vectors
        if self._references is None:
            return own
        with self._summing:
            if self._sums is None:
                self._sums = GrowingVectors(own[:0], self.scratch)
            for start in range(len(self._sums), len(own), BLOCK_ROWS):
                block = slice(start, start + BLOCK_ROWS)
                self._sums.append(self._references.added_to(own[block], self.entity_rows[block]))
            return self._sums.array

    @property
    def references(self) -> References | None:
        """The references in use."""
        return self._references

    @references.setter
    def references(self, references: References | None) -> None:
        self._references = references
        self._sums = None

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
        if self._references is not None:
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
        prototypes = cls(width, dtype)
        prototypes.path = directory / FILE
        prototypes._table = read_table(directory / FILE, SCHEMA, rows, verify=verify)
        prototypes._own = GrowingVectors(read_array(directory / VECTORS_FILE, rows, width, dtype, verify=verify))
        if references is not None:
            prototypes._references = references
            prototypes._sums = GrowingVectors(read_array(directory / SUMS_FILE, rows, width, dtype, verify=verify))
        for column, n, what in (("entity", n_entities, "entity rows"), ("kind", len(KINDS), "kinds")):
            # Where they are mapped; `entity_rows` are a copy of them.
            found = pc.min_max(prototypes._table.column(column)).as_py()
            if rows and (found["min"] < 0 or found["max"] >= n):
                problem = f"{FILE} names {what} outside 0 to {n - 1}"
                raise KrisselError(Errors.K524.format(path=directory, problem=problem))
        return prototypes

    def _join(self) -> None:
        with self._joining:
            if self._new_tables:
                added = pa.concat_tables(self._new_tables).combine_chunks()
                if self.scratch is None:
                    self._table = pa.concat_tables([self._table, added]).combine_chunks()
                else:
                    self._table = pa.concat_tables([self._table, on_disk(added, self.scratch)])
                self._new_tables = []

    def _forget(self) -> None:
        self._entity_rows = self._by_entity = self._lexical_index = self._gold_entities = None
