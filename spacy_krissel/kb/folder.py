"""A knowledge base as a folder: entities, prototypes, references and index."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Collection, Dict, Optional

from ..errors import Errors, KrisselError
from ..index.kinds import make_index
from ..index.protocol import MakeIndex, VectorIndex, Vectors
from ..util.manifest import new_directory, read_manifest
from .entities import EntityTable
from .prototypes import PrototypeTable
from .references import References
from .storage import KIND, Source

FORMAT_VERSION = 1
INDEX_DIR = "index"


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


def read_folder(path: Path, width: int, make: Optional[MakeIndex], excluded: Collection[str]) -> Folder:
    """Read the folder `path`.

    width: of the vectors that are wanted, 0 for any. make: the index that is wanted, None for the one that was saved.
    excluded: "index", "prototypes".

    Raises what `PrototypeKB.from_disk` raises.
    """
    manifest = read_manifest(path, KIND, FORMAT_VERSION)
    source = Source.of(path)
    dimensions, dtype = manifest["dimensions"], manifest["dtype"]
    if width and dimensions and dimensions != width:
        raise KrisselError(Errors.K523.format(path=path, found=dimensions, expected=width))
    entities = EntityTable.from_disk(path, manifest["entities"])
    if "prototypes" in excluded:
        return Folder(source, manifest, entities, PrototypeTable(dimensions, dtype), None, None)
    # Knowledge bases of before there were references say nothing of them.
    described = manifest.get("references")
    references = References.from_disk(path, described, len(entities), dimensions, dtype)
    used = references if described and described["used"] else None
    prototypes = PrototypeTable.from_disk(path, manifest["prototypes"], dimensions, dtype, len(entities), used)
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
    index.from_disk(path, vectors)
    return index
