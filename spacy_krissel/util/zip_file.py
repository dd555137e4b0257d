"""ZIP files written by others: opened whole, or refused."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from .disk import damage

# All that publishers and annotation tools write. Python unpacks bzip2 and LZMA without a bound on memory.
METHODS = (ZIP_STORED, ZIP_DEFLATED)
# The record at the end of the file: how it begins, its size with the longest comment, and where the number of members
# stands; that number is unknown in large files.
END, MAX_END, NUMBER, UNKNOWN = b"PK\5\6", 22 + 0xFFFF, 10, 0xFFFF
# Where a member's own header has its flags, and the flag of a name in UTF-8.
FLAGS, UTF8 = 6, 0x800


@contextmanager
def open_zip(path: Path, coded: Callable[[str], Exception]) -> Iterator[ZipFile]:
    """Open a ZIP file for this block. Read its members in blocks: they may state any size.

    coded: makes the error for a file that is damaged, truncated, encrypted, or compressed by another method than
        Deflate. It takes the problem. Errors of the block count as problems too, but for those that have a code.
    Raises what `coded` makes, and KrisselError K026 (the disk).
    """
    # zipfile says nothing of a member that ends too early.
    with damage(path, lambda error: coded(str(error) or "a member is cut short")), ZipFile(path) as archive:
        with path.open("rb") as raw:
            _check_members(archive, raw)
        yield archive


def _check_members(archive: ZipFile, raw: IO[bytes]) -> None:
    """Compare the list of members with what else says the same: zipfile takes a list that lost some for the whole."""
    members = archive.infolist()
    raw.seek(max(0, raw.seek(0, 2) - MAX_END))
    tail = raw.read()
    start = tail.rfind(END) + NUMBER
    if int.from_bytes(tail[start : start + 2], "little") not in (len(members), UNKNOWN):
        raise BadZipFile(f"it has {len(members)} members, and states another number")
    if len(set(archive.namelist())) < len(members):
        raise BadZipFile("two members have the same name")
    for member in members:
        if member.compress_type not in METHODS:
            raise BadZipFile(f"'{member.filename}' is compressed by another method than Deflate")
        # Raises where its own header has another name, and where it is encrypted.
        archive.open(member).close()
        if (_flags(raw, member) ^ member.flag_bits) & UTF8:
            raise BadZipFile(f"the encoding of the name '{member.filename}' is unclear")


def _flags(raw: IO[bytes], member: ZipInfo) -> int:
    raw.seek(member.header_offset + FLAGS)
    return int.from_bytes(raw.read(2), "little")
