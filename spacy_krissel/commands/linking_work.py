"""Work of an unfinished run of `krissel link` over a corpus: the parts that were linked."""

import json
import os
from pathlib import Path
from typing import Any

from ..errors import Errors, KrisselError
from ..util.hashing import sha256_file
from ..util.work_folder import WorkFolder

# The unit of a part, and its number there.
Key = tuple[int, int]


class LinkingWork(WorkFolder):
    """Parts in `.{output}.partial`, a locked sibling of the output, each a file and a JSON record.

    A part is renamed to its name before its record is: without its record it does not count.

    records: of the parts.

    Raises KrisselError K045 if another run works there.
    """

    def __init__(self, output: Path, ending: str) -> None:
        super().__init__(output.parent / f".{output.name}.partial")
        self.records: dict[Key, dict[str, Any]] = {}
        self._ending = ending

    def begin(self, state: dict[str, Any], *, restart: bool = False) -> None:
        """Resume the work of an earlier run with the same `state`, or begin. restart: discard it.

        Raises KrisselError K647 if an earlier run with another state left work.
        """
        self.start(state, restart=restart)
        for path in self.path.glob("*.tmp"):
            path.unlink()
        for path in self.path.glob("part-*-*.json"):
            unit, number = map(int, path.stem.split("-")[1:])
            if (record := self._read(path)) is not None:
                self.records[unit, number] = record

    def has_work(self) -> bool:
        return any(self.path.glob("part-*-*.json"))

    def refusal(self, difference: str) -> KrisselError:
        return KrisselError(Errors.K647.format(path=self.path, difference=difference))

    def add(self, key: Key, content: bytes, record: dict[str, Any]) -> None:
        """Add a part. content: b"" for one without a file."""
        self.check()
        record = {**record, "file": None, "sha256": None}
        if content:
            temporary = self.temporary("part")
            temporary.write_bytes(content)
            record["file"] = f"{part_name(key)}.{self._ending}"
            record["sha256"] = sha256_file(temporary)
            os.replace(temporary, self.path / record["file"])
        self.write(f"{part_name(key)}.json", json.dumps(record).encode())
        self.records[key] = record

    def done(self, unit: int) -> bool:
        """Return whether all parts of a unit were linked."""
        own = {number: each for (of, number), each in self.records.items() if of == unit}
        return any(each["is_last"] and len(own) == number + 1 for number, each in own.items())

    def _read(self, path: Path) -> dict[str, Any] | None:
        """Return a record; None if it, or its part, was damaged by a crash of the machine."""
        try:
            record: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
            if record["file"] and sha256_file(self.path / record["file"]) != record["sha256"]:
                return None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        return record


def part_name(key: Key) -> str:
    return f"part-{key[0]:05}-{key[1]:04}"
