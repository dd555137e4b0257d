"""Lines and bytes of files that may be compressed, truncated or binary, and the members of
archives.
"""

import io
import json
import re
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, TypeVar, cast

from ..errors import Errors, KrisselError
from ..util.inputs import DAMAGED, Closing, InputFile, check_encoding, not_utf8, open_input
from .report import CorpusReport

BOM = "\ufeff"
PathLike = str | Path
Record = TypeVar("Record")
_SURROGATE = re.compile("[\ud800-\udfff]")


def open_binary(path: PathLike, expected: str) -> AbstractContextManager[InputFile]:
    """Open a file to read it in this block, see `open_input`.

    Raises KrisselError K201 (no such file), K202 (damaged compression), and what `open_input`
    raises.
    """
    return open_input(path, Errors.K201.format(path=path, expected=expected), Errors.K202)


@contextmanager
def open_lines(
    path: PathLike,
    expected: str = "a text file",
    *,
    report: CorpusReport,
    skip: Callable[[int, str], None] | None = None,
    closing: Closing = (),
    content: bytes | None = None,
) -> Iterator[Iterator[tuple[int, str]]]:
    r"""Open the numbered lines of a UTF-8 file, from 1, without line ends, for this block; `.gz` is
    decompressed.

    Lines end at "\n" or "\r\n" only: other characters that Python counts as line ends may occur
    inside a text.

    report: counts a last line without a line end, `unended_files`.
    skip: called with the number of a line that is not UTF-8 and the problem; the line is left out.
        None: raise an error.
    closing: possible ends of a complete line without a line end, such as `JSON_CLOSING`.
    content: content of a file that is already in memory.

    Raises KrisselError K201 (no file), K202 (truncated or damaged gzip), K203 (not UTF-8), K206
    (the last line is a bad record and has no line end), and what `open_input` and `InputFile.lines`
    raise.
    """
    in_memory = nullcontext(InputFile(path, io.BytesIO(content or b"")))
    with open_binary(path, expected) if content is None else in_memory as file_:
        yield decoded_lines(file_, skip)
        if not file_.may_be_truncated(closing):
            return
        if report.last_bad[:2] == (str(path), file_.line):
            raise KrisselError(
                Errors.K206.format(path=path, line=file_.line, problem=report.last_bad[2])
            )
        report.record_issue("unended_files", str(path), file_.line)


def read_records(
    path: PathLike,
    parse: Callable[[str, int], Record],
    report: CorpusReport,
    *,
    expected: str,
    what: str = "",
    first_error: str = "",
    closing: Closing = (),
    skip_undecoded: bool = False,
    content: bytes | None = None,
) -> Iterator[Record]:
    """Yield `parse(line, number)` of each line that is not blank; a line for which it raises
    ValueError is a bad record.

    what: the name of a record; a file without one is refused (K204).
    first_error: error for a bad first line, with fields `path`, `line`, `problem` and `found`.
    skip_undecoded: count a line that is not UTF-8 as a bad record instead of an error.
    content: content of a file that is already in memory.

    Raises what `open_lines` raises.
    """
    number, found, first_bad = 0, False, ""

    def bad(number: int, problem: str) -> None:
        nonlocal first_bad
        first_bad = first_bad or f" that can be used (line {number}: {problem})"
        report.record_issue("bad_records", str(path), number, problem)

    skip = bad if skip_undecoded else None
    with open_lines(
        path, expected, report=report, skip=skip, closing=closing, content=content
    ) as lines:
        for number, line in lines:
            if not line.strip():
                continue
            try:
                record = parse(line, number)
            except (ValueError, RecursionError) as error:
                problem = str(error)[:80]
                if first_error and not (found or first_bad):
                    message = first_error.format(
                        path=path, line=number, problem=problem, found=line[:80]
                    )
                    raise KrisselError(message) from None
                bad(number, problem)
                continue
            found = True
            yield record
    if what and not found:
        raise KrisselError(
            Errors.K204.format(path=path, what=what + first_bad, line=number, expected=expected)
        )


