"""Verdicts of people on links: corrections and rejections, each of one mention in its sentence."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import Errors, KrisselError
from ..index.growing import GrowingVectors
from ..index.protocol import Mask, Rows, Vectors
from ..lexical.groups import Groups, distinct, edges, ranges
from ..lexical.ngrams import canonical_form
from ..mentions.own_sentence import sentence_key
from ..util.hashing import stable_hash
from ..util.lock import Lock, once
from ..views import View
from .columns import appended, read_array, read_table, take_rows, write_array, write_table
from .prototype_table import NO_ORIGIN, Origin

FILE, VECTORS_FILE = "verdicts.arrow", "verdicts.npy"
# Verdicts on one form that a mention is compared with: the latest.
MAX_ALIKE = 256
_ROWS = pa.list_(pa.int32())
SCHEMA = pa.schema(
    [
        *((name, pa.large_string()) for name in ("left", "mention", "right")),
        *((name, pa.large_string()) for name in ("source", "doc")),
        *((name, pa.int32()) for name in ("start", "end")),
        ("text_hash", pa.large_string()),
        *((name, _ROWS) for name in ("entities", "rejected")),
        *((name, pa.bool_()) for name in ("no_entity", "same_document")),
        *((name, pa.int64()) for name in ("form", "sentence", "number")),
    ]
)
# Of earlier versions, whose verdicts are in their order.
WITHOUT_NUMBERS = SCHEMA.remove(SCHEMA.get_field_index("number"))


class Verdict(NamedTuple):
    """A person's verdict on a mention in its sentence.

    view: the mention, with `MINED_CHARS` characters of context.
    right: ids of its entity, or of those of a composite mention: a correction. rejected: ids of
        entities that it is not. no_entity: the vocabulary has no entity for it, so that `right` is
        empty.
    same_document: it holds in the document of its origin only; else in its sentence in any text.
    origin: where it was said.
    """

    view: View
    right: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()
    no_entity: bool = False
    same_document: bool = False
    origin: Origin = NO_ORIGIN

    @property
    def ids(self) -> tuple[str, ...]:
        return self.right + self.rejected

    def replaces(self, earlier: "Verdict") -> bool:
        """Return whether it replaces an earlier verdict on the same mention and sentence wherever
        that one holds: it is a correction, or says that there is no entity, at the same offsets of
        the same document."""
        own, other = self.origin, earlier.origin
        return (
            (bool(self.right) or self.no_entity)
            and own.is_in_document_of(other)
            and (own.start, own.end) == (other.start, other.end)
            and (earlier.same_document or not self.same_document)
        )

    def problem(self) -> str:
        """Return the reason why this is no verdict, or ""."""
        if not self.view.mention.strip():
            return "its mention is empty"
        if not (self.ids or self.no_entity):
            return "it names no entity"
        if self.no_entity and self.right:
            return "it says that there is no entity, and names one"
        return ""


class NumberedVerdicts(NamedTuple):
    """Verdicts, the vectors (n, d) of their views, and their order among all verdicts of a
    knowledge base, ascending."""

    verdicts: Sequence[Verdict]
    vectors: Any
    numbers: Sequence[int]


NOTHING_SAID = NumberedVerdicts((), None, ())


def form_key(text: str) -> int:
    """Return a 64-bit key of the text's canonical form, signed. Mentions with one key are alike."""
    return stable_hash(canonical_form(text)) - 2**63


class SortedKeys(NamedTuple):
    """Rows by key: `keys` (n,) ascending, and the row of each; equal keys are in row order."""

    keys: np.ndarray
    rows: Rows

    def inserted(self, keys: np.ndarray, rows: Rows) -> "SortedKeys":
        """Return these with more keys, of higher rows in ascending order."""
        order = np.argsort(keys, kind="stable")
        at = np.searchsorted(self.keys, keys[order], side="right")
        return SortedKeys(
            np.insert(self.keys, at, keys[order]), np.insert(self.rows, at, rows[order])
        )

    def find(self, keys: np.ndarray, most: int | None = None) -> tuple[Rows, Rows]:
        """Return the rows of the keys (q,), at most the last `most` of each, and the index of each
        row's key, ascending."""
        starts, ends = (np.searchsorted(self.keys, keys, side=side) for side in ("left", "right"))
        if most is not None:
            starts = np.maximum(starts, ends - most)
        lengths = ends - starts
        return self.rows[ranges(starts, lengths)], np.repeat(np.arange(len(keys)), lengths)


