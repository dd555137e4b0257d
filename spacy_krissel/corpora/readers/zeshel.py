"""ZESHEL's mentions: JSON lines that refer to white-space tokens in the documents of a world."""

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

EXPECTED = "ZESHEL's mentions, one JSON object per line"
TEXTS = ("context_document_id", "label_document_id", "corpus", "text")
OFFSETS = ("start_index", "end_index")
# A world's documents: the published files end in .json, although they hold JSON lines.
SUFFIXES = (".json", ".jsonl", ".json.gz", ".jsonl.gz")


# Context document → its mentions, each with its line.
Wanted = dict[str, list[tuple[int, dict[str, Any]]]]


@reporting
def read_zeshel(
    path: str | Path, *, documents: str | Path, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Yield the documents that a file of ZESHEL's mentions refers to (Logeswaran et al., 2019), one
    at a time.

    A mention is `{"mention_id", "context_document_id", "start_index", "end_index", "text",
    "label_document_id", "category", "corpus"}`: the tokens from start to end, inclusive, of the
    text of the context document, split at white space. Its label is the world ("corpus"), so that
    accuracy can be averaged over worlds; its id is `label_document_id`. "category" and "mention_id"
    are not read.

    documents: the folder with one file of documents per world, `<corpus>.json` (or .jsonl, .gz); a
        document is `{"document_id", "title", "text"}`.

    Documents have the format's own tokens (`AnnotatedText.words`), joined by single spaces, and
    come world by world in the order of the world's file. All mentions of the file, and one document
    at a time, are held in memory.

    report: counts `bad_records` (lines that are no such object; mentions whose document is missing)
        and `outside_text` (mentions beyond the last token).

    Raises KrisselError K201 (no file of mentions, or of a world), K202 (truncated gzip), K203
    (not UTF-8), K204 (no mention), K224 (the first line is no mention).
    """
    for world, wanted in _read_mentions(path, report).items():
        yield from _read_world(
            _world_file(Path(documents), world), world, wanted, str(path), report
        )
        for id_, rows in wanted.items():
            for line, _ in rows:
                report.record_issue(
                    "bad_records", str(path), line, f"document {id_} is not in world {world!r}"
                )


def _read_mentions(path: str | Path, report: CorpusReport) -> dict[str, Wanted]:
    """Return the mentions by world and context document."""

    def mention(line: str, number: int) -> tuple[int, dict[str, Any]]:
        return number, _parse(line, TEXTS, OFFSETS)

    worlds: dict[str, Wanted] = {}
    checks: dict[str, Any] = {"first_error": Errors.K224, "closing": JSON_CLOSING}
    for number, record in read_records(
        path, mention, report, expected=EXPECTED, what="mention", **checks
    ):
        rows = worlds.setdefault(record["corpus"], {}).setdefault(record["context_document_id"], [])
        rows.append((number, record))
    return worlds


def _world_file(folder: Path, world: str) -> Path:
    # A world names a file inside the folder only.
    paths = [folder / f"{Path(world).name}{suffix}" for suffix in SUFFIXES]
    for path in paths:
        # Unlike `Path.is_file`, it accepts impossible file names.
        if os.path.isfile(path):
            return path
    raise KrisselError(
        Errors.K201.format(path=paths[0], expected=f"the documents of ZESHEL's world {world!r}")
    )


def _read_world(
    path: Path, world: str, wanted: Wanted, source: str, report: CorpusReport
) -> Iterator[AnnotatedText]:
    """Yield the documents of `wanted`, from which found ones are removed."""

    def document(line: str, number: int) -> dict[str, Any]:
        return _parse(line, ("document_id", "text"))

    expected = "ZESHEL's documents, one JSON object per line"
    for record in read_records(path, document, report, expected=expected, closing=JSON_CLOSING):
        if rows := wanted.pop(record["document_id"], None):
            yield _annotate(
                record["document_id"], record["text"].split(), world, rows, source, report
            )
        if not wanted:
            return


def _annotate(
    id_: str,
    words: list[str],
    world: str,
    rows: list[tuple[int, dict[str, Any]]],
    source: str,
    report: CorpusReport,
) -> AnnotatedText:
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    mentions = []
    for line, record in rows:
        first, last = (record[key] for key in OFFSETS)
        if not 0 <= first <= last < len(words):
            # Check here and not in `to_doc`: missing tokens have no characters.
            report.count("mentions_read")
            detail = f"{record['text'][:60]!r} at tokens {first}-{last} of {len(words)}"
            report.record_issue("outside_text", source, line, detail)
            continue
        span = int(ends[first]) - len(words[first]), int(ends[last])
        mentions.append(Mention((span,), record["text"], world, record["label_document_id"], line))
    return AnnotatedText(
        id_, " ".join(words), mentions, source=source, line=rows[0][0], words=words
    )


def _parse(line: str, texts: tuple[str, ...], numbers: tuple[str, ...] = ()) -> dict[str, Any]:
    """Parse a JSON object with texts and integers under these keys. Raises ValueError for another
    line.
    """
    record = json_object(line)
    for key in texts:
        if not isinstance(record.get(key), str) or not record[key].strip():
            raise ValueError(f"no text under {key!r}")
        if has_surrogate(record[key]):
            raise ValueError("a lone surrogate")
    for key in numbers:
        # In Python, booleans are integers.
        if type(record.get(key)) is not int:
            raise ValueError(f"no whole number under {key!r}")
    return record
