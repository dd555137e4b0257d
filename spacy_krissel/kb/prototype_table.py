"""Prototypes of a knowledge base: views of each entity, its reference, and the searched vectors."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Errors, KrisselError
from ..index.growing import GrowingVectors
from ..index.protocol import Mask, Rows, Vectors
from ..lexical.arrays import lexical_arrays
from ..lexical.groups import Groups
from ..lexical.index import LexicalIndex
from ..lexical.ngrams import canonical_form, hashed
from ..util.disk import coded_damage
from ..util.lock import Lock, once
from ..util.memory import Remembered
from ..views import View, evidence, name_evidence
from .columns import (
    BLOCK_ROWS,
    appended,
    read_array,
    read_table,
    report_damage,
    take_rows,
    write_array,
    write_table,
)

FILE, VECTORS_FILE, REFERENCES_FILE = "prototypes.arrow", "vectors.npy", "references.npy"
LEXICAL_DIR = "lexical"
# Stored by number: new kinds go to the end.
Kind = Literal["name", "mention", "gold", "reference", "replaced", "class"]
KINDS: tuple[str, ...] = get_args(Kind)
# Kinds made from mined mentions; entities that were never mined have none of them.
MINED_KINDS = ("mention", "replaced")
# Kinds with a source document.
KINDS_WITH_DOC = ("gold", *MINED_KINDS)
# Kinds whose text is a name of the ontology.
NAME_KINDS = ("name", *MINED_KINDS)
MENTION_KINDS = ("name", "class", *KINDS_WITH_DOC)
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


class References:
    """One vector per entity, added to each of the entity's prototypes: `v_p = c_p + w·r_e`.

    So `q·v_p = q·(c_p + w·r_e)`, and the search by eq. 6 stays one inner product. An entity without
    a reference has a row of zeros.

    vectors: r_e by entity row (n_entities, d), in the dtype of the stored sums.
    weight: w, 1 in the paper.
    """

    def __init__(self, vectors: Vectors, weight: float = 1.0) -> None:
        self.vectors = vectors
        self.weight = weight

    def __len__(self) -> int:
        """Number of entities with a reference."""
        return int(np.any(self.vectors, axis=1).sum()) if self.vectors.size else 0

    def at(self, entity_rows: Rows) -> Vectors:
        """Return `w·r_e` of the entities at `entity_rows` (n,), zeros at -1: (n, d) float32."""
        found = np.float32(self.weight) * self.vectors[entity_rows].astype(np.float32)
        found[entity_rows < 0] = 0
        return found

    def with_entity_rows(self, new_rows: Rows, n_entities: int) -> "References":
        """Return the references after entity row i became `new_rows[i]` (-1: removed) of
        `n_entities`.
        """
        vectors = np.zeros((n_entities, self.vectors.shape[1]), dtype=self.vectors.dtype)
        kept = new_rows >= 0
        vectors[new_rows[kept]] = self.vectors[kept]
        return References(vectors, self.weight)


class Origin(NamedTuple):
    """Source of a prototype, so that it can be removed.

    source: a label, such as the name of a corpus.
    doc, start, end: id of the document and character offsets in it; "" and -1 if there is none.
    text_hash: of the document's text, which identifies it under another id or without one.
    """

    source: str = ""
    doc: str = ""
    start: int = -1
    end: int = -1
    text_hash: str = ""

    def is_in_document_of(self, other: "Origin") -> bool:
        """Return whether both are in one document, or in none."""
        # The hash may stand for an id.
        own = {self.doc, self.text_hash} - {""}
        return self.doc == other.doc or not own.isdisjoint((other.doc, other.text_hash))


NO_ORIGIN = Origin()


class Prototype(NamedTuple):
    """One view of an entity.

    entity: the entity's id.
    kind: "name" (of the ontology), "mention" (self-supervised), "gold" (annotated), "reference"
        (entity-centric, §3.5), "replaced" (a mention's context with another of the entity's names),
        "class" (a word that the names of the entities below this one share).
    view: the text that was encoded; for a reference, in its own kind of view.
    origin: its source; names have none. A "replaced" one has the offsets of the replaced mention.
    """

    entity: str
    kind: str
    view: View
    origin: Origin = NO_ORIGIN


@dataclass(eq=False)
class PrototypeTable:
    """Prototypes by row: entity row, kind, text and vector. Immutable.

    Each change gives another table, which shares data with this one.

    table: of `SCHEMA`. stored: the searched vectors, memory-mapped until a change: c_p, or c_p +
        w·r_e if references are in use. Prototypes that are references have no reference added.
        references: those in use.
    path: the file that the table, or part of it, is mapped from. saves_lexical_index: whether the
        lexical index is saved.
    """

    table: pa.Table
    stored: GrowingVectors
    references: References | None = None
    path: Path | None = None
    saves_lexical_index: bool = False
    _lock: Lock = field(default_factory=Lock, init=False)

    @classmethod
    def empty(cls, width: int, dtype: str) -> "PrototypeTable":
        return cls(SCHEMA.empty_table(), GrowingVectors(np.zeros((0, width), dtype=dtype)))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def vectors(self) -> Vectors:
        """Searched vectors (n, width): c_p, or c_p + w·r_e with references (KRISSBERT eq. 6).
        Read-only.
        """
        return self.stored.array

    @property
    def dtype(self) -> str:
        return self.vectors.dtype.name

    def appended(
        self,
        entity_rows: Rows,
        prototypes: Sequence[Prototype],
        vectors: Vectors,
        scratch: Path | None = None,
    ) -> "PrototypeTable":
        """Return the table with `prototypes` of the entities at `entity_rows` (m,) appended.

        vectors: (m, width). scratch: a folder for unnamed, mapped files of the additions, so that
            the table may exceed memory; None: in memory.

        Raises KrisselError K512 for an unknown kind.
        """
        for first, (entity, kind, *_) in enumerate(prototypes):
            if kind not in KINDS:
                known = ", ".join(KINDS)
                raise KrisselError(
                    Errors.K512.format(first=first, entity=entity, kind=kind, known=known)
                )
        columns: dict[str, Any] = {
            "entity": entity_rows.astype(np.int32),
            "kind": [KINDS.index(prototype.kind) for prototype in prototypes],
        }
        for name in ("left", "mention", "right", "masked"):
            columns[name] = [getattr(prototype.view, name) for prototype in prototypes]
        for name in Origin._fields:
            columns[name] = [getattr(prototype.origin, name) for prototype in prototypes]
        table = appended(self.table, pa.table(columns, schema=SCHEMA), scratch)
        if self.references is not None:
            rows = _added_rows(entity_rows, np.array(columns["kind"]))
            # Rounded before the sum, so that references added later give the same.
            vectors = vectors.astype(self.dtype) + self.references.at(rows)
        return replace(
            self,
            table=table,
            stored=self.stored.appended(vectors, scratch),
            saves_lexical_index=False,
        )

    def with_references(
        self, references: References, scratch: Path | None = None
    ) -> "PrototypeTable":
        """Return the table with these references in use. scratch: see `appended`."""
        stored = GrowingVectors(self.vectors[:0])
        for start in range(0, len(self), BLOCK_ROWS):
            rows = np.arange(start, min(start + BLOCK_ROWS, len(self)))
            stored = stored.appended(
                self.base_vectors(rows) + references.at(self._added(rows)), scratch
            )
        return replace(self, stored=stored, references=references, saves_lexical_index=False)

    def base_vectors(self, rows: Rows) -> Vectors:
        """Return c_p of the prototypes at `rows` (m,), without the reference: (m, width) float32.

        If references are in use, it is recomputed from the stored sum, within its rounding.
        """
        vectors = self.vectors[rows].astype(np.float32)
        return (
            vectors if self.references is None else vectors - self.references.at(self._added(rows))
        )

    def _added(self, rows: Rows) -> Rows:
        return _added_rows(self.entity_rows[rows], self.table.column("kind").to_numpy()[rows])

    def with_entity_rows(self, new_rows: Rows, n_entities: int) -> "PrototypeTable":
        """Return the table after entity row i became `new_rows[i]` of `n_entities`.

        -1: the entity was removed, and had no prototypes.
        """
        entities = pa.array(new_rows[self.entity_rows].astype(np.int32))
        table = self.table.set_column(0, SCHEMA.field("entity"), entities)
        references = (
            None
            if self.references is None
            else self.references.with_entity_rows(new_rows, n_entities)
        )
        return replace(self, table=table, references=references, saves_lexical_index=False)

    @report_damage
    def take(self, mask: Mask) -> "PrototypeTable":
        """Return the prototypes at `mask` (len(self),), in memory."""
        table = self.table.filter(pa.array(mask)).combine_chunks()
        return replace(
            self, table=table, stored=GrowingVectors(self.vectors[mask]), saves_lexical_index=False
        )

    @report_damage
    def where(self, kind: str | None, source: str | None, docs: Sequence[str] | None) -> Mask:
        """Return the mask of the prototypes of a kind, source and document, if given: (len(self),).

        docs: ids of documents, or hashes of their texts; any of them matches.
        """
        mask = np.ones(len(self), dtype=bool)
        if kind is not None:
            mask &= self._of_kinds([kind])
        if source is not None:
            mask &= pc.equal(self.table.column("source"), source).to_numpy().astype(bool)
        if docs is not None:
            wanted = pa.array(docs, pa.large_string())
            doc, text = (
                pc.is_in(self.table.column(name), value_set=wanted) for name in ("doc", "text_hash")
            )
            mask &= pc.or_(doc, text).to_numpy().astype(bool)
        return mask

    @report_damage
    def source_counts(self) -> dict[str, int]:
        """Return the number of prototypes per named source."""
        counts = self.table.column("source").value_counts().to_pylist()
        return {
            each["values"]: each["counts"]
            for each in sorted(counts, key=lambda each: each["values"])
            if each["values"]
        }

    @once
    def entity_rows(self) -> Rows:
        """Return the entity row of each prototype: (n,)."""
        return self.table.column("entity").to_numpy().astype(np.int64)

    @once
    def by_entity(self) -> Groups:
        """Return the prototype rows by entity row, ascending within an entity."""
        order = np.argsort(self.entity_rows, kind="stable")
        return Groups.of(self.entity_rows[order], order)

    @once
    def lexical_index(self) -> LexicalIndex:
        """Return the index of the surface forms of all prototypes except references."""
        return self._lexical_index(None)

    def with_lexical_index(self, scratch: Path | None = None) -> "PrototypeTable":
        """Return the same table with its lexical index built and saved along. scratch: see
        `appended`.
        """
        table = replace(self, saves_lexical_index=True)
        vars(table)["lexical_index"] = vars(self).get("lexical_index") or self._lexical_index(
            scratch
        )
        return table

    @report_damage
    def _lexical_index(self, scratch: Path | None) -> LexicalIndex:
        rows = self.rows_of_kinds(MENTION_KINDS)
        # A word shared by the entities below is only a guess at a name.
        named = ~self._of_kinds(["class"])[rows]
        arrays = lexical_arrays(
            lambda part: self.mentions(rows[part]), self.entity_rows[rows], named, scratch
        )
        return LexicalIndex(arrays)

    @once
    def gold_entities(self) -> Rows:
        """Return the rows of the entities with gold mentions among their prototypes, ascending."""
        return self.entities_of(["gold"])

    def are_names(self, entities: Rows, hashes: Rows) -> Mask:
        """Return which of the `entities` (n,) have a name, not only an annotated mention, whose
        canonical form has the hash: (n,)."""
        known = {entity: self._hashes_of(entity) for entity in set(entities.tolist())}
        pairs = zip(entities.tolist(), hashes.tolist(), strict=True)
        return np.array([hash_ in known[entity] for entity, hash_ in pairs], dtype=bool)

    def _hashes_of(self, entity: int) -> frozenset[int]:
        """Return the hashes of the canonical forms of an entity's names."""
        found = self._name_hashes.get(entity)
        if found is None:
            taken = take_rows(self.table.select(["kind", "mention"]), self.by_entity.at(entity))
            pairs = zip(*taken.to_pydict().values(), strict=True)
            names = [canonical_form(text) for kind, text in pairs if KINDS[kind] in NAME_KINDS]
            found = self._name_hashes[entity] = frozenset(hashed(names).tolist())
        return found

    def has_name(self, entity: int, name: str) -> bool:
        """Return whether an entity has a name, in any spelling (`are_names`). Answers are
        remembered."""
        found = self._answers.get((entity, name))
        if found is None:
            hashes = hashed([canonical_form(name)])
            found = self._answers[entity, name] = bool(
                self.are_names(np.array([entity]), hashes)[0]
            )
        return found

    @once
    def _answers(self) -> Remembered[tuple[int, str], bool]:
        return Remembered()

    @once
    def _name_hashes(self) -> Remembered[int, frozenset[int]]:
        return Remembered()

    @once
    def in_text(self) -> Mask:
        """Return the mask of the prototypes that are more than a name: (n,)."""
        return ~self._of_kinds(["name", "class"])

    def _of_kinds(self, kinds: Sequence[str]) -> Mask:
        return np.isin(self.table.column("kind").to_numpy(), [KINDS.index(kind) for kind in kinds])

    def rows_of_kinds(self, kinds: Sequence[str]) -> Rows:
        return np.flatnonzero(self._of_kinds(kinds))

    def kind_counts(self) -> dict[str, int]:
        counts = np.bincount(self.table.column("kind").to_numpy(), minlength=len(KINDS))
        return {kind: int(count) for kind, count in zip(KINDS, counts, strict=True) if count}

    def entities_of(self, kinds: Sequence[str]) -> Rows:
        """Return the distinct rows of the entities with a prototype of one of these kinds."""
        return np.unique(self.entity_rows[self._of_kinds(kinds)])

    @report_damage
    def at(self, rows: Any) -> list[tuple[int, str, View, Origin]]:
        """Return entity row, kind, view and origin of the prototypes at `rows`, flattened.

        rows: an array of any shape.
        """
        taken = take_rows(self.table, rows).to_pydict()
        kinds = [KINDS[kind] for kind in taken["kind"]]
        are_references = [kind == "reference" for kind in kinds]
        views = map(
            View, taken["left"], taken["mention"], taken["right"], taken["masked"], are_references
        )
        origins = map(Origin, *(taken[name] for name in Origin._fields))
        return list(zip(taken["entity"], kinds, views, origins, strict=True))

    @report_damage
    def display_fields(self, rows: Any) -> dict[str, list[Any]]:
        """Return the fields that candidates display of the prototypes at `rows`, as in `at`.

        These are "entity", the row, "kind", "evidence", the view as one line, "doc" and "source".
        """
        # Half the time of making objects of them first (`at`).
        columns = ["entity", "kind", "left", "mention", "right", "source", "doc"]
        taken = take_rows(self.table.select(columns), rows).to_pydict()
        kinds = taken["kind"] = [KINDS[kind] for kind in taken["kind"]]
        texts = (taken.pop(name) for name in ("left", "mention", "right"))
        taken["evidence"] = [
            # Most are bare names; skip the `View`.
            name_evidence(mention)
            if kind == "name" and not (left or right)
            else evidence(View(left, mention, right, False, kind == "reference"))
            for left, mention, right, kind in zip(*texts, kinds, strict=True)
        ]
        return taken

    @report_damage
    def mentions(self, rows: Any) -> list[str]:
        """Return the surface forms of the prototypes at `rows`, an array of any shape,
        flattened.
        """
        return take_rows(self.table.select(["mention"]), rows).column(0).to_pylist()

    @report_damage
    def distinct_mentions(self) -> list[str]:
        """Return the distinct surface forms of all prototypes except references, in row order."""
        return (
            take_rows(self.table.select(["mention"]), self.rows_of_kinds(MENTION_KINDS))
            .column(0)
            .unique()
            .to_pylist()
        )

    @report_damage
    def entities_of_mention(self, text: str) -> Rows:
        """Return the entity row of each prototype with exactly this surface form: (m,).

        References are excluded.
        """
        rows = np.flatnonzero(pc.equal(self.table.column("mention"), text).to_numpy().astype(bool))
        return self.entity_rows[np.intersect1d(rows, self.rows_of_kinds(MENTION_KINDS))]

    @report_damage
    def in_context(self, rows: Rows, left: str, right: str) -> Mask:
        """Return which prototypes at `rows` (n,) have the contexts `left` and `right`: (n,)."""
        taken = take_rows(self.table.select(["left", "right"]), rows)
        return (
            pc.and_(pc.equal(taken["left"], left), pc.equal(taken["right"], right))
            .to_numpy()
            .astype(bool)
        )

    def to_disk(self, directory: Path) -> None:
        write_table(self.table, directory / FILE)
        write_array(self.vectors, directory / VECTORS_FILE)
        if self.references is not None:
            write_array(self.references.vectors, directory / REFERENCES_FILE)
        if self.saves_lexical_index:
            self.lexical_index.to_disk(directory / LEXICAL_DIR)

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
        lexical: bool = False,
        verify: bool = True,
    ) -> "PrototypeTable":
        """Read the table from the folder `directory`.

        references: those in the saved vectors. lexical: whether a lexical index was saved. verify:
            check all contents of the files.

        Raises KrisselError K524 if the files differ from the manifest.
        """
        table = read_table(directory / FILE, SCHEMA, rows, verify=verify)
        for column, n, what in (
            ("entity", n_entities, "entity rows"),
            ("kind", len(KINDS), "kinds"),
        ):
            found = pc.min_max(table.column(column)).as_py()
            if rows and (found["min"] < 0 or found["max"] >= n):
                problem = f"{FILE} names {what} outside 0 to {n - 1}"
                raise KrisselError(Errors.K524.format(path=directory, problem=problem))
        stored = GrowingVectors(
            read_array(directory / VECTORS_FILE, rows, width, dtype, verify=verify)
        )
        read = cls(table, stored, references, directory / FILE, lexical)
        if lexical:
            with coded_damage(directory / LEXICAL_DIR, partial(_damaged_index, directory)):
                vars(read)["lexical_index"] = LexicalIndex.from_disk(
                    directory / LEXICAL_DIR, n_entities
                )
        return read


def _damaged_index(directory: Path, problem: object) -> KrisselError:
    return KrisselError(Errors.K524.format(path=directory, problem=f"{LEXICAL_DIR}/{problem}"))


def _added_rows(entity_rows: Rows, kinds: Rows) -> Rows:
    """Return the rows of the references to add to prototypes of these entities and kinds.

    Both are (m,); -1 for none.
    """
    return np.where(kinds == KINDS.index("reference"), -1, entity_rows)
