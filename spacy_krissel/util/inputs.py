"""Files that others wrote: compressed or not, whole or cut short, and whatever else reading one can meet."""

import codecs
import gzip
import io
import re
import zlib
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Callable, Iterator, List, Tuple, Union, cast

from ..errors import Errors, KrisselError
from .disk import disk_error
from .limits import FILE, RECORD

GZIP_MAGIC = b"\x1f\x8b"
DAMAGED = (EOFError, zlib.error, gzip.BadGzipFile)
CHUNK = 1 << 16
# UTF-32's little-endian mark begins with UTF-16's.
MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
PathLike = Union[str, Path]
Closing = Tuple[bytes, ...]
JSON_CLOSING: Closing = (b"}", b"]")
# No file has as many in a row, but some of a few hundred kB unpack to hundreds of millions.
MAX_BLANK_LINES = 1_000_000


@contextmanager
def coded_reading(path: PathLike, place: Callable[[], str] = str) -> Iterator[None]:
    """Turn whatever the block raises into an error with a code that names the file; its cause is kept.

    place: asked for the place in the file, such as "line 7". Warnings that are errors, missing libraries and running
    out of memory are not about the file, and pass.

    Raises KrisselError K026 (what the disk refuses), K053 (anything else), K054 (nested too deeply).
    """
    try:
        yield
    except (KrisselError, Warning, ImportError, MemoryError):
        raise
    except OSError as error:
        raise disk_error(error, path) from error
    except RecursionError as error:
        raise KrisselError(Errors.K054.format(path=path, place=place() or "it")) from error
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise KrisselError(Errors.K053.format(path=path, place=place() or "reading it", problem=problem)) from error


class InputFile:
    """A file's bytes, decompressed.

    line: the number of the latest line, from 1. last: that line.
    """

    def __init__(self, path: PathLike, stream: IO[bytes]) -> None:
        self.path = path
        self.line = 0
        self.last = b"\n"
        self._stream = stream

    @property
    def ended(self) -> bool:
        """Whether the latest line has its line end, or nothing to lose."""
        return self.last.endswith(b"\n") or not self.last.strip()

    def may_be_cut(self, closing: Closing = ()) -> bool:
        """Whether the latest line lacks its line end, and any of the `closing` bytes that show that it is whole."""
        return not self.ended and not (closing and self.last.rstrip().endswith(closing))

    def read(self, size: int = CHUNK) -> bytes:
        return self._stream.read(size)

    def rewind(self) -> None:
        self._stream.seek(0)

    def read_all(self) -> bytes:
        """Raises KrisselError K055 where it is larger than the limit of files."""
        limit, size = FILE.bytes, 0
        chunks: List[bytes] = []
        while chunk := self._stream.read(CHUNK):
            size += len(chunk)
            if size > limit:
                raise FILE.exceeded(size, self.path, "it", limit)
            chunks.append(chunk)
        return b"".join(chunks)

    def lines(self) -> Iterator[bytes]:
        """The lines, which end at "\\n".

        Raises KrisselError K055 (a line longer than the limit of records), K056 (another encoding than UTF-8), K057
        (lines that end at "\\r"), K059 (too many blank lines).
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
    """Open a file to read it in this block, decompressed when its first bytes say gzip, whatever its name.

    What the block raises has a code, see `coded_reading`. missing: the message where there is no such file. damaged:
    that of damaged compression, with the fields `path`, `line` and `problem`.
    """
    path = Path(path)
    file_ = InputFile(path, io.BytesIO())
    with coded_reading(path, lambda: f"line {file_.line}" if file_.line else ""):
        if not path.is_file():
            raise KrisselError(missing)
        with path.open("rb") as raw:
            compressed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            # Lines of a gzip file alone are read by Python.
            stream = io.BufferedReader(cast(io.RawIOBase, gzip.open(raw)), CHUNK) if compressed else raw
            file_ = InputFile(path, stream)
            try:
                yield file_
            except DAMAGED as error:
                raise KrisselError(damaged.format(path=path, line=file_.line + 1, problem=error)) from error


def check_encoding(start: bytes, path: PathLike) -> None:
    """Raises KrisselError K056 where a file begins as one in UTF-16 or UTF-32 does, with a mark or without."""
    found = next((name for mark, name in MARKS.items() if start.startswith(mark)), "")
    halves = start[:64:2], start[1:64:2]
    if not found and len(start) > 3 and any(halves[0]) != any(halves[1]):
        # Without a mark, every other byte of the Latin letters that it begins with is zero.
        letters = (halves[0].strip(b"\0") or halves[1]).decode("latin-1")
        found = "UTF-16" if "".join(letters.split()).isprintable() else ""
    if found:
        raise KrisselError(Errors.K056.format(path=path, found=found))


def control_character(text: str) -> str:
    """What is wrong with a name or a row of a table that holds a control character other than a tab, or ""."""
    match = _CONTROL.search(text)
    return f"holds the control character U+{ord(match[0]):04X}" if match else ""
