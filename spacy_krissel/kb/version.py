"""All that a knowledge base holds at one time, in memory and as a folder."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from ..errors import Errors, KrisselError
from ..index.devices import check_device
from ..index.exact import ExactIndex
from ..index.kinds import make_index
from ..index.protocol import MakeIndex, VectorIndex, Vectors, check_queries
from ..util.atomic import copies_linked, copy_folder
from ..util.disk import damage
from ..util.manifest import Count, Shape, new_directory, read_manifest
from .columns import read_array
from .directory import KIND, Source
from .entity_columns import DETAILS_FILE, EntityTable
from .entity_columns import FILE as ENTITIES
from .prototype_table import FILE as PROTOTYPES
from .prototype_table import LEXICAL_DIR, REFERENCES_FILE, VECTORS_FILE, PrototypeTable
from .references import References

FORMAT_VERSION = 7
INDEX_DIR = "index"
METRIC = "inner product"


class IndexShape(Shape):
    kind: str
    settings: dict[str, Any]


class ReferencesShape(Shape):
    entities: Count
    weight: Annotated[float, Field(ge=0)]


class KBShape(Shape):
    """See `Version.description`."""

    entities: Count
    details: bool
    ontology: list[dict[str, Any]]
    prototypes: Count
    dimensions: Annotated[int, Field(ge=0, le=2**24)]
    dtype: Literal["float32", "float16"]
    normalized: bool
    encoder: str | None
    index: IndexShape
    index_saved: bool
    tuning: dict[str, Any] | None
    references: ReferencesShape | None
    lexical: bool

    def needs(self) -> Iterator[str]:
        yield from (ENTITIES, PROTOTYPES, VECTORS_FILE)
        if self.details:
            yield DETAILS_FILE
        if self.references is not None:
            yield REFERENCES_FILE
        if self.lexical:
            yield f"{LEXICAL_DIR}/"
        if self.index_saved:
            # What an index reads is its own affair.
            yield f"{INDEX_DIR}/"


@dataclass(eq=False)
class Version:
    """A change makes another one; the index and the folders are noted when they are there.

    encoder: fingerprint of the encoder that made the vectors; empty where none was stated.
    ontology: where the entities come from: `info.provenance` of the ontology store's manifest.
    make_index: makes the kind of index that was asked for. make_read: that of the index that was read, used where none
        was asked for.
    index_device: where any of them lives; None: as they say.
    index: of all prototypes where `is_indexed`, else of the first ones; None: to be built.
    tuning: what was measured of the index.
    source: the folder that holds the same. saved: the one that does so except for the index.
    """

    entities: EntityTable
    prototypes: PrototypeTable
    normalized: bool
    encoder: str = ""
    ontology: list[dict[str, Any]] = field(default_factory=list)
    make_index: MakeIndex | None = None
    make_read: MakeIndex | None = None
    index_device: str | None = None
    index: VectorIndex | None = None
    is_indexed: bool = False
    tuning: dict[str, Any] | None = None
    source: Source | None = None
    saved: Source | None = None

    @property
    def width(self) -> int:
        return self.prototypes.vectors.shape[1]

    @property
    def is_empty(self) -> bool:
        return not (len(self.entities) and len(self.prototypes))

    def check_filled(self) -> None:
        """Raises KrisselError K520 when there is nothing to link to."""
        if self.is_empty:
            raise KrisselError(Errors.K520.format(entities=len(self.entities), prototypes=len(self.prototypes)))

    def new_index(self) -> VectorIndex:
        return _moved((self.make_index or self.make_read or ExactIndex)(), self.index_device)

    def check_device(self) -> None:
        """Raises KrisselError K006 where `index_device` is none, or one that the index refuses."""
        if self.index_device is not None:
            check_device(self.index_device)
            self.new_index()

    def queries(self, vectors: Any) -> Vectors:
        """See `PrototypeKB.queries`."""
        return self.scaled(check_queries(vectors, self.width))

    def scaled(self, vectors: Vectors) -> Vectors:
        if not self.normalized:
            return vectors
        norms = np.linalg.norm(vectors.astype(np.float32), axis=1, keepdims=True)
        return vectors / np.where(norms > 0, norms, 1)

    def description(self) -> dict[str, Any]:
        """See `PrototypeKB.description`."""
        prototypes, references = self.prototypes, None
        index = self.new_index() if self.index is None else self.index
        if (used := prototypes.references) is not None:
            references = {"entities": len(used), "weight": used.weight}
        return {
            "entities": len(self.entities),
            "details": self.entities.details is not None,
            "ontology": self.ontology,
            "prototypes": len(prototypes),
            "prototype_kinds": prototypes.kind_counts(),
            "prototype_sources": prototypes.source_counts(),
            "dimensions": self.width,
            "metric": METRIC,
            "normalized": self.normalized,
            "dtype": prototypes.dtype,
            "encoder": self.encoder,
            "index": {"kind": index.kind, "settings": index.settings},
            "tuning": self.tuning,
            "references": references,
            "lexical": prototypes.keeps_lexical,
        }

    def to_disk(self, path: Path, excluded: Iterable[str]) -> None:
        """Write the folder `path` atomically, without what is excluded: "index", "prototypes"."""
        written, is_whole = self, not {"index", "prototypes"} & set(excluded)
        if is_whole and copies_linked() and self.source is not None and not self.source.problem():
            copy_folder(self.source.path, path)
            # The source stays: this copy may be gone before the next one is made.
            self.saved = Source.of(path)
            return
        if "prototypes" in excluded:
            written = replace(self, prototypes=PrototypeTable.empty(self.width, self.prototypes.dtype))
        index = self.index if is_whole and self.is_indexed else None
        with new_directory(path, KIND, FORMAT_VERSION) as directory:
            written.entities.to_disk(directory.path)
            written.prototypes.to_disk(directory.path)
            directory.info.update(written.description())
            directory.info.update(index_saved=index is not None, tuning=None if index is None else self.tuning)
            if index is not None:
                (directory.path / INDEX_DIR).mkdir()
                index.to_disk(directory.path / INDEX_DIR)
        if is_whole:
            self.source = self.saved = Source.of(path)

    @classmethod
    def from_disk(
        cls,
        path: Path,
        width: int,
        make: MakeIndex | None,
        device: str | None,
        excluded: Iterable[str],
        *,
        verify: bool,
    ) -> "Version":
        """Read the folder `path`, memory-mapped.

        width: of the vectors that are wanted, 0 for any. make: the index that is wanted, None for the saved one.
        device: `index_device`. excluded: "index", "prototypes". verify: check the hash of each file, and what is in it.

        Raises what `PrototypeKB.from_disk` raises.
        """
        manifest = read_manifest(path, KIND, FORMAT_VERSION, verify=verify, shape=KBShape)
        source = Source.of(path)
        dimensions, dtype = manifest["dimensions"], manifest["dtype"]
        if width and dimensions and dimensions != width:
            raise KrisselError(Errors.K523.format(path=path, found=dimensions, expected=width))
        entities = EntityTable.from_disk(path, manifest["entities"], details=manifest["details"], verify=verify)
        policy = manifest["normalized"], manifest["encoder"], manifest["ontology"]
        read = cls(entities, PrototypeTable.empty(dimensions, dtype), *policy, make, index_device=device)
        if "prototypes" in excluded:
            return read
        described, references = manifest["references"], None
        if described:
            vectors = read_array(path / REFERENCES_FILE, len(entities), dimensions, dtype, verify=verify)
            references = References(vectors, float(described["weight"]))
        read.prototypes = PrototypeTable.from_disk(
            path,
            manifest["prototypes"],
            dimensions,
            dtype,
            len(entities),
            references,
            lexical=manifest["lexical"],
            verify=verify,
        )
        read.saved = source
        if manifest["index_saved"] and "index" not in excluded:
            read.index = _read_index(path / INDEX_DIR, manifest["index"], read)
        # Without an index it does not hold all that the folder does, or is to hold something else.
        if read.index is not None:
            read.make_read = partial(make_index, read.index.kind, read.index.settings)
            read.is_indexed, read.tuning, read.source = True, manifest["tuning"], source
        return read


def device_of(index: VectorIndex) -> str:
    """The device that an index lives on; "cpu" for a kind that knows no others."""
    return getattr(index, "device", "cpu")


def _moved(index: VectorIndex, device: str | None) -> VectorIndex:
    """The empty index, or one like it on the `device`. Raises KrisselError K006 if it refuses that."""
    if device is None or device == device_of(index):
        return index
    return make_index(index.kind, index.settings, device)


def _read_index(path: Path, saved: dict[str, Any], wanted: Version) -> VectorIndex | None:
    """The index of the prototypes that is saved at `path`, if it is the one that is wanted."""
    if wanted.make_index is None:
        index = make_index(saved["kind"], saved["settings"], wanted.index_device or "cpu")
    else:
        index = wanted.new_index()
        if not index.owns_vectors:
            saved = {"kind": index.kind, "settings": index.settings}
        if index.kind != saved["kind"] or not index.reads(saved["settings"]):
            return None

    def damaged(problem: object) -> KrisselError:
        return KrisselError(Errors.K524.format(path=path.parent, problem=f"its index: {problem}"))

    # As where the settings of one kind of index stand before the files of another.
    with damage(path, damaged):
        index.from_disk(path, wanted.prototypes.vectors)
    return index
