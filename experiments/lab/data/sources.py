"""The files of publishers, laid out as the projects read them."""

import gzip
import hashlib
import os
import tarfile
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from spacy_krissel.util.atomic import atomic_file, check_file
from spacy_krissel.util.disk import coded_damage
from spacy_krissel.util.limits import UNPACKED
from spacy_krissel.util.zip_file import open_zip

from ..errors import Errors, KrisselError, KrisselWarning, Warnings

PathLike = str | Path
CHUNK = 1 << 20
# What the Finder of macOS adds to a zip: for each file another one of the same name, with its
# attributes.
FINDER = "__MACOSX/"


def check_sources(files: Sequence[str]) -> Path:
    """Check that the environment variable KRISSEL_DATA names a folder with these files in it, and
    return the folder.

    files: paths relative to KRISSEL_DATA

    Raises KrisselError K239.
    """
    folder = os.environ.get("KRISSEL_DATA")
    if not folder:
        raise KrisselError(Errors.K239.format(problem="is not set"))
    if not os.path.isabs(folder):
        raise KrisselError(Errors.K239.format(problem=f"is {folder!r}, which is relative"))
    if not os.path.isdir(folder):
        raise KrisselError(Errors.K239.format(problem=f"is {folder!r}, which is no folder"))
    if missing := [each for each in files if not (Path(folder) / each).exists()]:
        problem = (
            f"is {folder!r}, where {len(missing)} of {len(files)} files are missing: "
            f"{', '.join(missing)}"
        )
        raise KrisselError(Errors.K239.format(problem=problem))
    return Path(folder)


def show_check_sources(folder: Path) -> str:
    return f"Source files: {folder}"


def lay_out(source: PathLike, output: PathLike, *, member: str = "", md5: str = "") -> str:
    """Copy a file, or a file of an archive, to where it is read, all or nothing.

    source: any file; with `member` a .zip, or a .tar compressed or not
    output: file to write; compressed with gzip if it ends in .gz
    member: last parts of the file's path in the archive, such as data/names.tsv
    md5: MD5 of the content that the documented results were measured on; warns KW233 of other
        content

    RETURNS: the content's MD5.
    Raises KrisselError K242 (a damaged archive, or not one such file in it), K055 (it unpacks to
    more than the limit), K026 (what cannot be read or written).
    """
    check_file(output)
    digest, size = hashlib.md5(usedforsecurity=False), 0
    with (
        atomic_file(output) as temporary,
        temporary.open("wb") as raw,
        _opened(Path(source), member) as content,
    ):
        # Without name and time: the same content is the same file.
        packed = (
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if str(output).endswith(".gz") else None
        )
        target = cast(IO[bytes], packed or raw)
        while block := content.read(CHUNK):
            size += len(block)
            UNPACKED.check(size, source, member or "it")
            digest.update(block)
            target.write(block)
        if packed is not None:
            packed.close()
    found = digest.hexdigest()
    if md5 and found != md5:
        warnings.warn(
            Warnings.KW233.format(path=output, found=found, md5=md5), KrisselWarning, stacklevel=2
        )
    return found


def show_lay_out(md5: str, output: PathLike) -> str:
    return f"{output} (MD5 of the content: {md5})"


@contextmanager
def _opened(source: Path, member: str) -> Iterator[IO[bytes]]:
    if not source.is_file():
        raise KrisselError(Errors.K242.format(path=source, problem="there is no such file"))
    with coded_damage(source, lambda problem: _damaged(source, problem)):
        if not member:
            with source.open("rb") as file_:
                yield file_
        elif zipfile.is_zipfile(source):
            with open_zip(source, lambda problem: _damaged(source, problem)) as archive:
                with archive.open(_chosen(archive.namelist(), member, source)) as file_:
                    yield file_
        else:
            with tarfile.open(source) as tar:
                names = {each.name: each for each in tar if each.isfile()}
                with cast(
                    IO[bytes], tar.extractfile(names[_chosen(list(names), member, source)])
                ) as file_:
                    yield file_
                # A checksum of the compressed data is compared at its end.
                while cast(IO[bytes], tar.fileobj).read(CHUNK):
                    pass


def _damaged(source: Path, problem: object) -> KrisselError:
    return KrisselError(Errors.K242.format(path=source, problem=f"it is damaged ({problem})"))


def _chosen(names: Sequence[str], member: str, source: Path) -> str:
    found = [
        each for each in names if f"/{each}".endswith(f"/{member}") and not each.startswith(FINDER)
    ]
    if len(found) != 1:
        problem = f"{len(found)} of its {len(names)} files are a {member!r}"
        raise KrisselError(Errors.K242.format(path=source, problem=problem))
    return found[0]
