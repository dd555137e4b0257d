"""Directories of files with a `manifest.json`, written atomically and checked when read."""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import Errors, KrisselError
from .atomic import check_parent, commit_folder, temporary_folder
from .cache import cache_folder
from .disk import coded_io
from .hashing import MANIFEST as MANIFEST
from .hashing import sha256_file
from .seal import SYSTEM_FILES

# Key of the manifest for the hash of all its other keys.
OWN_HASH = "manifest_sha256"
# Far above the size of any manifest; reading a larger file could exhaust memory.
MAX_BYTES = 256 * 2**20
# File systems record modification times in steps of up to two seconds; a second change within a
# step would go unnoticed.
CLOCK_STEP = 2.0
# Below this many bytes, starting threads takes longer than hashing.
MIN_THREADED_BYTES = 2**20
# The command that creates each kind of directory, for messages about damaged ones.
BUILD_COMMANDS = {
    "ontology store": "python -m spacy krissel ontology",
    "mention shards": "python -m spacy krissel mine",
    "knowledge base": "python -m spacy krissel prototypes",
}
# Integers of NumPy and Arrow go up to more than this.
Count = Annotated[int, Field(ge=0, le=2**53)]


class ManifestSchema(BaseModel):
    """Required keys of a kind of manifest; other keys are allowed."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    def required_files(self) -> Iterable[str]:
        """Return the files that are read, which the manifest must list; "name/" stands for all
        files in a folder.
        """
        return ()


class FileEntry(BaseModel):
    """An entry for a file in a manifest."""

    model_config = ConfigDict(strict=True)
    bytes: Count
    sha256: str


class _Manifest(ManifestSchema):
    files: dict[str, FileEntry]


class _Verified(NamedTuple):
    """Identity and state of a file when it was hashed."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int
    sha256: str


# Files with the recorded hash. A file changed later has another time and is hashed again.
_verified: set[_Verified] = set()
# Folder of the stamps in the cache: an empty file for each large file with the recorded hash, which
# other processes then do not hash again. Not next to the file: its folder may be read-only, is
# packaged, and holds what its manifest lists.
STAMPS = "verified"
# Below this many bytes, hashing takes less than a tenth of a second.
MIN_STAMPED_BYTES = 2**26


@contextmanager
def new_directory(path: str | Path, kind: str, version: int) -> Iterator["DirectoryWriter"]:
    """Write a directory of `kind` at `path` atomically.

    Yields a writer whose `.path` is a temporary sibling and whose `.info` becomes part of the
    manifest. When the block ends without an exception, the manifest is written and the directory is
    renamed to `path`, replacing an earlier one of the same kind. Otherwise nothing is left.

    Raises KrisselError K005 or K028 if `path` holds something else, K026 for a disk error.
    """
    path = Path(path)
    check_replaceable(path, kind)
    with temporary_folder(path) as temporary:
        writer = DirectoryWriter(temporary)
        yield writer
        write_manifest(temporary, kind, version, writer.info)
        commit_folder(temporary, path)


def check_replaceable(path: Path, kind: str) -> None:
    """Raise KrisselError K005 if `path` holds anything but a directory of `kind`, K028 if that
    directory holds foreign files, K026 if it cannot be written.
    """
    check_parent(path)
    with coded_io(path):
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return
        files = _files_of_kind(path, kind)
        if files is None:
            raise KrisselError(Errors.K005.format(path=path, kind=kind))
        # Folders without files belong to nobody.
        known = {MANIFEST, *SYSTEM_FILES}
        found = [
            each.relative_to(path).as_posix()
            for each in path.rglob("*")
            if each.is_file() and each.name not in known
        ]
        if others := sorted(set(found).difference(files)):
            raise KrisselError(
                Errors.K028.format(path=path, n=len(others), first=others[0], kind=kind)
            )


class DirectoryWriter:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.info: dict[str, Any] = {}


