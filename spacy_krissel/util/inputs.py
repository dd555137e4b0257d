"""Reading files written by others: compressed or not, complete, truncated or damaged."""

import codecs
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from ..errors import Errors, KrisselError
from .disk import disk_error
from .limits import FILE, RECORD

GZIP_MAGIC = b"\x1f\x8b"
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
CHUNK = 1 << 16
# UTF-32's little-endian mark starts with UTF-16's, so it comes first.
MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
TO_CONVERT = ": convert the file with iconv -f WINDOWS-1252 -t UTF-8"
# First bytes of binary formats.
_WORKBOOK = "Save a workbook as CSV UTF-8 in its spreadsheet program"
BINARY = {
    b"PK\x03\x04": (
        "an Excel workbook (.xlsx) or another ZIP archive",
        f"{_WORKBOOK}, or unpack the archive",
    ),
    b"\xd0\xcf\x11\xe0": ("an Excel workbook (.xls) or another old Office file", _WORKBOOK),
    b"%PDF-": ("a PDF", "Get the data in another form"),
    b"BZh": ("bzip2's", "Decompress it"),
    b"\xfd7zXZ\0": ("xz's", "Decompress it"),
    b"\x28\xb5\x2f\xfd": ("Zstandard's", "Decompress it"),
    b"PAR1": ("Parquet", "Save the table as CSV UTF-8"),
    b"ARROW1": ("Arrow", "Save the table as CSV UTF-8"),
    b"SQLite format 3\0": ("an SQLite database", "Save the table as CSV UTF-8"),
}
# Bytes that never occur in text, and the fraction of them at the beginning of a file above which it
# is binary.
_NOT_IN_TEXT = bytes([*range(9), *range(14, 27), *range(28, 32), 127])
MAX_NOT_IN_TEXT, MIN_START, START = 0.1, 32, 1024
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
PathLike = str | Path
Closing = tuple[bytes, ...]
JSON_CLOSING: Closing = (b"}", b"]")
# Real files have fewer consecutive blank lines, but a few hundred kB can unpack to hundreds of
# millions.
MAX_BLANK_LINES = 1_000_000


class CountedFile(io.FileIO):
    """A file that counts the bytes read from all such files in this process."""

    n_read = 0

    def readinto(self, buffer: Any) -> int | None:
        n = super().readinto(buffer)
        CountedFile.n_read += n or 0
        return n


@contextmanager
def coded_reading(path: PathLike, position: Callable[[], str] = str) -> Iterator[None]:
    """Raise errors of the block as coded errors that name the file; the cause is kept.

    position: returns the position in the file, such as "line 7". Warnings raised as errors,
        ImportError and MemoryError are not about the file and pass through.

    Raises KrisselError K026 (the disk), K053 (anything else), K054 (nested too deeply).
    """
    try:
        yield
    except (KrisselError, Warning, ImportError, MemoryError):
        raise
    except OSError as error:
        raise disk_error(error, path) from error
    except RecursionError as error:
        raise KrisselError(Errors.K054.format(path=path, position=position() or "it")) from error
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise KrisselError(
            Errors.K053.format(path=path, position=position() or "reading it", problem=problem)
        ) from error


class InputFile:
    """Decompressed bytes of a file.

    line: the number of the latest line, from 1. last: the latest line.
    """

    def __init__(self, path: PathLike, stream: IO[bytes]) -> None:
        self.path = path
        self.line = 0
        self.last = b"\n"
        self._stream = stream

    @property
    def ended(self) -> bool:
        """Return whether the latest line has its line end, or is blank."""
        return self.last.endswith(b"\n") or not self.last.strip()

    def may_be_truncated(self, closing: Closing = ()) -> bool:
        """Return whether the latest line lacks both a line end and the `closing` bytes of a
        complete line.
        """
        return not self.ended and not (closing and self.last.rstrip().endswith(closing))

    def read(self, size: int = CHUNK) -> bytes:
        return self._stream.read(size)

    def rewind(self) -> None:
        self._stream.seek(0)
        self.line, self.last = 0, b"\n"

    def read_all(self) -> bytes:
        """Read the whole file. Raises KrisselError K055 if it exceeds the limit for files."""
        limit, size = FILE.bytes, 0
        chunks: list[bytes] = []
        while chunk := self._stream.read(CHUNK):
            size += len(chunk)
            if size > limit:
                raise FILE.exceeded(size, self.path, "it", limit)
            chunks.append(chunk)
        return b"".join(chunks)

    def lines(self) -> Iterator[bytes]:
        r"""Yield the lines, ending in "\n".

        Raises KrisselError K055 (a line exceeds the limit for records), K056 (UTF-16 without a byte
        order mark), K057 (lines end in "\r"), K059 (too many blank lines), K060 (not text).
        """
        limit, blank = RECORD.bytes, 0
        readline = partial(self._stream.readline, limit + 1)
        raw, following = readline(), None
        check_encoding(raw, self.path)
        if b"\r" in raw.rstrip(b"\r\n"):
            following = b"" if len(raw) > limit else readline()
            if not following:
                raise KrisselError(Errors.K057.format(path=self.path, count=raw.count(b"\r")))
        while raw:
            self.line += 1
            if len(raw) > limit:
                raise RECORD.exceeded(len(raw), self.path, f"line {self.line}", limit)
            blank = 0 if raw.strip() else blank + 1
            if blank > MAX_BLANK_LINES:
                raise KrisselError(Errors.K059.format(path=self.path, count=blank, line=self.line))
            self.last = raw
            yield raw
            raw, following = readline() if following is None else following, None


