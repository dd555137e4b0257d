"""Folder of a snapshot of a knowledge base."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from ..errors import Errors, KrisselError
from ..index.kinds import make_index
from ..index.protocol import MakeIndex, VectorIndex
from ..util.atomic import copy_folder, is_hard_linking
from ..util.disk import coded_damage
from ..util.manifest import Count, ManifestSchema, new_directory, read_manifest
from .columns import read_array
from .directory import KIND, Source
from .entity_columns import DETAILS_FILE, EntityTable
from .entity_columns import FILE as ENTITIES
from .prototype_table import FILE as PROTOTYPES
from .prototype_table import LEXICAL_DIR, REFERENCES_FILE, VECTORS_FILE, PrototypeTable, References
from .snapshot import KBSnapshot
from .verdicts import FILE as VERDICTS
from .verdicts import VECTORS_FILE as VERDICT_VECTORS
from .verdicts import VerdictTable

FORMAT_VERSION = 9
INDEX_DIR, INACTIVE_DIR = "index", "inactive"


class IndexSchema(ManifestSchema):
    kind: str
    settings: dict[str, Any]


class ReferencesSchema(ManifestSchema):
    entities: Count
    weight: Annotated[float, Field(ge=0)]


class InactiveSchema(ManifestSchema):
    entities: Count
    prototypes: Count
    gold: Count
    verdicts: Count


class KBSchema(ManifestSchema):
    """ManifestSchema of `Lookups.description`."""

    entities: Count
    details: bool
    ontology: list[dict[str, Any]]
    made_with: dict[str, Any]
    inactive: InactiveSchema | None
    prototypes: Count
    dimensions: Annotated[int, Field(ge=0, le=2**24)]
    dtype: Literal["float32", "float16"]
    normalized: bool
    encoder: str | None
    index: IndexSchema
    index_saved: bool
    tuning: dict[str, Any] | None
    references: ReferencesSchema | None
    lexical: bool
    verdicts: Count

    def required_files(self) -> Iterator[str]:
        yield from (ENTITIES, PROTOTYPES, VECTORS_FILE)
        if self.details:
            yield DETAILS_FILE
        if self.references is not None:
            yield REFERENCES_FILE
        if self.lexical:
            yield f"{LEXICAL_DIR}/"
        if self.inactive is not None:
            names = [ENTITIES, PROTOTYPES, VECTORS_FILE]
            names += [VERDICTS, VERDICT_VECTORS] * bool(self.inactive.verdicts)
            yield from (f"{INACTIVE_DIR}/{name}" for name in names)
        if self.verdicts:
            yield from (VERDICTS, VERDICT_VECTORS)
        if self.index_saved:
            # The index knows its own files.
            yield f"{INDEX_DIR}/"


def write_snapshot(snapshot: KBSnapshot, path: Path, excluded: Iterable[str]) -> KBSnapshot:
    """Write the folder `path` atomically, without the excluded parts: "index", "prototypes".

    RETURNS: the snapshot, with the folder as its source if both hold the same.
    """
    is_whole = not {"index", "prototypes"} & set(excluded)
    if (
        is_whole
        and is_hard_linking()
        and snapshot.source is not None
        and not snapshot.source.problem()
    ):
        copy_folder(snapshot.source.path, path)
        # The source is kept: this copy may be deleted before the next one is made.
        return replace(snapshot, saved=Source.of(path))
    written = snapshot
    if "prototypes" in excluded:
        empty = PrototypeTable.empty(snapshot.width, snapshot.prototypes.dtype)
        written = replace(
            snapshot,
            prototypes=empty,
            inactive=None,
            verdict_table=VerdictTable.empty(0, empty.dtype),
        )
    index = snapshot.index if is_whole and snapshot.is_indexed else None
    with new_directory(path, KIND, FORMAT_VERSION) as directory:
        written.entities.to_disk(directory.path)
        written.prototypes.to_disk(directory.path)
        if len(written.verdicts):
            written.verdicts.to_disk(directory.path)
        directory.info.update(written.description())
        directory.info.update(
            index_saved=index is not None, tuning=None if index is None else written.tuning
        )
        if index is not None:
            (directory.path / INDEX_DIR).mkdir()
            index.to_disk(directory.path / INDEX_DIR)
        if written.inactive is not None:
            (directory.path / INACTIVE_DIR).mkdir()
            written.inactive.entities.to_disk(directory.path / INACTIVE_DIR)
            written.inactive.prototypes.to_disk(directory.path / INACTIVE_DIR)
            if len(written.inactive.verdicts):
                written.inactive.verdicts.to_disk(directory.path / INACTIVE_DIR)
    if not is_whole:
        return snapshot
    source = Source.of(path)
    return replace(snapshot, source=source, saved=source)


def read_snapshot(
    path: Path,
    width: int,
    make: MakeIndex | None,
    device: str | None,
    excluded: Iterable[str],
    *,
    verify: bool,
) -> KBSnapshot:
    """Read the folder `path`, memory-mapped.

    width: of the wanted vectors, 0 for any. make: makes the wanted index, None for the saved one.
    device: `index_device`. excluded: "index", "prototypes". verify: check the hash and the contents
        of each file.

    Raises the errors of `PrototypeKB.from_disk`.
    """
    manifest = read_manifest(path, KIND, FORMAT_VERSION, verify=verify, schema=KBSchema)
    source = Source.of(path)
    dimensions, dtype = manifest["dimensions"], manifest["dtype"]
    if width and dimensions and dimensions != width:
        raise KrisselError(Errors.K523.format(path=path, found=dimensions, expected=width))
    entities = EntityTable.from_disk(
        path, manifest["entities"], details=manifest["details"], verify=verify
    )
    policy = manifest["normalized"], manifest["encoder"], manifest["ontology"]
    # A knowledge base saved before its first vectors has no width.
    empty = PrototypeTable.empty(dimensions or width, dtype)
    read = KBSnapshot(
        entities, empty, *policy, make, index_device=device, made_with=manifest["made_with"]
    )
    if "prototypes" in excluded:
        return read
    if manifest["inactive"] is not None:
        read = replace(read, inactive=_read_inactive(path, manifest, verify=verify))
    described, references = manifest["references"], None
    if described:
        vectors = read_array(
            path / REFERENCES_FILE, len(entities), dimensions, dtype, verify=verify
        )
        references = References(vectors, float(described["weight"]))
    prototypes = PrototypeTable.from_disk(
        path,
        manifest["prototypes"],
        dimensions,
        dtype,
        len(entities),
        references,
        lexical=manifest["lexical"],
        verify=verify,
    )
    read = replace(read, prototypes=prototypes if dimensions else empty, saved=source)
    if n_verdicts := manifest["verdicts"]:
        verdicts = VerdictTable.from_disk(
            path, n_verdicts, dimensions, dtype, len(entities), verify=verify
        )
        read = replace(read, verdict_table=verdicts)
    index = None
    if manifest["index_saved"] and "index" not in excluded:
        index = _read_index(path / INDEX_DIR, manifest["index"], read)
    if index is None:
        # Parts were excluded or replaced, so the folder is not its source.
        return read
    make_saved = partial(make_index, index.kind, index.settings)
    tuning = manifest["tuning"]
    return replace(
        read, make_saved=make_saved, index=index, is_indexed=True, tuning=tuning, source=source
    )


def _read_inactive(path: Path, manifest: dict[str, Any], *, verify: bool) -> KBSnapshot:
    folder, counts = path / INACTIVE_DIR, manifest["inactive"]
    entities = EntityTable.from_disk(folder, counts["entities"], details=False, verify=verify)
    prototypes = PrototypeTable.from_disk(
        folder,
        counts["prototypes"],
        manifest["dimensions"],
        manifest["dtype"],
        len(entities),
        verify=verify,
    )
    read = KBSnapshot(entities, prototypes, manifest["normalized"])
    if not counts["verdicts"]:
        return read
    width, dtype = manifest["dimensions"], manifest["dtype"]
    n = counts["verdicts"]
    # Where their order is unknown, inactive verdicts are earlier than others.
    verdicts = VerdictTable.from_disk(
        folder, n, width, dtype, len(entities), first=-n, verify=verify
    )
    return replace(read, verdict_table=verdicts)


def _read_index(path: Path, saved: dict[str, Any], wanted: KBSnapshot) -> VectorIndex | None:
    """Return the index of the prototypes saved at `path`, if it is the wanted one."""
    if wanted.make_index is None:
        index = make_index(saved["kind"], saved["settings"], wanted.index_device or "cpu")
    else:
        index = wanted.new_index()
        if not index.owns_vectors:
            saved = {"kind": index.kind, "settings": index.settings}
        if index.kind != saved["kind"] or not index.can_read(saved["settings"]):
            return None

    def damaged(problem: object) -> KrisselError:
        return KrisselError(Errors.K524.format(path=path.parent, problem=f"its index: {problem}"))

    # For example, settings of one kind of index next to the files of another.
    with coded_damage(path, damaged):
        index.from_disk(path, wanted.prototypes.vectors)
    return index
