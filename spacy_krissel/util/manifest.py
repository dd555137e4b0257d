"""Directories that are whole or absent: files plus one `manifest.json`, written aside and renamed when complete."""

import hashlib
import json
import os
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Dict, Iterator, Optional, Union

from ..errors import Errors, KrisselError
from .beside import beside, put_in_place

MANIFEST = "manifest.json"
# Hashing costs about a second a gigabyte: files above this size are checked by size alone unless `verify=True`.
HASH_LIMIT = 64 * 2**20
# What makes each kind of directory, named in every message about a damaged one.
MAKERS = {
    "ontology store": "python -m spacy krissel ontology",
    "mention shards": "python -m spacy krissel mine",
    "knowledge base": "python -m spacy krissel prototypes",
}


def sha256_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file_:
        while block := file_.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def content_hash(path: Path) -> str:
    """What differs after the file or folder `path` was made anew with another content.

    The SHA-256 of a file; of the manifest of a folder that has one; of names and contents of another folder's files;
    "" where there is nothing.
    """
    if path.is_dir() and not (path / MANIFEST).is_file():
        files = sorted(file_ for file_ in path.rglob("*") if file_.is_file())
        hashes = [[file_.relative_to(path).as_posix(), sha256_file(file_)] for file_ in files]
        return hashlib.sha256(json.dumps(hashes).encode("utf8")).hexdigest()
    if path.is_dir():
        path = path / MANIFEST
    return sha256_file(path) if path.is_file() else ""


@contextmanager
def new_directory(path: Union[str, Path], kind: str, version: int) -> Iterator["DirectoryWriter"]:
    """Write a directory of `kind` at `path`, all or nothing.

    Yields a writer whose `.path` is a temporary sibling directory and whose `.info` becomes part of the manifest. When
    the block ends without an exception, the manifest is written and the directory renamed to `path`, replacing an
    earlier one of the same kind; otherwise nothing is left behind. What a killed process left is removed.

    Raises KrisselError K005 when `path` holds something else.
    """
    path = Path(path)
    check_replaceable(path, kind)
    with beside(path) as temporary:
        writer = DirectoryWriter(temporary)
        yield writer
        write_manifest(temporary, kind, version, writer.info)
        put_in_place(temporary, path)


def check_replaceable(path: Path, kind: str) -> None:
    """Raises KrisselError K005 when something else than a directory of `kind` is at `path`."""
    if path.exists() and (not path.is_dir() or (any(path.iterdir()) and not _is_kind(path, kind))):
        raise KrisselError(Errors.K005.format(path=path, kind=kind))


class DirectoryWriter:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.info: Dict[str, Any] = {}


def write_manifest(path: Path, kind: str, version: int, info: Dict[str, Any]) -> None:
    """Describe all files below `path` (size, SHA-256) in its manifest, written last and by rename."""
    files = {
        file_.relative_to(path).as_posix(): {"bytes": file_.stat().st_size, "sha256": sha256_file(file_)}
        for file_ in sorted(path.rglob("*"))
        if file_.is_file() and file_.name != MANIFEST
    }
    manifest = {"kind": kind, "format_version": version, **info, "files": files}
    temporary = path / f".{MANIFEST}.tmp"
    temporary.write_text(json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf8")
    os.replace(temporary, path / MANIFEST)


def read_manifest(
    path: Union[str, Path], kind: str, version: int, *, make: Optional[str] = None, verify: bool = False
) -> Dict[str, Any]:
    """Read and check the manifest of the directory `path`.

    Every file must exist with its recorded size; files up to `HASH_LIMIT` bytes (all of them with `verify`) must also
    have their recorded SHA-256.

    Raises KrisselError K001 (missing), K002 (not such a directory), K003 (other version), K004 (damaged).
    """
    path = Path(path)
    make = make or MAKERS.get(kind, "the command that made it")
    if not path.exists():
        expected = "a directory with manifest.json"
        raise KrisselError(Errors.K001.format(what=kind, path=path, expected=expected, make=make))
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf8"))
    except (OSError, ValueError) as error:
        problem = f"cannot be read ({error})"
        raise KrisselError(Errors.K002.format(path=path, kind=kind, problem=problem, make=make)) from error
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        found = manifest.get("kind") if isinstance(manifest, dict) else type(manifest).__name__
        raise KrisselError(Errors.K002.format(path=path, kind=kind, problem=f"describes a {found!r}", make=make))
    if manifest.get("format_version") != version:
        raise KrisselError(
            Errors.K003.format(path=path, kind=kind, found=manifest.get("format_version"), expected=version, make=make)
        )
    files: Any = manifest.get("files")
    described = isinstance(files, dict) and all(isinstance(item, dict) for item in files.values())
    if not described or not all({"bytes", "sha256"} <= set(item) for item in files.values()):
        raise KrisselError(Errors.K002.format(path=path, kind=kind, problem="does not describe its files", make=make))
    for name, expected in files.items():
        file_ = path / name
        problem = ""
        if not file_.is_file():
            problem = "it is missing"
        elif file_.stat().st_size != expected["bytes"]:
            problem = f"it has {file_.stat().st_size} bytes instead of {expected['bytes']}"
        elif (verify or expected["bytes"] <= HASH_LIMIT) and sha256_file(file_) != expected["sha256"]:
            problem = "its SHA-256 is not the recorded one"
        if problem:
            raise KrisselError(Errors.K004.format(file=name, path=path, problem=problem, make=make))
    return manifest


def _is_kind(path: Path, kind: str) -> bool:
    try:
        return json.loads((path / MANIFEST).read_text(encoding="utf8")).get("kind") == kind
    except (OSError, ValueError, AttributeError):
        return False