@contextmanager
def open_input(path: PathLike, missing: str, damaged: str) -> Iterator[InputFile]:
    """Open a file, decompressed if its first bytes are those of gzip.

    Text in UTF-16 or UTF-32 with a byte order mark is read as UTF-8. XML is passed on unchanged.

    missing: message for a missing file. damaged: message for damaged compression, with fields
        `path`, `line` and `problem`. Errors of the block get codes (`coded_reading`).
    """
    path = Path(path)
    file_ = InputFile(path, io.BytesIO())
    with coded_reading(path, lambda: f"line {file_.line}" if file_.line else ""):
        if not path.is_file():
            raise KrisselError(missing)
        with io.BufferedReader(CountedFile(path), CHUNK) as raw:
            compressed = raw.read(2) == GZIP_MAGIC

            def unpacked() -> Any:
                raw.seek(0)
                return gzip.open(raw) if compressed else raw

            try:
                start = unpacked().read(START)
            except DAMAGED:
                # The error is raised again when the file is read.
                start = b""
            try:
                # Buffered, because Python reads the lines of a gzip file slowly.
                stream = (
                    io.BufferedReader(cast(io.RawIOBase, unpacked()), CHUNK)
                    if compressed
                    else unpacked()
                )
                file_ = InputFile(path, _as_utf8(stream, start))
                yield file_
            except DAMAGED as error:
                raise KrisselError(
                    damaged.format(path=path, line=file_.line + 1, problem=error)
                ) from error


class _Recoded(io.RawIOBase):
    """A stream in another encoding as UTF-8, without its byte order mark. It can only seek to its
    beginning.
    """

    def __init__(self, stream: IO[bytes], encoding: str) -> None:
        self._stream, self._make = stream, codecs.getincrementaldecoder(encoding)
        self.seek(0)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET and not offset:
            self._stream.seek(0)
            self._decoder, self._waiting, self._at = self._make(), b"", 0
        elif whence != io.SEEK_CUR or offset:
            raise io.UnsupportedOperation("seek")
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read bytes. Raises EOFError for invalid bytes, as for damaged compression."""
        data = b" "
        while data and not self._waiting:
            data = self._stream.read(CHUNK)
            try:
                self._waiting = self._decoder.decode(data, final=not data).encode("utf8")
            except UnicodeDecodeError as error:
                raise EOFError(f"not {error.encoding}: {error.reason}") from error
        n = min(len(buffer), len(self._waiting))
        buffer[:n], self._waiting = self._waiting[:n], self._waiting[n:]
        self._at += n
        return n


def _as_utf8(stream: IO[bytes], start: bytes) -> IO[bytes]:
    """Return the stream, recoded as UTF-8 if it starts with another byte order mark and is not
    XML."""
    encoding = next((name for mark, name in MARKS.items() if start.startswith(mark)), "")
    if not encoding or start.decode(encoding, errors="ignore").lstrip().startswith("<"):
        return stream
    return io.BufferedReader(_Recoded(stream, encoding), CHUNK)


def not_utf8(raw: bytes, error: UnicodeDecodeError) -> str:
    """Describe where bytes are not UTF-8, how Windows-1252 decodes them, and how to convert
    them."""
    problem = f"not UTF-8 (byte {error.start + 1} is 0x{raw[error.start]:02x})"
    try:
        text = raw.decode("cp1252")
    except UnicodeDecodeError:
        return problem
    # Each character is one byte.
    found = text[max(0, error.start - 9) : error.start + 10].strip()
    return f"{problem}; in Windows-1252 it reads {found!r}{TO_CONVERT}"


def check_encoding(start: bytes, path: PathLike) -> None:
    """Raise KrisselError K056 for the start of a UTF-16 or UTF-32 file, and K060 for a binary
    file."""
    for magic, (found, advice) in BINARY.items():
        if start.startswith(magic):
            raise KrisselError(Errors.K060.format(path=path, found=found, advice=advice))
    found = next((name for mark, name in MARKS.items() if start.startswith(mark)), "")
    halves = start[:64:2], start[1:64:2]
    if not found and len(start) > 3 and any(halves[0]) != any(halves[1]):
        # Without a byte order mark, every other byte of Latin letters is zero.
        letters = (halves[0].strip(b"\0") or halves[1]).decode("latin-1")
        found = "UTF-16" if "".join(letters.split()).isprintable() else ""
    if found:
        raise KrisselError(Errors.K056.format(path=path, found=found))
    n = len(start[:START])
    if (
        n >= MIN_START
        and n - len(start[:START].translate(None, _NOT_IN_TEXT)) > MAX_NOT_IN_TEXT * n
    ):
        raise KrisselError(
            Errors.K060.format(path=path, found="binary data", advice="Check the path")
        )


def control_character(text: str) -> str:
    """Describe the first control character of a text other than tab; "" for none."""
    match = _CONTROL.search(text)
    return f"holds the control character U+{ord(match[0]):04X}" if match else ""
