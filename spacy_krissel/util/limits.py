"""Limits on bytes held in memory or unpacked, so that a small file cannot exhaust memory or
disk."""

import os
from dataclasses import dataclass
from pathlib import Path

from ..errors import Errors, KrisselError, wrong_setting

MIB = 2**20
# Text and tables never compress that well: the usual ratio is below ten.
MAX_RATIO = 100


@dataclass(frozen=True)
class Limit:
    """A number of MiB, which an environment variable can change."""

    variable: str
    default: int

    @property
    def bytes(self) -> int:
        """Return the limit in bytes. Raises KrisselError K006 if the variable is not an integer of
        at least 1.
        """
        text = os.environ.get(self.variable, "").strip() or str(self.default)
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
            raise wrong_setting(self.variable, text, "a number of MiB, 1 or more")
        return int(text) * MIB

    def check(self, found: int, path: str | Path, position: str) -> None:
        """Raise KrisselError K055 if `found` exceeds the limit, in bytes."""
        limit = self.bytes
        if found > limit:
            raise self.exceeded(found, path, position, limit)

    def check_unpacked(self, found: int, packed: int, path: str | Path, position: str) -> None:
        """Raise KrisselError K055 if `found` exceeds the limit and far exceeds the `packed`
        bytes."""
        if found > MAX_RATIO * packed:
            self.check(found, path, position)

    def exceeded(self, found: int, path: str | Path, position: str, limit: int) -> KrisselError:
        names = {"variable": self.variable, "limit": limit // MIB, "found": f"{found / MIB:.1f}"}
        return KrisselError(Errors.K055.format(path=path, position=position, **names))


# Limit for records of a stream: a line, the text of an XML element, an entity, a document. A
# decoded and parsed record takes up to fifty times its size in memory.
RECORD = Limit("KRISSEL_MAX_RECORD_MIB", 16)
# Limit for files read whole, decompressed: a JSON object, files of an archive, a workbook, a
# Parquet column.
FILE = Limit("KRISSEL_MAX_FILE_MIB", 256)
# Limit for an archive unpacked to disk: vocabularies have hundreds of MB.
UNPACKED = Limit("KRISSEL_MAX_UNPACKED_MIB", 1536)
