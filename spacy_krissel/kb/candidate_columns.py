"""Entities that a re-ranker describes its candidates by: an ontology store owned by the pipe."""

import mmap
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import Errors
from ..ontology.entity import Entity
from ..ontology.store import OntologyStore, write_store
from ..util.atomic import commit_folder, copy_folder, is_hard_linking, temporary_folder
from .directory import Source, pack_files, unpack


class CandidateTable:
    """Entities by id in a memory-mapped folder, so that a saved pipe needs no ontology.

    The folder may be moved, removed or replaced once the table exists: all is read from the maps.
    """

    def __init__(self, path: Path, folder: tempfile.TemporaryDirectory[str] | None = None) -> None:
        """Open the folder `path`.

        folder: a temporary folder that contains `path`, removed with this object.

        Raises KrisselError K001 to K004, K109 (missing, not a store, of another version, damaged).
        """
        self._store = OntologyStore(path)
        self._folder = folder
        self._source = Source.of(Path(path))
        self._files = {
            file_.name: _mapped(file_) for file_ in sorted(Path(path).iterdir()) if file_.is_file()
        }

    @classmethod
    def from_entities(cls, entities: Iterable[Entity]) -> "CandidateTable":
        """Build a table of these entities, without alternative ids: candidates have primary ids."""
        small = (
            replace(entity, xrefs=(), alt_ids=(), species="", source="") for entity in entities
        )
        return cls._in_new_folder(lambda path: write_store(small, path))

    @classmethod
    def of(cls, ontology: OntologyStore, kb: Any) -> "CandidateTable":
        """Return a table of the entities in `kb`.

        If they are at least half of the ontology, the whole ontology is mapped instead of a copy.
        """
        if 2 * len(kb) >= len(ontology):
            return cls(ontology.path)
        return cls.from_entities(entity for entity in ontology if entity.id in kb)

    @classmethod
    def from_bytes(cls, bytes_data: bytes) -> "CandidateTable":
        """Read a table from bytes. Raises KrisselError K527."""
        return cls._in_new_folder(lambda path: unpack(bytes_data, path))

    @classmethod
    def _in_new_folder(cls, write: Callable[[Path], Any]) -> "CandidateTable":
        folder = tempfile.TemporaryDirectory(prefix="krissel-", ignore_cleanup_errors=True)
        path = Path(folder.name) / "entities"
        path.mkdir()
        write(path)
        return cls(path, folder)

    def __len__(self) -> int:
        return len(self._store)

    def get(self, ids: Sequence[str]) -> dict[str, Entity]:
        """Return the entities with these ids; ids that are not in the table are left out."""
        return {id_: self._store.get(id_) for id_ in ids if id_ in self._store}

    def to_bytes(self) -> bytes:
        return pack_files(self._files)

    def to_disk(self, path: Path) -> None:
        if not self._source._replace(path=path).problem():
            return
        if is_hard_linking() and not self._source.problem():
            copy_folder(self._source.path, path)
            return
        # Renamed instead of overwritten: another pipe may have mapped the folder at `path`.
        with temporary_folder(path) as temporary:
            for name, content in self._files.items():
                (temporary / name).write_bytes(content)
            commit_folder(temporary, path)

    def __reduce__(self) -> Any:
        """Pickle by path if a saved folder still holds the same, for another process to map; else
        by bytes.
        """
        if self._folder is None and not self._source.problem():
            return _open, (self._source,)
        return CandidateTable.from_bytes, (self.to_bytes(),)

    def __deepcopy__(self, memo: Any) -> "CandidateTable":
        return self  # immutable


def _mapped(path: Path) -> memoryview:
    with path.open("rb") as file_:
        # An empty file cannot be mapped.
        is_empty = not os.fstat(file_.fileno()).st_size
        return memoryview(
            b"" if is_empty else mmap.mmap(file_.fileno(), 0, access=mmap.ACCESS_READ)
        )


def _open(source: Source) -> CandidateTable:
    source.check(Errors.K560)
    return CandidateTable(source.path)
