"""Files of text in the pieces that a run is made of: units of files, and chunks of their texts."""

from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ..corpora.report import CorpusReport
from ..corpora.text_stream import Text, is_pubmed, read_texts, text_files
from ..util.hashing import stable_hash

# Consecutive files of less than this together are read as one, so that many small files are few chunks.
UNIT_BYTES = 4_000_000

# Files that are read one after another.
Unit = Tuple[Path, ...]


class Chunk(NamedTuple):
    """What a chunk of texts is without the texts.

    unit: the number of the unit it is of. is_last: it is the last one of its unit.
    ids: the hashes of the ids of its texts, (n_texts,) uint64; deleted: of ids that no later text may have, (n,).
    report: of the last chunk, what was found in reading the unit (`CorpusReport.to_dict`).
    """

    unit: int
    is_last: bool
    ids: np.ndarray
    deleted: np.ndarray
    report: Dict[str, Any]


class SeenIds:
    """A set of ids by their 64-bit hashes, in 8 bytes each.

    Of 4 * 10^7 ids, two are taken for one with a probability of 1 in 20,000.
    """

    def __init__(self) -> None:
        # Sorted, each at least twice as long as the next: few to search, and an id is seldom moved.
        self._runs: List[np.ndarray] = []

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Add ids. RETURNS: whether each is new, and the first of its kind among these, (n,) bool."""
        new = np.zeros(len(hashes), dtype=bool)
        new[np.unique(hashes, return_index=True)[1]] = True
        for run in self._runs:
            place = np.minimum(np.searchsorted(run, hashes), len(run) - 1)
            new &= run[place] != hashes
        if new.any():
            self._runs.append(np.sort(hashes[new]))
        while len(self._runs) > 1 and 2 * len(self._runs[-1]) > len(self._runs[-2]):
            self._runs[-2:] = [np.sort(np.concatenate(self._runs[-2:]))]
        return new


def ordered_files(paths: Sequence[Path]) -> List[Path]:
    """The files of the paths in the order in which they are read, which is theirs.

    PubMed's alone stand the other way round, from the last to the first, in the places that they have among the others.
    In its later files are later versions of the articles in earlier ones, and the ids of those that it deleted, while
    of several texts of one id the one that is read first is kept. NLM numbers the files in the order of their making.

    Raises KrisselError K201 when there is none at a path.
    """
    files = [file_ for path in paths for file_ in text_files(path)]
    pubmed = [file_ for file_ in files if is_pubmed(file_)]
    return [pubmed.pop() if is_pubmed(file_) else file_ for file_ in files]


def units_of(files: Sequence[Path]) -> List[Unit]:
    """The files, those that are small together with their neighbours."""
    units: List[Unit] = []
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


def read_unit(unit: Unit, number: int, chunk_chars: int) -> Iterator[Tuple[Chunk, List[Text]]]:
    """The texts of a unit in chunks of `chunk_chars` characters and more; the last one may have fewer, or none.

    Raises what `read_texts` raises.
    """
    report = CorpusReport()
    chunk: Optional[Chunk] = None
    texts: List[Text] = []
    for following, deleted in _stretches(unit, chunk_chars, report):
        if chunk:
            yield chunk, texts
        texts = following
        chunk = Chunk(number, False, _hashes(text.id for text in texts), _hashes(deleted), {})
    assert chunk is not None, "read_texts refuses files without text"
    yield chunk._replace(is_last=True, report=report.to_dict()), texts


def _stretches(unit: Unit, chunk_chars: int, report: CorpusReport) -> Iterator[Tuple[List[Text], List[str]]]:
    texts: List[Text] = []
    size = 0
    for file_ in unit:
        deleted: List[str] = []
        for text in read_texts(file_, report=report, deleted=deleted):
            texts.append(text)
            size += len(text.text)
            if size >= chunk_chars:
                yield texts, []
                texts, size = [], 0
        if deleted:
            # They are gone from the next file on.
            yield texts, deleted
            texts, size = [], 0
    if texts:
        yield texts, []


def _hashes(ids: Iterable[str]) -> np.ndarray:
    return np.array([stable_hash(id_) for id_ in ids], dtype=np.uint64)