def json_object(line: str) -> dict[str, Any]:
    """Parse a JSON object. Raises ValueError for anything else."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(record, dict):
        raise ValueError("not a JSON object")
    return record


def has_surrogate(text: str) -> bool:
    """Return whether a text has a lone surrogate, which JSON can represent but files and string
    stores cannot.
    """
    return not text.isascii() and _SURROGATE.search(text) is not None


def decoded_lines(
    file_: InputFile, skip: Callable[[int, str], None] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the lines with their numbers, see `open_lines`."""
    for raw in file_.lines():
        try:
            line = raw.decode("utf8")
        except UnicodeDecodeError as error:
            if skip is None:
                raise _not_utf8(raw, file_.path, file_.line, error) from error
            skip(file_.line, not_utf8(raw, error))
            continue
        if file_.line == 1:
            line = line.removeprefix(BOM)
        yield file_.line, line.removesuffix("\n").removesuffix("\r")


def decode_text(raw: bytes, path: PathLike) -> str:
    """Decode a whole file character for character, including a byte order mark of UTF-8, since
    offsets count them.

    Raises KrisselError K203 if it is not UTF-8, K056 if it is UTF-16 or UTF-32, K060 if it is
    binary.
    """
    check_encoding(raw, path)
    try:
        return raw.decode("utf8")
    except UnicodeDecodeError as error:
        raise _not_utf8(raw, path, 1, error) from error


def _not_utf8(raw: bytes, path: PathLike, line: int, error: UnicodeDecodeError) -> KrisselError:
    """Return the error for bytes that are not UTF-8. line: the first line of `raw`."""
    line += raw.count(b"\n", 0, error.start)
    return KrisselError(Errors.K203.format(path=path, line=line, problem=not_utf8(raw, error)))


CHUNK = 1 << 20
# Headers that precede a member, for a long name or further properties.
HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
MAX_HEADER = 1 << 20


class _Member(NamedTuple):
    """A file of an archive: its name and its stated size. source: `archive!member`, for
    messages."""

    name: PurePosixPath
    size: int
    content: IO[bytes]
    source: str


@contextmanager
def open_archive(path: PathLike, expected: str) -> Iterator[Iterator[_Member]]:
    """Open the files of an archive, in its order and without hidden ones, for this block; read each
    before the next.

    Raises KrisselError K211 (a damaged archive, or one that states more content than it has), and
    what `open_binary` raises.
    """
    latest = [""]
    # gzip is opened separately, because tarfile takes a truncated gzip stream for the end of the
    # archive.
    with open_binary(path, expected) as file_:
        try:
            yield _members(file_, latest)
            # Truncation after the last member only shows at the end of the file.
            while file_.read(CHUNK):
                pass
        except (*DAMAGED, tarfile.TarError) as error:
            raise KrisselError(
                Errors.K211.format(path=path, problem=error, member=latest[0])
            ) from error


def _members(file_: InputFile, latest: list[str]) -> Iterator[_Member]:
    stream = cast(IO[bytes], _BoundedStream(file_))
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Header, errors="replace") as archive:
            for member in archive:
                latest[0] = member.name
                name = PurePosixPath(member.name)
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None and not name.name.startswith("."):
                    yield _Member(name, member.size, content, f"{file_.path}!{member.name}")
    except (ValueError, IndexError, OverflowError) as error:
        # tarfile raises this for invalid numbers in headers.
        raise tarfile.ReadError(f"{type(error).__name__}: {error}") from error


class _Header(tarfile.TarInfo):
    """A header that refuses to hold more than names, since it would be read whole."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Header":
        found = super().frombuf(buf, encoding, errors)
        if found.type in HEADERS and not 0 <= found.size <= MAX_HEADER:
            raise tarfile.ReadError(f"a header of {found.size} bytes")
        return found


class _BoundedStream:
    """A stream that is not read past its end: for a member that states too large a size, tarfile
    would search its end block by block.
    """

    def __init__(self, file_: InputFile) -> None:
        self._file = file_
        self._n_empty = 0

    def read(self, size: int) -> bytes:
        found = self._file.read(size)
        self._n_empty = 0 if found else self._n_empty + 1
        # One empty read is the end of an archive without its last blocks, a second is the missing
        # header.
        if self._n_empty > 2:
            raise EOFError("it ends inside its last file")
        return found
