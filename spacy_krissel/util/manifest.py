"""Directories of files plus one `manifest.json`, written atomically and checked when read."""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import Errors, KrisselError
from .atomic import check_parent, commit_folder, temporary_folder
from .disk import coded_io
from .outputs import OF_SYSTEMS

MANIFEST = "manifest.json"
# The manifest's key for the hash of all its other keys.
OWN_HASH = "manifest_sha256"
# Far above the largest manifest; a larger file could fill the memory.
MAX_BYTES = 256 * 2**20
# File systems record change times in steps of up to two seconds; a second change within a step would go unnoticed.
CLOCK_STEP = 2.0
# Below this many bytes, starting threads takes longer than hashing.
THREADS_WORTH = 2**20
# The command that makes each kind of directory, for messages about damaged ones.
MAKERS = {
    "ontology store": "python -m spacy krissel ontology",
    "mention shards": "python -m spacy krissel mine",
    "knowledge base": "python -m spacy krissel prototypes",
}
# NumPy's and Arrow's integers end above it.
Count = Annotated[int, Field(ge=0, le=2**53)]


class Shape(BaseModel):
    """Required keys of a kind of manifest; other keys are allowed."""

    model_config = ConfigDict(strict=True, extra="allow", allow_inf_nan=False)

    def needs(self) -> Iterable[str]:
        """The files that are read, which the manifest must list; "name/" stands for all files in a folder."""
        return ()


class Described(BaseModel):
    """A file in a manifest."""

    model_config = ConfigDict(strict=True)
    bytes: Count
    sha256: str


class _Manifest(Shape):
    files: dict[str, Described]


class _Verified(NamedTuple):
    """A file in the state in which it was hashed."""

    device: int
    inode: int
    size: int
    modified: int
    changed: int
    sha256: str


# Files with the recorded hash. One changed later has another time and is hashed again.
_verified: set[_Verified] = set()


def sha256_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file_:
        while block := file_.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def content_hash(path: Path) -> str:
    """A hash that changes with the content of the file or folder `path`: the SHA-256 of a file, of the manifest of a
    folder that has one, else of the names and contents of its files; "" where there is nothing."""
    if (path / MANIFEST).is_file():
        path = path / MANIFEST
    if path.is_dir():
        files = sorted(file_ for file_ in path.rglob("*") if file_.is_file())
        hashes = [[file_.relative_to(path).as_posix(), sha256_file(file_)] for file_ in files]
        return hashlib.sha256(json.dumps(hashes).encode("utf8")).hexdigest()
    return sha256_file(path) if path.is_file() else ""


@contextmanager
def new_directory(path: str | Path, kind: str, version: int) -> Iterator["DirectoryWriter"]:
    """Write a directory of `kind` at `path` atomically.

    Yields a writer whose `.path` is a temporary sibling and whose `.info` becomes part of the manifest. When the block
    ends without an exception, the manifest is written and the directory renamed to `path`, replacing an earlier one of
    the same kind; otherwise nothing is left.

    Raises KrisselError K005 or K028 when `path` holds something else, K026 for an error of the disk.
    """
    path = Path(path)
    check_replaceable(path, kind)
    with temporary_folder(path) as temporary:
        writer = DirectoryWriter(temporary)
        yield writer
        write_manifest(temporary, kind, version, writer.info)
        commit_folder(temporary, path)


def check_replaceable(path: Path, kind: str) -> None:
    """Raises KrisselError K005 when `path` holds anything but a directory of `kind`, K028 when somebody put something
    into that, K026 where it cannot be written."""
    check_parent(path)
    with coded_io(path):
        if not path.exists() or (path.is_dir() and not any(path.iterdir())):
            return
        files = _files_of_kind(path, kind)
        if files is None:
            raise KrisselError(Errors.K005.format(path=path, kind=kind))
        # Folders without a file are no one's.
        known = {MANIFEST, *OF_SYSTEMS}
        found = [
            each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file() and each.name not in known
        ]
        if others := sorted(set(found).difference(files)):
            raise KrisselError(Errors.K028.format(path=path, n=len(others), first=others[0], kind=kind))


class DirectoryWriter:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.info: dict[str, Any] = {}


