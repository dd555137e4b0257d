"""Lines and bytes of files that may be compressed, cut short or not text at all."""

import codecs
import gzip
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Callable, Iterator, Optional, Tuple, Union, cast

from ..errors import Errors, KrisselError
from ..util.compressed import DAMAGED, GZIP_MAGIC

BOM = "\ufeff"
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


@contextmanager
def open_binary(path: Union[str, Path], expected: str = "a file") -> Iterator[BinaryIO]:
    """Open a file for reading, decompressing it when its first bytes say gzip, whatever its name.

    Raises KrisselError K201 when there is no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise KrisselError(Errors.K201.format(path=path, expected=expected))
    with path.open("rb") as file_:
        compressed = file_.read(2) == GZIP_MAGIC
        file_.seek(0)
        if not compressed:
            yield file_
        else:
            with gzip.open(file_) as inner:
                yield cast(BinaryIO, inner)


def read_lines(
    path: Union[str, Path],
    expected: str = "a text file",
    *,
    skip: Optional[Callable[[int, str], None]] = None,
) -> Iterator[Tuple[int, str]]:
    """The lines of a UTF-8 file with their numbers, from 1, without line ends; `.gz` is decompressed.

    Lines end at "\\n" or "\\r\\n" only: other characters that Python counts as line ends may stand inside a text.

    skip: called with the number of a line that is not UTF-8 and what is wrong with it; the line is left out. None: it
        is an error, as UTF-16 always is.

    Raises KrisselError K201 (no file), K202 (truncated or damaged gzip), K203 (not UTF-8).
    """
    number = 0
    with open_binary(path, expected) as file_:
        try:
            for number, raw in enumerate(file_, 1):
                try:
                    line = decode_line(raw, path, number)
                except KrisselError:
                    # Not a bad line, but another encoding, whose next lines might pass.
                    if skip is None or (number == 1 and raw.startswith(UTF16)):
                        raise
                    skip(number, "not UTF-8")
                    continue
                yield number, line
        except DAMAGED as error:
            raise KrisselError(Errors.K202.format(path=path, line=number, problem=error)) from error


def decode_text(raw: bytes, path: Union[str, Path]) -> str:
    """A whole file as text, character for character, since offsets count them: a byte order mark, too.

    Raises KrisselError K203 when it is not UTF-8.
    """
    try:
        return raw.decode("utf8")
    except UnicodeDecodeError as error:
        line, found = raw.count(b"\n", 0, error.start) + 1, f"0x{raw[error.start]:02x}"
        raise KrisselError(Errors.K203.format(path=path, line=line, found=found)) from error


def decode_line(raw: bytes, path: Union[str, Path], number: int) -> str:
    """One line as text, without its line end and, in the first line, without a byte order mark."""
    try:
        line = raw.decode("utf8")
    except UnicodeDecodeError as error:
        found = f"0x{raw[error.start]:02x}"
        raise KrisselError(Errors.K203.format(path=path, line=number, found=found)) from error
    if number == 1:
        line = line.removeprefix(BOM)
    return line.removesuffix("\n").removesuffix("\r")
