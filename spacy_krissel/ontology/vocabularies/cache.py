"""Known vocabularies, downloaded into a cache once, and verified before they are read."""

import gzip
import json
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import date, datetime, timezone
from email.utils import parsedate_to_datetime
from fnmatch import fnmatch
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zipfile import is_zipfile

from ...errors import Errors, KrisselError
from ...util.atomic import commit_folder, temporary_folder
from ...util.cache import cache_folder
from ...util.disk import coded_damage, coded_io
from ...util.hashing import sha256_file
from ...util.inputs import CHUNK
from ...util.limits import UNPACKED
from ...util.lock import Lock
from ...util.work_folder import FolderLock
from ...util.zip_file import open_zip
from . import VOCABULARIES, Vocabulary
from .download import Download, NotDownloaded

# Record of a vocabulary's files and their source, stored next to them; named in K117.
RECORD = "download.json"
# Seconds between checks whether another process has finished a download.
WAIT = 1.0
_LOCK = Lock()


class Source(NamedTuple):
    """A local source of an ontology, with its format and options.

    ids: prefix of the ids of entities to keep. stated: provenance that the file does not state.
    """

    path: Path
    format: str
    options: dict[str, Any]
    ids: str = ""
    stated: Mapping[str, Any] = {}


def locate(source: str | Path, format: str, progress: bool, **options: Any) -> Source:
    """Return a path or, if it does not exist, a known vocabulary by name, downloaded unless it is
    in the cache.

    format, options: of a path; for a vocabulary they replace its own. Raises what `fetch` raises.
    """
    name = str(source).lower()
    if name not in VOCABULARIES or Path(source).exists():
        return Source(Path(source), format, options)
    path, record = fetch(name, progress=progress)
    stated = {
        key: value
        for key, value in record.items()
        if value and key not in ("read", "download", "files")
    }
    # A file added by hand has no date, and a server may state any.
    with suppress(ValueError):
        stated["version"] = parsedate_to_datetime(record.get("modified", "")).date().isoformat()
    known = VOCABULARIES[name]
    own = dict(option.split("=") for option in known.options.split("|") if option)
    return Source(
        path, known.format if format == "auto" else format, {**own, **options}, known.ids, stated
    )


def fetch(
    name: str, *, refresh: bool = False, progress: bool = False
) -> tuple[Path, dict[str, Any]]:
    """Return the file of a vocabulary in the cache, and its record (`RECORD`).

    The vocabulary is downloaded if it is missing or does not match its record, or to `refresh` it.
    Files without a record were added by hand and are used without a check. If another process is
    downloading, this one waits.

    Raises KrisselError K116 (a licence or a login is needed), K117 (no download, or a damaged one),
    K055 (it unpacks to more than the limit), K026; the cache is then unchanged.
    """
    known, folder = VOCABULARIES[name], cache_folder() / name
    if known.command:
        raise KrisselError(Errors.K116.format(**vars(known)))
    record = None if refresh else verified_record(folder)
    if record is None:
        with coded_io(folder), _locked(work := folder.with_name(f".{name}.download")):
            # The other process may have finished the download.
            record = (None if refresh else verified_record(folder)) or _fill(
                folder, work, known, refresh, progress
            )
    return folder / record["read"], record


def verified_record(folder: Path) -> dict[str, Any] | None:
    """Return the record of a vocabulary in the cache; None if it is missing or does not match the
    files.
    """
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf8"))
        found = {name: _figures(folder / name) for name in record["files"]}
        return record if found == record["files"] and record["read"] in found else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


@contextmanager
def _locked(work: Path) -> Iterator[None]:
    with _LOCK:
        while True:
            try:
                lock = FolderLock(work)
                break
            except KrisselError as error:
                if error.code != "K045":
                    raise
            time.sleep(WAIT)
        try:
            yield
        finally:
            # A partial file stays.
            with suppress(OSError):
                work.rmdir()
            lock.release()


