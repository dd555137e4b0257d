"""What a re-ranker knows of its candidates: an ontology store of the pipe's own, without what no text shows."""

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Optional, Sequence

from ..ontology.entity import Entity
from ..ontology.store import OntologyStore, write_store
from .storage import pack, unpack


class CandidateTable:
    """Entities by id in a memory-mapped folder, so that a saved pipe needs no ontology."""

    def __init__(self, path: Path, folder: Optional[tempfile.TemporaryDirectory] = None) -> None:
        """path: the folder. folder: a temporary one that holds it, removed with this object.

        Raises KrisselError K001 to K004, K109 (missing, not a store, of another version, damaged).
        """
        self._store = OntologyStore(path)
        self._folder = folder

    @classmethod
    def from_entities(cls, entities: Iterable[Entity]) -> "CandidateTable":
        """Alternative ids go too: candidates bear primary ones."""
        small = (replace(entity, xrefs=(), alt_ids=(), species="", source="") for entity in entities)
        return cls._in_new_folder(lambda path: write_store(small, path))

    @classmethod
    def from_bytes(cls, bytes_data: bytes) -> "CandidateTable":
        """Raises KrisselError K527."""
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

    def get(self, ids: Sequence[str]) -> Dict[str, Entity]:
        """The entities with these ids; those that are not in the table are left out."""
        return {id_: self._store.get(id_) for id_ in ids if id_ in self._store}

    def to_bytes(self) -> bytes:
        return pack(self._store.path)

    def to_disk(self, path: Path) -> None:
        if path.exists():
            if path.samefile(self._store.path):
                return
            # Removed and not written over: another pipe may have mapped what is there.
            shutil.rmtree(path)
        shutil.copytree(self._store.path, path)

    def __reduce__(self) -> Any:
        # Another process maps the same files; the folder stays this one's to remove.
        return CandidateTable, (self._store.path,)