def write_manifest(path: Path, kind: str, version: int, info: dict[str, Any]) -> None:
    """Write the manifest, with size and SHA-256 of all files below `path`."""
    files = {
        file_.relative_to(path).as_posix(): {"bytes": file_.stat().st_size, "sha256": sha256_file(file_)}
        for file_ in sorted(path.rglob("*"))
        if file_.is_file() and file_.name != MANIFEST
    }
    # As it will be read: numeric keys become strings.
    manifest = json.loads(json.dumps({"kind": kind, "format_version": version, **info, "files": files}))
    manifest[OWN_HASH] = manifest_hash(manifest)
    temporary = path / f".{MANIFEST}.tmp"
    temporary.write_text(json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf8")
    os.replace(temporary, path / MANIFEST)


def manifest_hash(manifest: dict[str, Any]) -> str:
    """The SHA-256 of all keys of a manifest but this hash."""
    content = {key: value for key, value in manifest.items() if key != OWN_HASH}
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_manifest(
    path: str | Path,
    kind: str,
    version: int,
    *,
    make: str | None = None,
    verify: bool = True,
    shape: type[Shape] = Shape,
) -> dict[str, Any]:
    """Read and check the manifest of the directory `path`.

    Every file must exist with its recorded size and SHA-256. Hashing takes about 0.7 seconds per gigabyte and core,
    once per process for an unchanged file.

    verify: False skips the hashes of files. shape: required keys.

    Raises KrisselError K001 (missing), K002 (not such a directory), K003 (other version), K004 (damaged), K026 (the
    disk).
    """
    path = Path(path)
    make = make or MAKERS.get(kind, "the command that made it")
    before = _inode(path)
    try:
        return _read_manifest(path, kind, version, make, verify, shape)
    except KrisselError:
        if _inode(path) == before:
            raise
        # Replaced meanwhile: the manifest was of one directory and a file of the other.
        return _read_manifest(path, kind, version, make, verify, shape)


def _inode(path: Path) -> int:
    return path.stat().st_ino if path.exists() else 0


def _read_manifest(path: Path, kind: str, version: int, make: str, verify: bool, shape: type[Shape]) -> dict[str, Any]:
    def refused(problem: str) -> KrisselError:
        return KrisselError(Errors.K002.format(path=path, kind=kind, problem=problem, make=make))

    with coded_io(path):
        if not path.exists():
            expected = "a directory with manifest.json"
            raise KrisselError(Errors.K001.format(what=kind, path=path, expected=expected, make=make))
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
        needs = list(shape.model_validate(manifest).needs())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:200]
        raise refused(f"has a wrong value or none under '{place}' ({first['msg']})") from None
    except (ValueError, RecursionError) as error:
        raise refused(f"cannot be read ({error})") from error
    if manifest.get(OWN_HASH) != own_hash:
        raise refused(f"was changed: its '{OWN_HASH}' does not match")
    _check_names(path, described.files, needs, refused)
    _check_files(path, described.files, verify, make)
    return manifest


def verify_file(path: Path, name: str, described: dict[str, Any], make: str) -> None:
    """Raises KrisselError K004 when the file `name` of the directory `path` lacks the recorded size or SHA-256, K026
    for an error of the disk."""
    _check_files(path, {name: Described.model_validate(described)}, True, make)


def plain_name(name: str) -> bool:
    """Whether `name` is a portable relative path to a file within a folder, without `..`."""
    parts = PurePosixPath(name).parts
    return "/".join(parts) == name and ".." not in parts and not set("\\\0:") & set(name) and name != ""


def _check_names(path: Path, files: dict[str, Described], needs: Iterable[str], refused: Any) -> None:
    wrong = [name for name in files if not plain_name(name) or name == MANIFEST]
    if wrong:
        raise refused(f"names a file that cannot be in it ({wrong[0][:200]!r})")
    for need in needs:
        if need.endswith("/"):
            there = (file_ for file_ in (path / need).rglob("*") if not file_.is_dir())
            unknown = [name for file_ in there if (name := file_.relative_to(path).as_posix()) not in files]
            if unknown:
                raise refused(f"does not list the file {sorted(unknown)[0]!r}, which is there")
        elif need not in files:
            raise refused(f"does not list the file {need[:200]!r}, which it needs")


def _check_files(path: Path, files: dict[str, Described], verify: bool, make: str) -> None:
    def problem_of(item: tuple[str, Described]) -> str:
        with coded_io(path / item[0]):
            return _problem(path / item[0], item[1], verify)

    # The largest first, so that none is left for the end.
    items = sorted(files.items(), key=lambda item: -item[1].bytes)
    if not verify or sum(item.bytes for _, item in items) < THREADS_WORTH:
        problems = list(map(problem_of, items))
    else:
        # Hashing releases the lock of the interpreter.
        with ThreadPoolExecutor(min(len(items), os.cpu_count() or 1)) as threads:
            problems = list(threads.map(problem_of, items))
    for name, problem in sorted(zip((name for name, _ in items), problems, strict=True)):
        if problem:
            raise KrisselError(Errors.K004.format(file=name, path=path, problem=problem, make=make))


def _problem(file_: Path, described: Described, verify: bool) -> str:
    """The problem with a file, "" for none."""
    if not file_.is_file():
        return "it is missing"
    found = file_.stat()
    if found.st_size != described.bytes:
        return f"it has {found.st_size} bytes instead of {described.bytes}"
    state = _Verified(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns, described.sha256)
    if not verify or state in _verified:
        return ""
    began = time.time()
    if sha256_file(file_) != described.sha256:
        return "its SHA-256 is not the recorded one"
    if began - max(found.st_mtime, found.st_ctime) > CLOCK_STEP:
        _verified.add(state)
    return ""


def _files_of_kind(path: Path, kind: str) -> list[str] | None:
    """The files that the manifest of a directory lists; None where it is not of the kind."""
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf8"))
        return [*manifest["files"]] if manifest["kind"] == kind else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
