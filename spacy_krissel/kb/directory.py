"""A saved knowledge base, as a folder and as bytes: entities, prototypes, references and index."""

import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import srsly
from pydantic import Field

from ..errors import Errors, KrisselError
from ..index.kinds import make_index
from ..index.protocol import MakeIndex, VectorIndex, Vectors
from ..util.disk import coded_io, damage
from ..util.manifest import MANIFEST, Count, Shape, new_directory, plain_name, read_manifest
from .columns import read_array
from .entity_columns import FILE as ENTITIES
from .entity_columns import EntityTable
from .prototype_table import FILE as PROTOTYPES
from .prototype_table import REFERENCES_FILE, SUMS_FILE, VECTORS_FILE, PrototypeTable
from .references import References

# msgpack refuses a byte string of 4 GiB.
PIECE = 2**30
KIND = "knowledge base"


class Source(NamedTuple):
    """A folder that holds what a knowledge base in memory holds, and the SHA-256 of its manifest.

    The manifest names the SHA-256 of every file, so that it stands for them all.
    """

    path: Path
    digest: str

    @classmethod
    def of(cls, path: Path) -> "Source":
        """Raises KrisselError K026 when the disk refuses."""
        with coded_io(path):
            return cls(path.absolute(), hashlib.sha256((path / MANIFEST).read_bytes()).hexdigest())

    def problem(self) -> str:
        """What happened to the folder since; empty if nothing did."""
        try:
            return "" if Source.of(self.path) == self else "was changed"
        except KrisselError:
            return "was removed"


def pack(directory: Path) -> bytes:
    """All files below `directory`, as bytes."""
    files = (file_ for file_ in sorted(directory.rglob("*")) if file_.is_file())
    return pack_files({file_.relative_to(directory).as_posix(): memoryview(file_.read_bytes()) for file_ in files})


def pack_files(files: Mapping[str, memoryview]) -> bytes:
    """Files by name, in memory or mapped, as bytes."""
    pieces = {
        name: [content[start : start + PIECE] for start in range(0, len(content), PIECE)]
        for name, content in files.items()
    }
    return srsly.msgpack_dumps({"kind": KIND, "files": pieces})


def unpack(bytes_data: bytes, directory: Path) -> None:
    """Write the files that `pack` read below `directory`. Raises KrisselError K527, K026 (the disk refuses)."""
    try:
        message = srsly.msgpack_loads(bytes_data)
    except MemoryError:
        raise
    except Exception as error:  # msgpack's own errors have no class in common.
        raise KrisselError(Errors.K527.format(problem=f"cannot be read ({error})")) from None
    if not isinstance(message, dict) or message.get("kind") != KIND or not isinstance(message.get("files"), dict):
        raise KrisselError(Errors.K527.format(problem="hold something else"))
    for name, pieces in message["files"].items():
        if not isinstance(name, str) or not plain_name(name):
            raise KrisselError(Errors.K527.format(problem=f"name a file outside their folder ({str(name)[:200]!r})"))
        if not isinstance(pieces, list) or not all(isinstance(piece, bytes) for piece in pieces):
            raise KrisselError(Errors.K527.format(problem=f"have something else than bytes for the file '{name}'"))
        file_ = directory / name
        with coded_io(file_):
            file_.parent.mkdir(parents=True, exist_ok=True)
            with file_.open("wb") as out:
                out.writelines(pieces)


FORMAT_VERSION = 2
INDEX_DIR = "index"


class IndexShape(Shape):
    kind: str
    settings: dict[str, Any]


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
    encoder: str | None
    index: IndexShape
    index_saved: bool
    tuning: dict[str, Any] | None
    references: ReferencesShape | None

    def needs(self) -> Iterator[str]:
        yield from (ENTITIES, PROTOTYPES, VECTORS_FILE)
        if self.references is not None:
            yield REFERENCES_FILE
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
    manifest: dict[str, Any]
    entities: EntityTable
    prototypes: PrototypeTable
    index: VectorIndex | None


def write_folder(
    path: Path,
    description: dict[str, Any],
    entities: EntityTable,
    prototypes: PrototypeTable,
    index: VectorIndex | None,
) -> None:
    """Write the folder `path`, all or nothing. description: see `PrototypeKB.description`."""
    with new_directory(path, KIND, FORMAT_VERSION) as directory:
        entities.to_disk(directory.path)
        prototypes.to_disk(directory.path)
        directory.info.update(
            description, index_saved=index is not None, tuning=description["tuning"] if index is not None else None
        )
        if index is not None:
            (directory.path / INDEX_DIR).mkdir()
            index.to_disk(directory.path / INDEX_DIR)


def read_folder(
    path: Path, width: int, make: MakeIndex | None, excluded: Collection[str], *, verify: bool = True
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
    entities = EntityTable.from_disk(path, manifest["entities"])
    if "prototypes" in excluded:
        return Folder(source, manifest, entities, PrototypeTable.empty(dimensions, dtype), None)
    described = manifest["references"]
    references = None
    if described and described["used"]:
        vectors = read_array(path / REFERENCES_FILE, len(entities), dimensions, dtype, verify=verify)
        references = References(vectors, float(described["weight"]))
    prototypes = PrototypeTable.from_disk(
        path, manifest["prototypes"], dimensions, dtype, len(entities), references, verify=verify
    )
    index = None
    if manifest["index_saved"] and "index" not in excluded:
        index = _read_index(path / INDEX_DIR, manifest["index"], prototypes.vectors, make)
    return Folder(source, manifest, entities, prototypes, index)


def _read_index(path: Path, saved: dict[str, Any], vectors: Vectors, make: MakeIndex | None) -> VectorIndex | None:
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