def _fill(
    folder: Path, work: Path, known: Vocabulary, refresh: bool, progress: bool
) -> dict[str, Any]:
    """Download a vocabulary, or take files added to its folder by hand, and commit it with its
    record.
    """
    record: dict[str, Any] = {
        "vocabulary": known.name,
        "licence": f"{known.licence}, {known.terms}",
    }
    by_hand = not refresh and not (folder / RECORD).exists() and any(_files(folder))
    with temporary_folder(folder) as new:
        try:
            if by_hand:
                shutil.copytree(folder, new, dirs_exist_ok=True)
            else:
                record |= _download(known, new, work, progress)
            record["read"] = _unpacked(new, known)
        except NotDownloaded as error:
            fields = {"address": known.address.format(year=date.today().year), "folder": folder}
            raise KrisselError(
                Errors.K117.format(name=known.name, problem=error, **fields)
            ) from error
        record["files"] = {file.relative_to(new).as_posix(): _figures(file) for file in _files(new)}
        (new / RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf8")
        commit_folder(new, folder)
    return record


def _download(known: Vocabulary, folder: Path, work: Path, progress: bool) -> dict[str, Any]:
    """Download the file of the latest release. Raises `NotDownloaded`."""
    import pooch

    pooch.get_logger().info(
        f"{known.title} (about {known.size or '?'}). Licence: {known.licence}, {known.terms}"
    )
    # Files of a year appear from October of the previous year.
    year, md5 = date.today().year + (date.today().month >= 10), None
    for address in (addresses := [known.address.format(year=each) for each in (year, year - 1)]):
        file, download = address.rpartition("/")[2], Download(work, progress=progress)
        try:
            if known.checksum:
                Download(folder)(address + known.checksum, folder / ".sum", None)
                md5 = (
                    "md5:" + (folder / ".sum").read_text(errors="replace").partition(" ")[0].strip()
                )
            cache = pooch.create(folder, base_url="", registry={file: md5}, urls={file: address})
            found = _figures(Path(cache.fetch(file, downloader=download)))
            break
        except NotDownloaded as error:
            if not error.missing or address == addresses[-1]:
                raise
        except ValueError as error:
            raise NotDownloaded(
                f"it does not have the checksum that its publisher states, {md5!r}"
            ) from error
    return {
        **download.answer,
        "downloaded": f"{datetime.now(timezone.utc):%Y-%m-%dT%H:%M:%SZ}",
        "download": found,
    }


def _unpacked(folder: Path, known: Vocabulary) -> str:
    """Unpack an archive in `folder` and remove it. RETURNS: the file to read.

    Raises `NotDownloaded` for damaged archives, and KrisselError K055.
    """
    patterns = (known.members or "*").split("|")
    for archive in [file for file in _files(folder) if known.members and is_zipfile(file)]:
        _unzip(archive, patterns)
        archive.unlink()
    found = _matching([file.relative_to(folder).as_posix() for file in _files(folder)], patterns[0])
    if len(found) != 1:
        raise NotDownloaded(f"expected one file {patterns[0]}, found {', '.join(found) or 'none'}")
    file = folder / found[0]
    if not file.stat().st_size:
        raise NotDownloaded(f"{file.name} is empty")
    if file.suffix == ".gz":
        _check_gzip(file)
    return found[0]


def _unzip(archive: Path, patterns: Iterable[str]) -> None:
    """Write matching members next to the archive by their base names, whatever their folders."""
    size = 0
    with open_zip(archive, partial(_damaged, archive)) as zipped:
        names = [name for pattern in patterns for name in _matching(zipped.namelist(), pattern)]
        targets = {archive.parent / PurePosixPath(name).name: name for name in names}
        if len(targets) < len(names):
            raise ValueError(f"two of {', '.join(names)} have the same name")
        for path, name in targets.items():
            with zipped.open(name) as content, path.open("wb") as target:
                while block := content.read(CHUNK):
                    size += len(block)
                    UNPACKED.check(size, archive.name, "what it unpacks to")
                    target.write(block)


def _check_gzip(file: Path) -> None:
    """Raise `NotDownloaded` for a damaged file: its reader would refuse it, and it would stay in
    the cache.
    """
    with coded_damage(file, partial(_damaged, file)), gzip.open(file) as content:
        while content.read(CHUNK):
            pass


def _damaged(file: Path, problem: object) -> NotDownloaded:
    return NotDownloaded(f"{file.name} is damaged: {problem}")


def _matching(names: Iterable[str], pattern: str) -> list[str]:
    return [name for name in names if fnmatch(name.rpartition("/")[2].lower(), pattern)]


def _files(folder: Path) -> Iterator[Path]:
    return (
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    )


def _figures(file: Path) -> dict[str, Any]:
    return {"bytes": file.stat().st_size, "sha256": sha256_file(file)}