def write_manifest(path: Path, kind: str, version: int, info: dict[str, Any]) -> None:
    """Write the manifest, with the size and SHA-256 of all files below `path`."""
    files = {
        file_.relative_to(path).as_posix(): {
            "bytes": file_.stat().st_size,
            "sha256": sha256_file(file_),
        }
        for file_ in sorted(path.rglob("*"))
        if file_.is_file() and file_.name != MANIFEST
    }
    # Use the form that is read back: numeric keys become strings.
    manifest = json.loads(
        json.dumps({"kind": kind, "format_version": version, **info, "files": files})
    )
    manifest[OWN_HASH] = manifest_hash(manifest)
    temporary = path / f".{MANIFEST}.tmp"
    temporary.write_text(
        json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf8"
    )
    os.replace(temporary, path / MANIFEST)


def manifest_hash(manifest: dict[str, Any]) -> str:
    """Return the SHA-256 of all keys of a manifest except this hash."""
    content = {key: value for key, value in manifest.items() if key != OWN_HASH}
    return hashlib.sha256(
        json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


def read_manifest(
    path: str | Path,
    kind: str,
    version: int,
    *,
    make: str | None = None,
    verify: bool = True,
    schema: type[ManifestSchema] = ManifestSchema,
) -> dict[str, Any]:
    """Read and check the manifest of the directory `path`.

    Every file must exist with its recorded size and SHA-256. Hashing takes about 0.7 seconds per
    gigabyte and core: once per process for an unchanged file, and once per machine for a large one
    (`STAMPS`).

    verify: False skips the hashes of files. schema: required keys.

    Raises KrisselError K001 (missing), K002 (not such a directory), K003 (other version), K004
    (damaged), K026 (the disk).
    """
    path = Path(path)
    make = make or BUILD_COMMANDS.get(kind, "the command that made it")
    before = _inode(path)
    try:
        return _read_manifest(path, kind, version, make, verify, schema)
    except KrisselError:
        if _inode(path) == before:
            raise
        # The directory was replaced meanwhile: the manifest and a file are from different versions.
        return _read_manifest(path, kind, version, make, verify, schema)


def _inode(path: Path) -> int:
    return path.stat().st_ino if path.exists() else 0


def _read_manifest(
    path: Path, kind: str, version: int, make: str, verify: bool, schema: type[ManifestSchema]
) -> dict[str, Any]:
    def refused(problem: str) -> KrisselError:
        return KrisselError(Errors.K002.format(path=path, kind=kind, problem=problem, make=make))

    with coded_io(path):
        if not path.exists():
            expected = "a directory with manifest.json"
            raise KrisselError(
                Errors.K001.format(what=kind, path=path, expected=expected, make=make)
            )
        if not (path / MANIFEST).is_file():
            raise refused("is missing")
        if (path / MANIFEST).stat().st_size > MAX_BYTES:
            raise refused(f"has more than {MAX_BYTES} bytes")
        content = (path / MANIFEST).read_bytes()
    try:
        manifest = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise refused(f"cannot be read ({error})") from error
    if not isinstance(manifest, dict) or manifest.get("kind") != kind:
        found = manifest.get("kind") if isinstance(manifest, dict) else type(manifest).__name__
        raise refused(f"describes a {str(found)[:100]!r}")
    found = manifest.get("format_version")
    if type(found) is not int or found != version:
        shown = {"found": repr(found)[:100], "expected": version}
        raise KrisselError(Errors.K003.format(path=path, kind=kind, make=make, **shown))
    try:
        own_hash = manifest_hash(manifest)
        described = _Manifest.model_validate(manifest)
        needs = list(schema.model_validate(manifest).required_files())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))[:200]
        raise refused(f"has a wrong value or none under '{key}' ({first['msg']})") from None
    except (ValueError, RecursionError) as error:
        raise refused(f"cannot be read ({error})") from error
    if manifest.get(OWN_HASH) != own_hash:
        raise refused(f"was changed: its '{OWN_HASH}' does not match")
    _check_names(path, described.files, needs, refused)
    _check_files(path, described.files, verify, make)
    return manifest


