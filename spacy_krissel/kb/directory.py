"""A knowledge base as a folder: entities, prototypes, references and index."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Collection, Dict, Iterator, Literal, Optional

from pydantic import Field

from ..errors import Errors, KrisselError
from ..index.kinds import make_index
from ..index.protocol import MakeIndex, VectorIndex, Vectors
from ..util.disk import damage
from ..util.manifest import Count, Shape, new_directory, read_manifest
from .entity_columns import FILE as ENTITIES
from .entity_columns import EntityTable
from .prototype_table import FILE as PROTOTYPES
from .prototype_table import SUMS_FILE, VECTORS_FILE, PrototypeTable
from .references import FILE as REFERENCES
from .references import References
from .storage import KIND, Source

FORMAT_VERSION = 1
INDEX_DIR = "index"


class IndexShape(Shape):
    kind: str
    settings: Dict[str, Any]


class ReferencesShape(Shape):
    entities: Count
    weight: Annotated[float, Field(ge=0)]
    used: bool


class KBShape(Shape):
    """See `PrototypeKB.description`."""

    entities: Count
    prototypes: Count
    dimensions: Annotated[int, Field(ge=0, le=2**24)]
    dtype: Literal["float32", "float16"]
    normalized: bool
    encoder: Optional[str]
    index: IndexShape
    index_saved: bool
    tuning: Optional[Dict[str, Any]] = None
    # Knowledge bases of before there were references say nothing of them.
    references: Optional[ReferencesShape] = None

    def needs(self) -> Iterator[str]:
        yield from (ENTITIES, PROTOTYPES, VECTORS_FILE)
        if self.references is not None:
            yield REFERENCES
            if self.references.used:
                yield SUMS_FILE
        if self.index_saved:
            # What an index reads is its own affair.
            yield f"{INDEX_DIR}/"


@dataclass(frozen=True)
class Folder:
    """What was read, memory-mapped.

    source: the folder as it was then.
    manifest: the knowledge base's `description` of when it was written.
    index: None leaves it to be built.
    """

    source: Source
    manifest: Dict[str, Any]
    entities: EntityTable
    prototypes: PrototypeTable
    references: Optional[References]
    index: Optional[VectorIndex]


def write_folder(
    path: Path,
    description: Dict[str, Any],
    entities: EntityTable,
    prototypes: PrototypeTable,
    references: Optional[References],
    index: Optional[VectorIndex],
) -> None:
    """Write the folder `path`, all or nothing. description: see `PrototypeKB.description`."""
    with new_directory(path, KIND, FORMAT_VERSION) as directory:
        entities.to_disk(directory.path)
        prototypes.to_disk(directory.path)
        if references is not None:
            references.to_disk(directory.path)
        directory.info.update(description)
        directory.info.update(
            prototypes=len(prototypes),
            prototype_kinds=prototypes.kind_counts(),
            prototype_sources=prototypes.source_counts(),
            references=description["references"] if references is not None else None,
            index_saved=index is not None,
            tuning=description["tuning"] if index is not None else None,
        )
        if index is not None:
            (directory.path / INDEX_DIR).mkdir()
            index.to_disk(directory.path / INDEX_DIR)


def read_folder(
    path: Path, width: int, make: Optional[MakeIndex], excluded: Collection[str], *, verify: bool = True
) -> Folder:
    """Read the folder `path`.

    width: of the vectors that are wanted, 0 for any. make: the index that is wanted, None for the one that was saved.
    excluded: "index", "prototypes". verify: check the hash of each file, and what is in it.

    Raises what `PrototypeKB.from_disk` raises.
    """
    manifest = read_manifest(path, KIND, FORMAT_VERSION, verify=verify, shape=KBShape)
    source = Source.of(path)
    dimensions, dtype = manifest["dimensions"], manifest["dtype"]
    if width and dimensions and dimensions != width:
        raise KrisselError(Errors.K523.format(path=path, found=dimensions, expected=width))
    entities = EntityTable.from_disk(path, manifest["entities"], verify=verify)
    if "prototypes" in excluded:
        return Folder(source, manifest, entities, PrototypeTable(dimensions, dtype), None, None)
    described = manifest.get("references")
    references = References.from_disk(path, described, len(entities), dimensions, dtype, verify=verify)
    used = references if described and described["used"] else None
    prototypes = PrototypeTable.from_disk(
        path, manifest["prototypes"], dimensions, dtype, len(entities), used, verify=verify
    )
    index = None
    if manifest["index_saved"] and "index" not in excluded:
        index = _read_index(path / INDEX_DIR, manifest["index"], prototypes.vectors, make)
    return Folder(source, manifest, entities, prototypes, references, index)


def _read_index(
    path: Path, saved: Dict[str, Any], vectors: Vectors, make: Optional[MakeIndex]
) -> Optional[VectorIndex]:
    """The index saved at `path`, if it is the one that is wanted."""
    if make is None:
        index = make_index(saved["kind"], saved["settings"])
    else:
        index = make()
        if not index.owns_vectors:
            saved = {"kind": index.kind, "settings": index.settings}
        if index.kind != saved["kind"] or not index.reads(saved["settings"]):
            return None

    def damaged(problem: object) -> KrisselError:
        return KrisselError(Errors.K524.format(path=path.parent, problem=f"its index: {problem}"))

    # As where the settings of one kind of index stand before the files of another.
    with damage(path, damaged):
        index.from_disk(path, vectors)
    return index
