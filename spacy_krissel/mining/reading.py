"""Parts of a run: units of files, and chunks of their texts."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..corpora.report import CorpusReport
from ..corpora.text_stream import Text, is_pubmed, read_texts, text_files
from ..util.hashing import sha256_file, stable_hash

# Maximum total size of consecutive files that are read as one unit, so that many small files give
# few chunks.
UNIT_BYTES = 4_000_000

# Files that are read one after another.
Unit = tuple[Path, ...]


class Chunk(NamedTuple):
    """A chunk of texts, without the texts.

    unit: index of its unit. is_last: True for the last chunk of a unit.
    ids: hashes of the ids of its texts, (n_texts,) uint64; deleted: of ids that no later text may
        have, (n,).
    report: of reading the unit (`CorpusReport.to_dict`), in its last chunk.
    """

    unit: int
    is_last: bool
    ids: np.ndarray
    deleted: np.ndarray
    report: dict[str, Any]


class SeenIds:
    """Set of ids, stored as 64-bit hashes of 8 bytes each.

    The probability that any two of 4 * 10^7 ids collide is 1 in 20,000.
    """

    def __init__(self) -> None:
        # Sorted arrays, each at least twice as long as the next: few to search, and ids move
        # rarely.
        self._runs: list[np.ndarray] = []

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Add ids.

        RETURNS: whether each is new and the first with its value here, (n,) bool.
        """
        new = np.zeros(len(hashes), dtype=bool)
        new[np.unique(hashes, return_index=True)[1]] = True
        for run in self._runs:
            index = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            new &= run[index] != hashes
        if new.any():
            self._runs.append(np.sort(hashes[new]))
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            self._runs[-2:] = [np.sort(np.concatenate(self._runs[-2:]))]
        return new


def ordered_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files of the paths in reading order.

    This is the given order, except that PubMed's files are reversed. The first of several texts
    with one id is kept, and PubMed's later files (NLM numbers them) have the later versions of
    articles. They also have the ids of deleted articles.

    Raises KrisselError K201 if a path has no file.
    """
    files = [file_ for path in paths for file_ in text_files(path)]
    pubmed = [file_ for file_ in files if is_pubmed(file_)]
    return [pubmed.pop() if is_pubmed(file_) else file_ for file_ in files]


def text_hashes(files: Sequence[Path]) -> list[tuple[str, str]]:
    """Return the name and the SHA-256 of each file."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        hashes = list(threads.map(sha256_file, files))
    return [(path.name, sha256) for path, sha256 in zip(files, hashes, strict=True)]


def units_of(files: Sequence[Path]) -> list[Unit]:
    """Return the files in units, small files together with their neighbours."""
    units: list[Unit] = []
    size = 0
    for file_ in files:
        n_bytes = file_.stat().st_size
        if not units or size + n_bytes > UNIT_BYTES:
            units.append(())
            size = 0
        units[-1] += (file_,)
        size += n_bytes
    return units


def unit_bytes(unit: Unit) -> int:
    return sum(file_.stat().st_size for file_ in unit)


def read_unit(unit: Unit, number: int, chunk_chars: int) -> Iterator[tuple[Chunk, list[Text]]]:
    """Yield the texts of a unit in chunks of at least `chunk_chars` characters.

    The last chunk may have fewer, or none. Raises the errors of `read_texts`.
    """
    report = CorpusReport()
    chunk: Chunk | None = None
    texts: list[Text] = []
    for following, deleted in _texts_and_deleted(unit, chunk_chars, report):
        if chunk:
            yield chunk, texts
        texts = following
        chunk = Chunk(number, False, _hashes(text.id for text in texts), _hashes(deleted), {})
    assert chunk is not None, "read_texts refuses files without text"
    yield chunk._replace(is_last=True, report=report.to_dict()), texts


def _texts_and_deleted(
    unit: Unit, chunk_chars: int, report: CorpusReport
) -> Iterator[tuple[list[Text], list[str]]]:
    texts: list[Text] = []
    size = 0
    for file_ in unit:
        deleted: list[str] = []
        for text in read_texts(file_, report=report, deleted=deleted):
            texts.append(text)
            size += len(text.text)
            if size >= chunk_chars:
                yield texts, []
                texts, size = [], 0
        if deleted:
            # Deleted from the next file on.
            yield texts, deleted
            texts, size = [], 0
    if texts:
        yield texts, []


def _hashes(ids: Iterable[str]) -> np.ndarray:
    return np.array([stable_hash(id_) for id_ in ids], dtype=np.uint64)
