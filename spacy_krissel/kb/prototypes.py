"""The prototypes of a knowledge base: what was seen of each entity, and the vectors that are searched."""

from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import Errors, KrisselError
from ..index.protocol import Rows, Vectors
from ..views import View
from .arrow_file import read_table, write_table

FILE, VECTORS_FILE = "prototypes.arrow", "vectors.npy"
# Stored by number: new kinds go to the end.
KINDS = ("name", "mention", "gold", "reference", "replaced")
DTYPES = ("float32", "float16")
SCHEMA = pa.schema(
    [
        ("entity", pa.int32()),
        ("kind", pa.int8()),
        ("left", pa.large_string()),
        ("mention", pa.large_string()),
        ("right", pa.large_string()),
        ("masked", pa.bool_()),
    ]
)
# Vectors converted or written at a time.
BLOCK_ROWS = 65_536


class Prototype(NamedTuple):
    """One view of an entity.

    entity: the entity's id.
    kind: "name" (of the ontology), "mention" (self-supervised), "gold" (annotated), "reference" (§3.3: name, types and
        description), "replaced" (a mention's context with another of the entity's names in its place).
    view: the text that was encoded.
    """

    entity: str
    kind: str
    view: View


class PrototypeTable:
    """Prototypes by row: entity row, kind, text and vector. Grows at the end."""

    def __init__(self, width: int, dtype: str = "float32") -> None:
        if dtype not in DTYPES:
            expected = " or ".join(repr(known) for known in DTYPES)
            raise KrisselError(Errors.K006.format(setting="dtype", found=dtype, expected=expected))
        self.dtype = dtype
        self._table = SCHEMA.empty_table()
        self._vectors: Vectors = np.zeros((0, width), dtype=dtype)
        # What was added and not yet joined to the rest, so that many small additions cost no more than one.
        self._new_tables: List[pa.Table] = []
        self._new_vectors: List[Vectors] = []
        self._entity_rows: Optional[Rows] = None
        self._by_entity: Optional[Tuple[Rows, Rows, Rows]] = None

    def __len__(self) -> int:
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
        }
        self._new_tables.append(pa.table(columns, schema=SCHEMA))
        # Always a copy: the caller may fill its array with the next batch.
        self._new_vectors.append(np.array(vectors, dtype=self.dtype))
        self._forget()

    def move_entities(self, new_rows: Rows) -> None:
        """Entity row i becomes `new_rows[i]`."""
        self._join()
        entities = pa.array(new_rows[self.entity_rows].astype(np.int32))
        self._table = self._table.set_column(0, SCHEMA.field("entity"), entities)
        self._forget()

    @property
    def table(self) -> pa.Table:
        self._join()
        return self._table

    @property
    def vectors(self) -> Vectors:
        """All vectors (n, width), of `dtype`; mapped as long as nothing was added."""
        self._join()
        return self._vectors

    @property
    def entity_rows(self) -> Rows:
        """The entity row of each prototype: (n,)."""
        if self._entity_rows is None:
            self._entity_rows = self.table.column("entity").to_numpy().astype(np.int64)
        return self._entity_rows

    @property
    def by_entity(self) -> Tuple[Rows, Rows, Rows]:
        """Prototype rows grouped by entity (n,), where each group starts (g,), and the groups' entity rows (g,)."""
        if self._by_entity is None:
            order = np.argsort(self.entity_rows, kind="stable")
            present, starts = np.unique(self.entity_rows[order], return_index=True)
            self._by_entity = order, starts, present
        return self._by_entity

    def rows_of(self, entity_row: int) -> Rows:
        order, starts, present = self.by_entity
        group = int(np.searchsorted(present, entity_row))
        if group == len(present) or present[group] != entity_row:
            return order[:0]
        return order[starts[group] : starts[group + 1] if group + 1 < len(starts) else None]

    def rows_of_kinds(self, kinds: Sequence[str]) -> Rows:
        numbers = [KINDS.index(kind) for kind in kinds]
        return np.flatnonzero(np.isin(self.table.column("kind").to_numpy(), numbers))

    def kind_counts(self) -> Dict[str, int]:
        counts = np.bincount(self.table.column("kind").to_numpy(), minlength=len(KINDS))
        return {kind: int(count) for kind, count in zip(KINDS, counts) if count}

    def at(self, rows: Any) -> List[Tuple[int, str, View]]:
        """Entity row, kind and view of the prototypes at `rows`, an array of any shape, flattened."""
        taken = self.table.take(pa.array(np.ravel(rows))).to_pydict()
        views = map(View, taken["left"], taken["mention"], taken["right"], taken["masked"])
        return [(entity, KINDS[kind], view) for entity, kind, view in zip(taken["entity"], taken["kind"], views)]

    def mentions(self, rows: Any) -> List[str]:
        """The surface forms of the prototypes at `rows`, an array of any shape, flattened."""
        return self.table.column("mention").take(pa.array(np.ravel(rows))).to_pylist()

    def to_disk(self, directory: Path) -> None:
        write_table(self.table, directory / FILE)
        header = {"descr": self.vectors.dtype.str, "fortran_order": False, "shape": self.vectors.shape}
        with (directory / VECTORS_FILE).open("wb") as file_:
            np.lib.format.write_array_header_1_0(file_, header)
            for start in range(0, len(self), BLOCK_ROWS):
                file_.write(np.ascontiguousarray(self.vectors[start : start + BLOCK_ROWS]).data)

    @classmethod
    def from_disk(cls, directory: Path, rows: int, width: int, dtype: str, n_entities: int) -> "PrototypeTable":
        """Raises KrisselError K524 when the files do not hold what the manifest says."""
        prototypes = cls(width, dtype)
        prototypes._table = read_table(directory / FILE, SCHEMA, rows)
        prototypes._vectors = _read_vectors(directory, rows, width, dtype)
        entities = prototypes.entity_rows
        if rows and (entities.min() < 0 or entities.max() >= n_entities):
            problem = f"{FILE} names entity rows outside 0 to {n_entities - 1}"
            raise KrisselError(Errors.K524.format(path=directory, problem=problem))
        return prototypes

    def _join(self) -> None:
        if self._new_tables:
            self._table = pa.concat_tables([self._table, *self._new_tables]).combine_chunks()
            self._vectors = np.concatenate([self._vectors, *self._new_vectors])
            self._new_tables, self._new_vectors = [], []

    def _forget(self) -> None:
        self._entity_rows = None
        self._by_entity = None


def _read_vectors(directory: Path, rows: int, width: int, dtype: str) -> NDArray[Any]:
    path = directory / VECTORS_FILE
    try:
        # An empty file cannot be mapped.
        vectors = np.load(path, mmap_mode="r" if rows and width else None, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise KrisselError(Errors.K524.format(path=directory, problem=f"{path.name}: {error}")) from None
    if vectors.shape != (rows, width) or vectors.dtype != np.dtype(dtype):
        problem = f"{path.name} holds {vectors.shape} of {vectors.dtype}, expected {(rows, width)} of {dtype}"
        raise KrisselError(Errors.K524.format(path=directory, problem=problem))
    return vectors
