"""How much of a file is held in memory at once, so that a small file cannot unpack into more than there is."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from ..errors import Errors, KrisselError

MIB = 2**20
# Text and tables are never packed so well: the usual ratio is below ten.
MAX_RATIO = 100


@dataclass(frozen=True)
class Limit:
    """A number of MiB that an environment variable can change."""

    variable: str
    default: int

    @property
    def bytes(self) -> int:
        """Raises KrisselError K006 where the variable is no whole number from 1 on."""
        text = os.environ.get(self.variable, "").strip() or str(self.default)
        if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
            raise KrisselError(
                Errors.K006.format(setting=self.variable, found=text, expected="a number of MiB, from 1")
            )
        return int(text) * MIB

    def check(self, found: int, path: Union[str, Path], place: str) -> None:
        """Raises KrisselError K055 where `found` bytes are too many."""
        limit = self.bytes
        if found > limit:
            raise self.exceeded(found, path, place, limit)

    def check_unpacked(self, found: int, packed: int, path: Union[str, Path], place: str) -> None:
        """Raises KrisselError K055 where `found` bytes are too many, and too many to have been packed into so few."""
        if found > MAX_RATIO * packed:
            self.check(found, path, place)

    def exceeded(self, found: int, path: Union[str, Path], place: str, limit: int) -> KrisselError:
        names = {"variable": self.variable, "limit": limit // MIB, "found": f"{found / MIB:.1f}"}
        return KrisselError(Errors.K055.format(path=path, place=place, **names))


# What is read as a stream, piece by piece: a line, the text of an XML element, an entity, a document. Decoded and
# parsed, a piece takes up to fifty times as much.
RECORD = Limit("KRISSEL_MAX_RECORD_MIB", 16)
# What is read whole, decompressed: a JSON object, the files of an archive that is held, a workbook, a Parquet column.
FILE = Limit("KRISSEL_MAX_FILE_MIB", 256)
