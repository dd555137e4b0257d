"""The prototypes of a knowledge base: what was seen of each entity, and the vectors that are searched."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Errors, KrisselError
from ..index.protocol import Mask, Rows, Vectors
from ..lexical.arrays import lexical_arrays
from ..lexical.groups import Groups
from ..lexical.index import LexicalIndex
from ..util.disk import coded_damage
from ..util.lock import Lock, once
from ..views import View, evidence, name_evidence
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
from .references import References

FILE, VECTORS_FILE, REFERENCES_FILE = "prototypes.arrow", "vectors.npy", "references.npy"
LEXICAL_DIR = "lexical"
# Stored by number: new kinds go to the end.
Kind = Literal["name", "mention", "gold", "reference", "replaced", "class"]
KINDS: tuple[str, ...] = get_args(Kind)
# Those that a mined mention has been made into: what an entity that was never mined does not have.
MINED = ("mention", "replaced")
# Those with a document that they are from.
SEEN = ("gold", *MINED)
MENTIONS = ("name", "class", *SEEN)
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
    """Where a prototype was seen, so that it can be removed.

    source: a label, such as the name of a corpus.
    doc, start, end: id of the document and character offsets in it; "" and -1 where there is none.
    text_hash: of the document's text, which identifies it under another id, or without one.
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
    origin: where it was seen; of names, nowhere. A "replaced" one has the offsets of the mention that was replaced.
    """

    entity: str
    kind: str
    view: View
    origin: Origin = NO_ORIGIN


@dataclass(eq=False)
class PrototypeTable:
    """Prototypes by row: entity row, kind, text and vector. Never changed: each change gives another table, which
    shares what it can.

    table: of `SCHEMA`. stored: what is searched, memory-mapped as long as nothing was added: c_p, or c_p + w·r_e where
    references are in use; a prototype that is a reference is searched as it is. references: those in use.
    path: the file that the table, or part of it, is mapped from. keeps_lexical: whether the lexical index is saved.
    """

    table: pa.Table
    stored: GrowingVectors
    references: References | None = None
    path: Path | None = None
    keeps_lexical: bool = False
    _lock: Lock = field(default_factory=Lock, init=False)

    @classmethod
    def empty(cls, width: int, dtype: str) -> "PrototypeTable":
        return cls(SCHEMA.empty_table(), GrowingVectors(np.zeros((0, width), dtype=dtype)))

    def __len__(self) -> int:
        return len(self.table)

    @property
    def vectors(self) -> Vectors:
        """What is searched (n, width): c_p, or c_p + w·r_e where references are in use (KRISSBERT eq. 6). Read only."""
        return self.stored.array

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
        for first, (entity, kind, *_) in enumerate(prototypes):
            if kind not in KINDS:
                known = ", ".join(KINDS)
                raise KrisselError(Errors.K512.format(first=first, entity=entity, kind=kind, known=known))
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
            # Rounded before, so that references may as well come after.
            vectors = vectors.astype(self.dtype) + self.references.at(rows)
        return replace(self, table=table, stored=self.stored.appended(vectors, scratch), keeps_lexical=False)

    def with_references(self, references: References, scratch: Path | None = None) -> "PrototypeTable":
        """With these references in use; scratch: see `appended`."""
        stored = GrowingVectors(self.vectors[:0])
        for start in range(0, len(self), BLOCK_ROWS):
            rows = np.arange(start, min(start + BLOCK_ROWS, len(self)))
            stored = stored.appended(self.own(rows) + references.at(self._added(rows)), scratch)
        return replace(self, stored=stored, references=references, keeps_lexical=False)

    def own(self, rows: Rows) -> Vectors:
        """c_p of the prototypes at `rows` (m,), without the reference: (m, width) float32. Where references are in use,
        it is the difference of what is stored: within that rounding."""
        vectors = self.vectors[rows].astype(np.float32)
        return vectors if self.references is None else vectors - self.references.at(self._added(rows))

    def _added(self, rows: Rows) -> Rows:
        return _added_rows(self.entity_rows[rows], self.table.column("kind").to_numpy()[rows])

    def moved(self, new_rows: Rows, n_entities: int) -> "PrototypeTable":
        """After entity row i became `new_rows[i]` of `n_entities`; -1: it is gone, and had no prototypes."""
        entities = pa.array(new_rows[self.entity_rows].astype(np.int32))
        table = self.table.set_column(0, SCHEMA.field("entity"), entities)
        references = None if self.references is None else self.references.moved(new_rows, n_entities)
        return replace(self, table=table, references=references, keeps_lexical=False)

    @coded
    def take(self, mask: Mask) -> "PrototypeTable":
        """The prototypes at `mask` (len(self),), in memory."""
        table = self.table.filter(pa.array(mask)).combine_chunks()
        return replace(self, table=table, stored=GrowingVectors(self.vectors[mask]), keeps_lexical=False)

    @coded
    def where(self, kind: str | None, source: str | None, docs: Sequence[str] | None) -> Mask:
        """The prototypes of this kind, from this source and from one of these documents, where given: (len(self),).

        docs: ids of documents, or hashes of their texts.
        """
        mask = np.ones(len(self), dtype=bool)
        if kind is not None:
            mask &= self._of_kinds([kind])
        if source is not None:
            mask &= pc.equal(self.table.column("source"), source).to_numpy().astype(bool)
        if docs is not None:
            wanted = pa.array(docs, pa.large_string())
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

    @once
    def entity_rows(self) -> Rows:
        """The entity row of each prototype: (n,)."""
        return self.table.column("entity").to_numpy().astype(np.int64)

    @once
    def by_entity(self) -> Groups:
        """Prototype rows by entity row, those of an entity in ascending order."""
        order = np.argsort(self.entity_rows, kind="stable")
        return Groups.of(self.entity_rows[order], order)

    @once
    def lexical_index(self) -> LexicalIndex:
        """The surface forms of all prototypes but references, which are no mentions."""
        return self._lexical_index(None)

    def keeping_lexical(self, scratch: Path | None = None) -> "PrototypeTable":
        """The same prototypes, whose lexical index is made and is saved with them; scratch: see `appended`."""
        kept = replace(self, keeps_lexical=True)
        vars(kept)["lexical_index"] = vars(self).get("lexical_index") or self._lexical_index(scratch)
        return kept

    @coded
    def _lexical_index(self, scratch: Path | None) -> LexicalIndex:
        rows = self.rows_of_kinds(MENTIONS)
        # What the entities below one share is a guess at a name of it.
        named = ~self._of_kinds(["class"])[rows]
        arrays = lexical_arrays(lambda part: self.mentions(rows[part]), self.entity_rows[rows], named, scratch)
        return LexicalIndex(arrays)

    @once
    def gold_entities(self) -> Rows:
        """The rows of the entities with gold mentions among their prototypes, in ascending order."""
        return self.entities_of(["gold"])

    @once
    def in_text(self) -> Mask:
        """Which prototypes are more than a name: (n,)."""
        return ~self._of_kinds(["name", "class"])

    def _of_kinds(self, kinds: Sequence[str]) -> Mask:
        return np.isin(self.table.column("kind").to_numpy(), [KINDS.index(kind) for kind in kinds])

    def rows_of_kinds(self, kinds: Sequence[str]) -> Rows:
        return np.flatnonzero(self._of_kinds(kinds))

    def kind_counts(self) -> dict[str, int]:
        counts = np.bincount(self.table.column("kind").to_numpy(), minlength=len(KINDS))
        return {kind: int(count) for kind, count in zip(KINDS, counts, strict=True) if count}

    def entities_of(self, kinds: Sequence[str]) -> Rows:
        """The rows of the entities that have a prototype of one of these kinds, each once."""
        return np.unique(self.entity_rows[self._of_kinds(kinds)])

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
    def shown(self, rows: Any) -> dict[str, list[Any]]:
        """What candidates tell of the prototypes at `rows`, as `at`: "entity", the row, "kind", "evidence", the view as
        one line, "doc" and "source"."""
        # Half the time of making objects of them first (`at`).
        columns = ["entity", "kind", "left", "mention", "right", "source", "doc"]
        taken = take_rows(self.table.select(columns), rows).to_pydict()
        kinds = taken["kind"] = [KINDS[kind] for kind in taken["kind"]]
        texts = (taken.pop(name) for name in ("left", "mention", "right"))
        taken["evidence"] = [
            # No `View` is made of a bare name, which most are.
            name_evidence(mention)
            if kind == "name" and not (left or right)
            else evidence(View(left, mention, right, False, kind == "reference"))
            for left, mention, right, kind in zip(*texts, kinds, strict=True)
        ]
        return taken

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
        write_array(self.vectors, directory / VECTORS_FILE)
        if self.references is not None:
            write_array(self.references.vectors, directory / REFERENCES_FILE)
        if self.keeps_lexical:
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
        """references: those in the vectors that were saved. lexical: whether a lexical index was saved. verify: check
        all that is in the files.

        Raises KrisselError K524 when the files do not hold what the manifest says.
        """
        table = read_table(directory / FILE, SCHEMA, rows, verify=verify)
        for column, n, what in (("entity", n_entities, "entity rows"), ("kind", len(KINDS), "kinds")):
            found = pc.min_max(table.column(column)).as_py()
            if rows and (found["min"] < 0 or found["max"] >= n):
                problem = f"{FILE} names {what} outside 0 to {n - 1}"
                raise KrisselError(Errors.K524.format(path=directory, problem=problem))
        stored = GrowingVectors(read_array(directory / VECTORS_FILE, rows, width, dtype, verify=verify))
        read = cls(table, stored, references, directory / FILE, lexical)
        if lexical:
            with coded_damage(directory / LEXICAL_DIR, partial(_damaged_index, directory)):
                vars(read)["lexical_index"] = LexicalIndex.from_disk(directory / LEXICAL_DIR, n_entities)
        return read


def _damaged_index(directory: Path, problem: object) -> KrisselError:
    return KrisselError(Errors.K524.format(path=directory, problem=f"{LEXICAL_DIR}/{problem}"))


def _added_rows(entity_rows: Rows, kinds: Rows) -> Rows:
    """The rows of the references that are added to prototypes of these entities and kinds (m,), -1 for none: (m,)."""
    return np.where(kinds == KINDS.index("reference"), -1, entity_rows)
