"""Folder of a saved knowledge base as bytes, and its identity."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import srsly

from ..errors import Errors, KrisselError
from ..util.disk import coded_io
from ..util.manifest import MANIFEST, plain_name

# msgpack refuses a byte string of 4 GiB.
CHUNK_BYTES = 2**30
KIND = "knowledge base"


class Source(NamedTuple):
    """A folder with the same contents as a knowledge base in memory, and its manifest's SHA-256.

    The manifest contains the SHA-256 of every file, so its hash identifies them all.
    """

    path: Path
    digest: str

    @classmethod
    def of(cls, path: Path) -> "Source":
        """Return the source at `path`. Raises KrisselError K026 when the disk refuses."""
        with coded_io(path):
            return cls(path.absolute(), hashlib.sha256((path / MANIFEST).read_bytes()).hexdigest())

    def problem(self) -> str:
        """Return a message if the folder was changed since, else ""."""
        try:
            content = (self.path / MANIFEST).read_bytes()
            if hashlib.sha256(content).hexdigest() != self.digest:
                return "was changed"
            is_whole = all(
                (self.path / name).exists() for name in srsly.json_loads(content)["files"]
            )
            return "" if is_whole else "lost files"
        except OSError:
            return "was removed"

    def check(self, error: str) -> None:
        """Raise KrisselError with this message if the folder was changed."""
        if problem := self.problem():
            raise KrisselError(error.format(path=self.path, problem=problem))


def pack(directory: Path) -> bytes:
    """Return all files below `directory` as bytes."""
    files = (file_ for file_ in sorted(directory.rglob("*")) if file_.is_file())
    return pack_files(
        {file_.relative_to(directory).as_posix(): memoryview(file_.read_bytes()) for file_ in files}
    )


def pack_files(files: Mapping[str, memoryview]) -> bytes:
    """Return files by name, in memory or mapped, as bytes."""
    pieces = {
        name: [
            content[start : start + CHUNK_BYTES] for start in range(0, len(content), CHUNK_BYTES)
        ]
        for name, content in files.items()
    }
    return srsly.msgpack_dumps({"kind": KIND, "files": pieces})


def unpack(bytes_data: bytes, directory: Path) -> None:
    """Write the files in the bytes of `pack` below `directory`.

    Raises KrisselError K527, K026 (the disk refuses).
    """
    try:
        message = srsly.msgpack_loads(bytes_data)
    except MemoryError:
        raise
    except Exception as error:  # msgpack's errors have no common base class
        raise KrisselError(Errors.K527.format(problem=f"cannot be read ({error})")) from None
    if (
        not isinstance(message, dict)
        or message.get("kind") != KIND
        or not isinstance(message.get("files"), dict)
    ):
        raise KrisselError(Errors.K527.format(problem="have other contents"))
    for name, pieces in message["files"].items():
        if not isinstance(name, str) or not plain_name(name):
            raise KrisselError(
                Errors.K527.format(
                    problem=f"name a file outside their folder ({str(name)[:200]!r})"
                )
            )
        if not isinstance(pieces, list) or not all(isinstance(piece, bytes) for piece in pieces):
            raise KrisselError(Errors.K527.format(problem=f"have no bytes for the file '{name}'"))
        file_ = directory / name
        with coded_io(file_):
            file_.parent.mkdir(parents=True, exist_ok=True)
            with file_.open("wb") as out:
                out.writelines(pieces)
