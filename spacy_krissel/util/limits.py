"""Limits on how much of a file is held in memory or unpacked, so that a small file cannot fill either."""

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import Errors, KrisselError, wrong_setting

MIB = 2**20
# Text and tables never compress that well: the usual ratio is below ten.
MAX_RATIO = 100


@dataclass(frozen=True)
class Limit:
    """A number of MiB that an environment variable can change."""

    variable: str
    default: int

    @property
    def bytes(self) -> int:
        """Raises KrisselError K006 where the variable is not a whole number of at least 1."""
        text = os.environ.get(self.variable, "").strip() or str(self.default)
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
            raise wrong_setting(self.variable, text, "a number of MiB, 1 or more")
        return int(text) * MIB

    def check(self, found: int, path: str | Path, place: str) -> None:
        """Raises KrisselError K055 where `found` bytes are too many."""
        limit = self.bytes
        if found > limit:
            raise self.exceeded(found, path, place, limit)

    def check_unpacked(self, found: int, packed: int, path: str | Path, place: str) -> None:
        """Raises KrisselError K055 where `found` bytes are too many, and far more than the `packed` ones."""
        if found > MAX_RATIO * packed:
            self.check(found, path, place)

    def exceeded(self, found: int, path: str | Path, place: str, limit: int) -> KrisselError:
        names = {"variable": self.variable, "limit": limit // MIB, "found": f"{found / MIB:.1f}"}
        return KrisselError(Errors.K055.format(path=path, place=place, **names))


# For records of a stream: a line, the text of an XML element, an entity, a document. Decoded and parsed, a record
# takes up to fifty times as much memory.
RECORD = Limit("KRISSEL_MAX_RECORD_MIB", 16)
# For what is read whole, decompressed: a JSON object, files of an archive, a workbook, a Parquet column.
FILE = Limit("KRISSEL_MAX_FILE_MIB", 256)
# For what an archive unpacks to on disk: vocabularies have hundreds of MB.
UNPACKED = Limit("KRISSEL_MAX_UNPACKED_MIB", 1536)
