"""ZESHEL's mentions: JSON lines that point into the documents of a world by white-space tokens."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import Errors, KrisselError
from ...util.inputs import JSON_CLOSING
from ..annotation import AnnotatedText, Mention
from ..files import has_surrogate, json_object, read_records
from ..report import CorpusReport, reporting

EXPECTED = "ZESHEL's mentions, one JSON object a line"
TEXTS = ("context_document_id", "label_document_id", "corpus", "text")
PLACES = ("start_index", "end_index")
# A world's documents: the published files are .json, although they hold JSON lines.
SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")


# Context document → its mentions, each with its line.
Wanted = dict[str, list[tuple[int, dict[str, Any]]]]


@reporting
def read_zeshel(path: str | Path, *, documents: str | Path, report: CorpusReport) -> Iterator[AnnotatedText]:
    """The documents that a file of ZESHEL's mentions points into (Logeswaran et al., 2019), one at a time.

    A mention is `{"mention_id", "context_document_id", "start_index", "end_index", "text", "label_document_id",
    "category", "corpus"}`: the tokens from start to end, the end included, of the text of the context document, split
    at white space. Its label is the world ("corpus"), so that accuracy can be averaged over worlds; its id is
    `label_document_id`. "category" and "mention_id" are not read.

    documents: the folder with a file of documents a world, `<corpus>.json` (or .jsonl, .gz); a document is
        `{"document_id", "title", "text"}`.

    Documents have the format's own tokens (`AnnotatedText.words`), joined by single blanks; they come world by world in
    the order of the world's file. In memory are all mentions of the file, and one document.

    report: counts `bad_records` (lines that are no such object; mentions whose document is not there) and
        `outside_text` (mentions beyond the last token).
    Raises KrisselError K201 (no file of mentions, or of a world), K202 (truncated gzip), K203 (not UTF-8), K204 (no
    mention), K224 (the first line is no mention).
    """
    for world, wanted in _read_mentions(path, report).items():
        yield from _read_world(_world_file(Path(documents), world), world, wanted, str(path), report)
        for id_, rows in wanted.items():
            for line, _ in rows:
                report.blemish("bad_records", str(path), line, f"document {id_} is not in world {world!r}")


def _read_mentions(path: str | Path, report: CorpusReport) -> dict[str, Wanted]:
    """World → context document → its mentions."""

    def mention(line: str, number: int) -> tuple[int, dict[str, Any]]:
        return number, _parse(line, TEXTS, PLACES)

    worlds: dict[str, Wanted] = {}
    checks: dict[str, Any] = {"first_error": Errors.K224, "closing": JSON_CLOSING}
    for number, record in read_records(path, mention, report, expected=EXPECTED, what="mention", **checks):
        rows = worlds.setdefault(record["corpus"], {}).setdefault(record["context_document_id"], [])
        rows.append((number, record))
    return worlds


def _world_file(folder: Path, world: str) -> Path:
    # A world names a file: nothing outside the folder is meant.
    paths = [folder / f"{Path(world).name}{suffix}" for suffix in SUFFIXES]
    for path in paths:
        # Unlike `Path.is_file`, it takes names that no disk does.
        if os.path.isfile(path):
            return path
    raise KrisselError(Errors.K201.format(path=paths[0], expected=f"the documents of ZESHEL's world {world!r}"))


def _read_world(path: Path, world: str, wanted: Wanted, source: str, report: CorpusReport) -> Iterator[AnnotatedText]:
    """The documents of `wanted`, which loses those that are found."""

    def document(line: str, number: int) -> dict[str, Any]:
        return _parse(line, ("document_id", "text"))

    expected = "ZESHEL's documents, one JSON object a line"
    for record in read_records(path, document, report, expected=expected, closing=JSON_CLOSING):
        if rows := wanted.pop(record["document_id"], None):
            yield _annotate(record["document_id"], record["text"].split(), world, rows, source, report)
        if not wanted:
            return


def _annotate(
    id_: str, words: list[str], world: str, rows: list[tuple[int, dict[str, Any]]], source: str, report: CorpusReport
) -> AnnotatedText:
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    mentions = []
    for line, record in rows:
        first, last = (record[key] for key in PLACES)
        if not 0 <= first <= last < len(words):
            # Not left to `to_doc`: tokens that are not there have no characters.
            report.count("mentions_read")
            detail = f"{record['text'][:60]!r} at tokens {first}-{last} of {len(words)}"
            report.blemish("outside_text", source, line, detail)
            continue
        place = int(ends[first]) - len(words[first]), int(ends[last])
        mentions.append(Mention((place,), record["text"], world, record["label_document_id"], line))
    return AnnotatedText(id_, " ".join(words), mentions, source=source, line=rows[0][0], words=words)


def _parse(line: str, texts: tuple[str, ...], numbers: tuple[str, ...] = ()) -> dict[str, Any]:
    """A JSON object with texts and whole numbers under these keys. Raises ValueError for another line."""
    record = json_object(line)
    for key in texts:
        if not isinstance(record.get(key), str) or not record[key].strip():
            raise ValueError(f"no text under {key!r}")
        if has_surrogate(record[key]):
            raise ValueError("a lone surrogate")
    for key in numbers:
        # A truth value is a number for Python.
        if type(record.get(key)) is not int:
            raise ValueError(f"no whole number under {key!r}")
    return record
