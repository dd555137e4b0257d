"""ZIP files from third parties, opened complete or refused."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from .disk import coded_damage

# Methods that publishers and annotation tools use. Python unpacks bzip2 and LZMA without a memory
# limit.
METHODS = (ZIP_STORED, ZIP_DEFLATED)
# The end-of-archive record: its signature, maximum size with comment, offset of the member count,
# and the count that large files use for unknown.
END, MAX_END, NUMBER, UNKNOWN = b"PK\5\6", 22 + 0xFFFF, 10, 0xFFFF
# Offset of the flags in a member's own header, and the flag of a UTF-8 name.
FLAGS, UTF8 = 6, 0x800


@contextmanager
def open_zip(path: Path, coded: Callable[[str], Exception]) -> Iterator[ZipFile]:
    """Open a ZIP file for this block. Read its members in blocks: they may state any size.

    coded: makes the error for a file that is damaged, truncated, encrypted, or compressed by
        another method than Deflate, given the problem. Errors of the block count as problems, too,
        unless they have a code.

    Raises the error of `coded`, and KrisselError K026 (the disk).
    """
    # zipfile gives no message for a truncated member.
    with (
        coded_damage(path, lambda error: coded(str(error) or "a member is truncated")),
        ZipFile(path) as archive,
    ):
        with path.open("rb") as raw:
            _check_members(archive, raw)
        yield archive


def _check_members(archive: ZipFile, raw: IO[bytes]) -> None:
    """Compare the list of members with redundant data, since zipfile accepts an incomplete list."""
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
        # Raises if the member's own header has another name, or the member is encrypted.
        archive.open(member).close()
        if (_flags(raw, member) ^ member.flag_bits) & UTF8:
            raise BadZipFile(f"the encoding of the name '{member.filename}' is unclear")


def _flags(raw: IO[bytes], member: ZipInfo) -> int:
    raw.seek(member.header_offset + FLAGS)
    return int.from_bytes(raw.read(2), "little")
