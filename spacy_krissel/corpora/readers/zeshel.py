"""ZESHEL's mentions: JSON lines that point into the documents of a world by white-space tokens."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import Errors, KrisselError
from ...util.inputs import JSON_CLOSING
from ..annotation import AnnotatedText, Mention
from ..files import open_lines
from ..report import CorpusReport, reporting

EXPECTED = "ZESHEL's mentions, one JSON object a line"
TEXTS = ("context_document_id", "label_document_id", "corpus", "text")
PLACES = ("start_index", "end_index")
# A world's documents: the published files are .json, although they hold JSON lines.
SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Row(NamedTuple):
    """A mention as its line states it; the end token belongs to it."""

    start: int
    end: int
    text: str
    entity: str
    line: int


Wanted = dict[str, list[_Row]]


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
        `outside_text` (mentions beyond the last token). Without one, warns of them at the end.

    Raises KrisselError K201 (no file of mentions, or of a world), K202 (truncated gzip), K203 (not UTF-8), K204 (no
    mention), K224 (the first line is no mention).
    """
    for world, wanted in _read_mentions(path, report).items():
        yield from _read_world(_world_file(Path(documents), world), world, wanted, str(path), report)
        for id_, rows in wanted.items():
            for row in rows:
                report.blemish("bad_records", str(path), row.line, f"document {id_} is not in world {world!r}")


def _read_mentions(path: str | Path, report: CorpusReport) -> dict[str, Wanted]:
    """World → context document → its mentions."""
    worlds: dict[str, Wanted] = {}
    number = 0
    with open_lines(path, EXPECTED, report=report, closing=JSON_CLOSING) as lines:
        for number, line in lines:
            if not line.strip():
                continue
            record, problem = _parse(line, TEXTS, PLACES)
            if problem:
                if not worlds:
                    raise KrisselError(Errors.K224.format(path=path, line=number, problem=problem, found=line[:80]))
                report.blemish("bad_records", str(path), number, problem)
                continue
            start, end = (record[key] for key in PLACES)
            row = _Row(start, end, record["text"], record["label_document_id"], number)
            worlds.setdefault(record["corpus"], {}).setdefault(record["context_document_id"], []).append(row)
    if not worlds:
        raise KrisselError(Errors.K204.format(path=path, what="mention", line=number, expected=EXPECTED))
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
    expected = "ZESHEL's documents, one JSON object a line"
    with open_lines(path, expected, report=report, closing=JSON_CLOSING) as lines:
        for number, line in lines:
            if not wanted:
                return
            if not line.strip():
                continue
            record, problem = _parse(line, ("document_id", "text"))
            if problem:
                report.blemish("bad_records", str(path), number, problem)
            elif record["document_id"] in wanted:
                rows = wanted.pop(record["document_id"])
                yield _annotate(record["document_id"], record["text"].split(), world, rows, source, report)


def _annotate(
    id_: str, words: list[str], world: str, rows: list[_Row], source: str, report: CorpusReport
) -> AnnotatedText:
    starts = []
    place = 0
    for word in words:
        starts.append(place)
        place += len(word) + 1
    mentions = []
    for row in rows:
        if not 0 <= row.start <= row.end < len(words):
            # Not left to `to_doc`: tokens that are not there have no characters.
            report.count("mentions_read")
            detail = f"{row.text[:60]!r} at tokens {row.start}-{row.end} of {len(words)}"
            report.blemish("outside_text", source, row.line, detail)
            continue
        end = starts[row.end] + len(words[row.end])
        mentions.append(Mention(((starts[row.start], end),), row.text, world, row.entity, row.line))
    return AnnotatedText(id_, " ".join(words), mentions, source=source, line=rows[0].line, words=words)


def _parse(line: str, texts: tuple[str, ...], numbers: tuple[str, ...] = ()) -> tuple[dict[str, Any], str]:
    """A JSON object with texts and whole numbers under these keys, and what is wrong with it, or ""."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}, "not JSON"
    if not isinstance(record, dict):
        return {}, "not a JSON object"
    for key in texts:
        if not isinstance(record.get(key), str) or not record[key].strip():
            return {}, f"no text under {key!r}"
        if _SURROGATE.search(record[key]):
            return {}, "a lone surrogate"
    for key in numbers:
        # A truth value is a number for Python.
        if not isinstance(record.get(key), int) or isinstance(record[key], bool):
            return {}, f"no whole number under {key!r}"
    return record, ""