def verify_file(path: Path, name: str, described: dict[str, Any], make: str) -> None:
    """Raise KrisselError K004 if the file `name` of the directory `path` lacks the recorded size or
    SHA-256, K026 for a disk error.
    """
    _check_files(path, {name: FileEntry.model_validate(described)}, True, make)


def plain_name(name: str) -> bool:
    """Return whether `name` is a portable relative path to a file within a folder, without `..`."""
    parts = PurePosixPath(name).parts
    return (
        "/".join(parts) == name
        and ".." not in parts
        and not set("\\\0:") & set(name)
        and name != ""
    )


def _check_names(
    path: Path, files: dict[str, FileEntry], needs: Iterable[str], refused: Any
) -> None:
    wrong = [name for name in files if not plain_name(name) or name == MANIFEST]
    if wrong:
        raise refused(f"names a file that cannot be in it ({wrong[0][:200]!r})")
    for need in needs:
        if need.endswith("/"):
            there = (file_ for file_ in (path / need).rglob("*") if not file_.is_dir())
            unknown = [
                name for file_ in there if (name := file_.relative_to(path).as_posix()) not in files
            ]
            if unknown:
                raise refused(f"does not list the file {sorted(unknown)[0]!r}, which is there")
        elif need not in files:
            raise refused(f"does not list the file {need[:200]!r}, which it needs")


def _check_files(path: Path, files: dict[str, FileEntry], verify: bool, make: str) -> None:
    def problem_of(item: tuple[str, FileEntry]) -> str:
        with coded_io(path / item[0]):
            return _problem(path / item[0], item[1], verify)

    # Start with the largest, so that none is left for the end.
    items = sorted(files.items(), key=lambda item: -item[1].bytes)
    if not verify or sum(item.bytes for _, item in items) < MIN_THREADED_BYTES:
        problems = list(map(problem_of, items))
    else:
        # Hashing releases the GIL.
        with ThreadPoolExecutor(min(len(items), os.cpu_count() or 1)) as threads:
            problems = list(threads.map(problem_of, items))
    for name, problem in sorted(zip((name for name, _ in items), problems, strict=True)):
        if problem:
            raise KrisselError(Errors.K004.format(file=name, path=path, problem=problem, make=make))


def _problem(file_: Path, described: FileEntry, verify: bool) -> str:
    """Describe the problem with a file; "" for none."""
    if not file_.is_file():
        return "it is missing"
    found = file_.stat()
    if found.st_size != described.bytes:
        return f"it has {found.st_size} bytes instead of {described.bytes}"
    state = _Verified(
        found.st_dev,
        found.st_ino,
        found.st_size,
        found.st_mtime_ns,
        found.st_ctime_ns,
        described.sha256,
    )
    if not verify or state in _verified:
        return ""
    stamp = _stamp_of(state) if found.st_size >= MIN_STAMPED_BYTES else None
    if stamp is not None and stamp.exists():
        return ""
    began = time.time()
    if sha256_file(file_) != described.sha256:
        return "its SHA-256 is not the recorded one"
    if began - max(found.st_mtime, found.st_ctime) > CLOCK_STEP:
        _verified.add(state)
        if stamp is not None:
            # Without a cache that can be written, each process hashes once.
            with suppress(OSError):
                stamp.parent.mkdir(parents=True, exist_ok=True)
                stamp.touch()
    return ""


def _stamp_of(state: _Verified) -> Path:
    # As text, since `hash` differs between processes.
    return cache_folder() / STAMPS / hashlib.sha256(repr(tuple(state)).encode()).hexdigest()


def _files_of_kind(path: Path, kind: str) -> list[str] | None:
    """Return the files that the manifest of a directory lists; None if it is not of the kind."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf8"))
        return [*manifest["files"]] if manifest["kind"] == kind else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