NO_KEYS = SortedKeys(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


@dataclass(eq=False)
class VerdictTable:
    """Verdicts by row, in the order in which they were said. Immutable.

    table: of `SCHEMA`, with entity rows. stored: vectors of the views. active: rows that were not
    removed. forms, sentences: rows by `form_key` and by `sentence_key`. The column "number" has the
    order among all verdicts of a knowledge base, inactive ones included.
    """

    table: pa.Table
    stored: GrowingVectors
    active: Mask
    forms: SortedKeys = NO_KEYS
    sentences: SortedKeys = NO_KEYS
    _lock: Lock = field(default_factory=Lock, init=False)

    @classmethod
    def empty(cls, width: int, dtype: str) -> "VerdictTable":
        return cls._of(SCHEMA.empty_table(), np.zeros((0, width), dtype=dtype))

    @classmethod
    def _of(cls, table: pa.Table, vectors: Vectors) -> "VerdictTable":
        rows = np.arange(len(table))
        forms, sentences = (
            NO_KEYS.inserted(table.column(name).to_numpy(), rows) for name in ("form", "sentence")
        )
        active = np.ones(len(table), dtype=bool)
        return cls(table, GrowingVectors(vectors), active, forms, sentences)

    def __len__(self) -> int:
        """Number of active verdicts."""
        return self.n_active

    @once
    def n_active(self) -> int:
        return int(self.active.sum())

    @property
    def n_rows(self) -> int:
        """Number of rows, removed ones included."""
        return len(self.table)

    @property
    def vectors(self) -> Vectors:
        return self.stored.array

    def appended(
        self,
        verdicts: Sequence[Verdict],
        right: Sequence[Sequence[int]],
        rejected: Sequence[Sequence[int]],
        vectors: Vectors,
        numbers: Sequence[int],
    ) -> "VerdictTable":
        """Return the table with more verdicts. right, rejected: rows of their entities. vectors:
        (m, width). numbers: ascending, above those in the table."""
        keys = {
            "form": [form_key(each.view.mention) for each in verdicts],
            "sentence": [sentence_key(each.view) for each in verdicts],
        }
        columns: dict[str, Any] = {
            **{name: [getattr(each.view, name) for each in verdicts] for name in View._fields[:3]},
            **{name: [getattr(each.origin, name) for each in verdicts] for name in Origin._fields},
            "entities": [[*rows] for rows in right],
            "rejected": [[*rows] for rows in rejected],
            "no_entity": [each.no_entity for each in verdicts],
            "same_document": [each.same_document for each in verdicts],
            "number": [*numbers],
            **keys,
        }
        rows = np.arange(self.n_rows, self.n_rows + len(verdicts))
        return VerdictTable(
            appended(self.table, pa.table(columns, schema=SCHEMA)),
            self.stored.appended(vectors),
            np.append(self.active, np.ones(len(verdicts), dtype=bool)),
            self.forms.inserted(np.array(keys["form"], dtype=np.int64), rows),
            self.sentences.inserted(np.array(keys["sentence"], dtype=np.int64), rows),
        )

    def removed(self, mask: Mask) -> "VerdictTable":
        """Return the table without the verdicts at `mask` (n_rows,). The others keep their rows."""
        return replace(self, active=self.active & ~mask)

    def compact(self) -> "VerdictTable":
        """Return the table without removed rows."""
        if self.active.all():
            return self
        table = self.table.filter(pa.array(self.active)).combine_chunks()
        return self._of(table, self.vectors[self.active])

    def with_entity_rows(self, new_rows: Rows) -> "VerdictTable":
        """Return the table after entity row i became `new_rows[i]`; -1 for no entity of a
        verdict."""
        table = self.table
        for name in ("entities", "rejected"):
            group = self._groups(name)
            rows = pa.ListArray.from_arrays(
                pa.array(group.edges.astype(np.int32)),
                pa.array(new_rows[group.values].astype(np.int32)),
            )
            table = table.set_column(table.schema.get_field_index(name), SCHEMA.field(name), rows)
        return replace(self, table=table)

    def where(self, source: str | None, docs: Iterable[str] | None) -> Mask:
        """Return the mask of the active verdicts of a source and of documents, if given, as in
        `PrototypeTable.where`: (n_rows,)."""
        mask = self.active.copy()
        if source is not None:
            mask &= pc.equal(self.table.column("source"), source).to_numpy().astype(bool)
        if docs is not None:
            wanted = pa.array([*docs], pa.large_string())
            doc, text = (
                pc.is_in(self.table.column(name), value_set=wanted) for name in ("doc", "text_hash")
            )
            mask &= pc.or_(doc, text).to_numpy().astype(bool)
        return mask

    def source_counts(self) -> dict[str, int]:
        """Return the number of active verdicts per source, "" for those without one."""
        names = self.table.column("source").filter(pa.array(self.active)).value_counts().to_pylist()
        return {each["values"]: each["counts"] for each in sorted(names, key=lambda x: x["values"])}

    def used_entities(self) -> Rows:
        """Return the distinct rows of the entities that active verdicts name."""
        both = (self._groups(name).take(self.active_rows)[0] for name in ("entities", "rejected"))
        return np.unique(np.concatenate([*both]))

    @property
    def active_rows(self) -> Rows:
        return np.flatnonzero(self.active)

    @once
    def right(self) -> Groups:
        """Return the rows of the right entities, by verdict."""
        return self._groups("entities")

    @once
    def rejected(self) -> Groups:
        """Return the rows of the rejected entities, by verdict."""
        return self._groups("rejected")

    @once
    def numbers(self) -> np.ndarray:
        """Return the "number" of each row (n_rows,)."""
        return self.table.column("number").to_numpy()

    @once
    def no_entity(self) -> Mask:
        return self.table.column("no_entity").to_numpy().astype(bool)

    @once
    def same_document(self) -> Mask:
        return self.table.column("same_document").to_numpy().astype(bool)

    def _groups(self, name: str) -> Groups:
        column = self.table.column(name).combine_chunks()
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        values = pc.list_flatten(column).to_numpy(zero_copy_only=False).astype(np.int64)
        return Groups(values, edges(lengths))

    def alike(self, keys: np.ndarray) -> tuple[Rows, Rows]:
        """Return the active verdicts on these forms (`form_key`), at most the latest `MAX_ALIKE` of
        each, and the index of each one's form, ascending."""
        rows, owners = self.forms.find(keys, MAX_ALIKE)
        is_active = self.active[rows]
        return rows[is_active], owners[is_active]

    def on_sentence(self, key: int) -> Rows:
        """Return the active verdicts with this `sentence_key`, oldest first."""
        rows, _ = self.sentences.find(np.array([key]))
        return rows[self.active[rows]]

    def documents(self, rows: Rows) -> Rows:
        """Return the number of the document of each verdict at `rows`, counted from 0 (n,). A
        verdict of no document has its own."""
        origins = zip(self.origins(rows), rows.tolist(), strict=True)
        return distinct([text or doc or row for (doc, text), row in origins])[1]

    def origins(self, rows: Rows) -> list[tuple[str, str]]:
        """Return the id and the text's hash of the document of each verdict at `rows`, "" where
        unknown."""
        columns = take_rows(self.table.select(["doc", "text_hash"]), rows).to_pydict().values()
        return [*zip(*columns, strict=True)]

    def said(self, rows: Rows) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the verdicts at `rows`: the row, and its columns as Python objects."""
        return zip(rows.tolist(), take_rows(self.table, rows).to_pylist(), strict=True)

    def at(self, rows: Rows, ids: Any) -> Iterator[Verdict]:
        """Yield the verdicts at `rows`, with the ids of their entities. ids: by entity row."""
        for _, row in self.said(rows):
            right, rejected = (
                tuple(ids.take(np.array(row[name], dtype=np.int64)))
                for name in ("entities", "rejected")
            )
            view = View(row["left"], row["mention"], row["right"])
            origin = Origin(*(row[name] for name in Origin._fields))
            yield Verdict(view, right, rejected, row["no_entity"], row["same_document"], origin)

    def to_disk(self, directory: Path) -> None:
        whole = self.compact()
        write_table(whole.table, directory / FILE)
        write_array(whole.vectors, directory / VECTORS_FILE)

    @classmethod
    def from_disk(
        cls,
        directory: Path,
        rows: int,
        width: int,
        dtype: str,
        n_entities: int,
        *,
        first: int = 0,
        verify: bool,
    ) -> "VerdictTable":
        """Read the table. first: number of its first row, if it is of a version without numbers.

        Raises KrisselError K524 if the files differ from the manifest.
        """
        # Always whole, since Arrow follows damaged offsets of lists.
        table = read_table(directory / FILE, SCHEMA, rows, earlier=WITHOUT_NUMBERS)
        if table.schema == WITHOUT_NUMBERS:
            numbers = pa.array(np.arange(first, first + rows))
            table = table.append_column(SCHEMA.field("number"), numbers)
        read = cls._of(
            table, read_array(directory / VECTORS_FILE, rows, width, dtype, verify=verify)
        )
        for each in (read.right, read.rejected):
            if len(each.values) and not 0 <= each.values.min() <= each.values.max() < n_entities:
                problem = f"{FILE} names entity rows outside 0 to {n_entities - 1}"
                raise KrisselError(Errors.K524.format(path=directory, problem=problem))
        return read
