"""Corrections of links in an append-only file, one per line."""

import json
import os
import uuid
import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError

from ..errors import Errors, KrisselError, KrisselWarning, Warnings
from ..util.atomic import atomic_file
from ..util.disk import coded_io


@dataclass(frozen=True)
class Correction:
    """A person's correction of a mention.

    text, start, end: the mention is `text[start:end]`. doc: an id of the text; "" for none.
    right: the ids of its entity, or of those of a composite mention. rejected: the ids of entities
        that it is not. Without both, the vocabulary has no entity for it.
    same_document: it holds in texts with the same `doc` or content only.
    linked: the earlier link. author: of the correction. time: in UTC, as ISO 8601.
    """

    text: str
    start: int
    end: int
    right: tuple[str, ...] = ()
    linked: str = ""
    doc: str = ""
    author: str = ""
    id: str = ""
    time: str = ""
    rejected: tuple[str, ...] = ()
    same_document: bool = False

    @property
    def mention(self) -> str:
        return self.text[self.start : self.end]

    def data(self) -> dict[str, Any]:
        # `asdict` is ten times slower.
        return {**vars(self), "right": [*self.right], "rejected": [*self.rejected]}

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "Correction":
        """Return the correction in `data`. Raises ValueError if it is invalid (pydantic's
        ValidationError is one)."""
        correction = _CORRECTION.validate_python(data)
        correction.check()
        return correction

    def check(self) -> None:
        """Raise ValueError if the mention is not in the text, or there is no id."""
        if not 0 <= self.start < self.end <= len(self.text):
            raise ValueError("its mention is not in its text")
        if not self.id:
            raise ValueError("it has no id")


@dataclass(frozen=True)
class _Undone:
    """A line that undoes a correction."""

    undone: str
    author: str = ""
    time: str = ""


_CORRECTION = TypeAdapter(Correction)
_UNDONE = TypeAdapter(_Undone)


class CorrectionLog:
    """Log of corrections in a file, with the active ones: those that were not undone.

    One process holds the file. A line is on the disk before `add` and `undo` return, and an
    incomplete line of a killed process is removed. path: None for no file.
    """

    def __init__(self, path: Path | None = None) -> None:
        """Open the log. Raises KrisselError K026 (disk), K681 (another process holds the file, or a
        line is no correction)."""
        self.path = path
        self._in_force: dict[str, Correction] = {}
        self._last_text = ""
        self._file: BinaryIO | None = None
        if path is None:
            return
        with coded_io(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # Without a buffer: after a full disk, buffered data would be written later.
            self._file = path.open("a+b", buffering=0)
        try:
            _lock(self._file, path)
            self._read_all(self._file, path)
        except BaseException:
            self._file.close()
            raise

    @property
    def in_force(self) -> list[Correction]:
        """Active corrections, oldest first."""
        return [*self._in_force.values()]

    def new(self, **values: Any) -> Correction:
        """Return a correction with an id and the current time."""
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        return Correction(**values, id=uuid.uuid4().hex, time=now)

    def add(self, correction: Correction) -> None:
        self._write(correction.data())
        self._keep(correction)

    def undo(self, id_: str, author: str = "") -> Correction:
        """Undo a correction. RETURNS: the correction. Raises KeyError if it was not active."""
        correction = self._in_force[id_]
        self._write(
            {
                "undone": id_,
                "author": author,
                "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            }
        )
        del self._in_force[id_]
        return correction

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, record: dict[str, Any]) -> None:
        if self._file is None or self.path is None:
            return
        line = (json.dumps(record, ensure_ascii=False) + "\n").encode("utf8")
        with coded_io(self.path):
            self._file = self._hold(self._file, self.path)
            end = self._file.seek(0, os.SEEK_END)
            try:
                while line:
                    line = line[self._file.write(line) :]
                os.fsync(self._file.fileno())
            except OSError:
                # A partial line would be joined to the next one.
                self._file.truncate(end)
                raise

    def _read_all(self, file_: BinaryIO, path: Path) -> None:
        with coded_io(path):
            file_.seek(0)
            *lines, last = file_.read().split(b"\n")
        for number, line in enumerate(lines, start=1):
            self._read(line, number)
        if not last:
            return
        # The beginning of a line of `_write`. Nothing is removed from another file.
        is_cut_off = (
            last.startswith(b"{")
            and not _is_json(last)
            and bool(lines or last.startswith(b'{"text": "'))
        )
        with coded_io(path):
            try:
                self._read(last, len(lines) + 1)
                file_.write(b"\n")
            except KrisselError:
                if not is_cut_off:
                    raise
                file_.truncate(file_.seek(0, os.SEEK_END) - len(last))
                warnings.warn(
                    Warnings.KW681.format(path=path, n=len(last)), KrisselWarning, stacklevel=4
                )

    def _read(self, line: bytes, number: int) -> None:
        """Read a line. Raises KrisselError K681 for any line that `_write` does not write."""
        try:
            # Not by `json`, which fails in another way at deep nesting, and accepts unpaired
            # surrogates.
            if line.startswith(b'{"undone"'):
                del self._in_force[_UNDONE.validate_json(line, strict=True).undone]
                return
            correction = _CORRECTION.validate_json(line, strict=True)
            correction.check()
        except KeyError as error:
            raise self._no_correction(number, f"undoes {error}, which is not active") from error
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = f" at '{'.'.join(map(str, first['loc']))}'" if first["loc"] else ""
            raise self._no_correction(
                number, f"is no correction{where} ({first['msg']})"
            ) from error
        except ValueError as error:
            raise self._no_correction(number, f"is no correction ({error})") from error
        self._keep(correction)

    def _keep(self, correction: Correction) -> None:
        # One string object per text, whose corrections are usually consecutive.
        if correction.text == self._last_text:
            correction = replace(correction, text=self._last_text)
        self._last_text = correction.text
        self._in_force[correction.id] = correction

    def _no_correction(self, number: int, problem: str) -> KrisselError:
        return KrisselError(Errors.K681.format(path=self.path, problem=f"line {number} {problem}"))

    def _hold(self, file_: BinaryIO, path: Path) -> BinaryIO:
        """Return the open file at `path`. If it was moved or removed while open, write it again,
        with all its corrections. Raises KrisselError K681 if another file replaced it."""
        held = os.fstat(file_.fileno())
        with suppress(FileNotFoundError):
            if os.path.samestat(held, os.stat(path)):
                return file_
            problem = "another file replaced it while the service ran"
            raise KrisselError(Errors.K681.format(path=path, problem=problem))
        file_.seek(0)
        content = file_.read()
        with atomic_file(path) as temporary:
            temporary.write_bytes(content)
        again = path.open("a+b", buffering=0)
        try:
            _lock(again, path)
        except BaseException:
            again.close()
            raise
        file_.close()
        warnings.warn(Warnings.KW683.format(path=path), KrisselWarning, stacklevel=5)
        return again


def _lock(file_: BinaryIO, path: Path) -> None:
    """Prevent other processes from writing to it, if the system can."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(file_, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise KrisselError(
            Errors.K681.format(path=path, problem="another process writes to it")
        ) from error


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    except RecursionError:
        # Deeper than any line of a log.
        return True
    return True
