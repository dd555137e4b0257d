"""The files in a tar archive, read as a stream; nothing is ever unpacked to the disk."""

import tarfile
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import IO, Iterator, NamedTuple, Union, cast

from ..errors import Errors, KrisselError
from ..util.inputs import DAMAGED, InputFile, PathLike
from .files import open_binary

CHUNK = 1 << 20
# What comes before a member to hold a long name or more of its properties.
HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
MAX_HEADER = 1 << 20


class Member(NamedTuple):
    """A file of an archive: its name and what it says that its size is. source: `archive!member`, for messages."""

    name: PurePosixPath
    size: int
    content: IO[bytes]
    source: str

    def open(self) -> InputFile:
        return InputFile(self.source, self.content)


@contextmanager
def open_archive(path: PathLike, expected: str) -> Iterator[Iterator[Member]]:
    """The files of an archive in its order, hidden ones left out, for this block; each is read before the next.

    Raises KrisselError K211 (a damaged archive, or one that says it holds more than it does), and what `open_binary`
    raises.
    """
    latest = [""]
    # gzip is opened apart from tar, because tarfile takes a truncated gzip stream for the end of the archive.
    with open_binary(path, expected) as file_:
        try:
            yield _members(file_, latest)
            # A file that is cut short behind its last member shows it only at its end.
            while file_.read(CHUNK):
                pass
        except (*DAMAGED, tarfile.TarError) as error:
            raise KrisselError(Errors.K211.format(path=path, problem=error, member=latest[0])) from error


def _members(file_: InputFile, latest: list) -> Iterator[Member]:
    stream = cast(IO[bytes], _Whole(file_))
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header, errors="replace") as archive:
            for member in archive:
                latest[0] = member.name
                name = PurePosixPath(member.name)
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None and not name.name.startswith("."):
                    yield Member(name, member.size, content, f"{file_.path}!{member.name}")
    except (ValueError, IndexError, OverflowError) as error:
        # Of numbers in headers that are none.
        raise tarfile.ReadError(f"{type(error).__name__}: {error}") from error


class _Header(tarfile.TarInfo):
    """Refuses headers that hold more than names: they would be read whole."""

    @classmethod
    def frombuf(cls, buf: Union[bytes, bytearray], encoding: str, errors: str) -> "_Header":
        found = super().frombuf(buf, encoding, errors)
        if found.type in HEADERS and not 0 <= found.size <= MAX_HEADER:
            raise tarfile.ReadError(f"a header of {found.size} bytes")
        return found


class _Whole:
    """A stream that is not read past its end: where a member says that it is larger than all there is, tarfile would
    look for its end in vain, block by block."""

    def __init__(self, file_: InputFile) -> None:
        self._file = file_
        self._n_empty = 0

    def read(self, size: int) -> bytes:
        found = self._file.read(size)
        self._n_empty = 0 if found else self._n_empty + 1
        # One at the end of an archive without its last blocks, one more for the header that is not there.
        if self._n_empty > 2:
            raise EOFError("it ends before its last file does")
        return found
