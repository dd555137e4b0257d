"""Files of a corpus in units, and the texts or docs of a unit in parts."""

import glob
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from spacy.tokens import DocBin
from spacy.vocab import Vocab

from ..corpora.doc_bins import read_doc_bins
from ..corpora.report import CorpusReport
from ..corpora.text_stream import EXPECTED, SUFFIXES, Text, read_texts
from ..errors import Errors, KrisselError
from ..mining.reading import Unit, units_of
from ..util.inputs import CountedFile
from ..util.progress import size_of

DOCS = ".spacy"
GLOB = "*?["
# Characters of a part, some 3,000 abstracts.
PART_CHARS = 4_000_000
# A damaged disk is no damaged file: the run ends, and resumes later.
DISK = "K026"


class Part(NamedTuple):
    """Consecutive texts of a unit, or docs as bytes (`DocBin`).

    is_last: of its unit. n_docs: number of texts or docs. n_read: bytes of the unit's files that
        were read up to its end. report: of reading the unit (`CorpusReport.to_dict`), and the
        errors of damaged files, in its last part.
    """

    texts: list[Text] | bytes
    is_last: bool
    n_docs: int
    n_read: int
    report: dict[str, Any]
    damaged: list[str]


def corpus_files(source: str | Path) -> list[Path]:
    """Return the files of a corpus: the file itself, all that can be read below a folder, or those
    of a glob pattern, sorted by path.

    Raises KrisselError K201 if there is none.
    """
    found = [Path(source)]
    if not found[0].exists() and any(sign in str(source) for sign in GLOB):
        found = [Path(each) for each in sorted(glob.glob(str(source), recursive=True))]
    files: list[Path] = []
    for path in found:
        below = sorted(path.rglob("*")) if path.is_dir() else [path]
        files += [
            each
            for each in below
            if each.is_file()
            and (not path.is_dir() or each.name.lower().endswith((DOCS, *SUFFIXES)))
        ]
    if not files:
        raise KrisselError(Errors.K201.format(path=source, expected=f"{EXPECTED}, or {DOCS}"))
    return files


def corpus_units(files: list[Path]) -> list[Unit]:
    """Return the files in units of texts or of docs, small ones together with their neighbours."""
    return [unit for _, group in groupby(files, _holds_docs) for unit in units_of(list(group))]


def parts_of(unit: Unit, chars: int) -> Iterator[Part]:
    """Yield the texts of a unit in parts of at least this many characters; the last part may have
    fewer, or none.

    A file that is damaged is read up to the damage. Raises KrisselError K026 (the disk).
    """
    began, size = CountedFile.n_read, size_of(unit)
    report, damaged = CorpusReport(), list[str]()
    waiting: Part | None = None
    for texts in _chunks(unit, chars, report, damaged):
        if waiting is not None:
            yield waiting
        n_read = min(CountedFile.n_read - began, size)
        waiting = Part(_packed(texts), False, len(texts), n_read, {}, [])
    if damaged:
        report.count("damaged_files", len(damaged))
        report.examples["damaged_files"] = damaged
    last = waiting or Part([], True, 0, size, {}, [])
    yield last._replace(is_last=True, n_read=size, report=report.to_dict(), damaged=damaged)


def _chunks(
    unit: Unit, chars: int, report: CorpusReport, damaged: list[str]
) -> Iterator[list[Any]]:
    found: list[Any] = []
    size = 0
    for path in unit:
        try:
            for each in _items(path, report):
                found.append(each)
                size += len(each.text)
                if size >= chars:
                    yield found
                    found, size = [], 0
        except KrisselError as error:
            if error.code == DISK:
                raise
            damaged.append(str(error))
    if found:
        yield found


def _items(path: Path, report: CorpusReport) -> Iterator[Any]:
    if _holds_docs(path):
        return read_doc_bins(path, Vocab())
    return read_texts(path, report=report)


def _packed(items: list[Any]) -> list[Text] | bytes:
    if isinstance(items[0], Text):
        return items
    return DocBin(docs=items, store_user_data=True).to_bytes()


def _holds_docs(path: Path) -> bool:
    return path.name.lower().endswith(DOCS)
