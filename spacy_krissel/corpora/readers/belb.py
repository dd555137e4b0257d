"""BELB's corpora (Garda et al., 2023): the BioC JSON of its first version, and the rows of its
second.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import Errors, KrisselError
from ...mentions.gold_ids import read_ids
from ...util.inputs import JSON_CLOSING
from ..annotation import AnnotatedText, Mention
from ..files import has_surrogate, json_object, open_binary, read_records
from ..report import CorpusReport, reporting
from .bioc import BioCDocument

EXPECTED = "BELB's rows, one JSON object per line"
# Keys that hold the documents of a collection.
COLLECTIONS = ("documents", "PubTator3")
_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"\s*")
_NEXT_VALUE = re.compile(r"(?<=\n)[{\[]")
Json = dict[str, Any]


@reporting
def read_bioc_json(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield the documents of a BioC JSON file, `{"documents": [{"id", "passages": [{"offset",
    "text", "annotations"}]}]}`.

    As in PubTator's service, the documents may be under "PubTator3" instead, in a list, or one
    after another, such as one per line. There may be several collections.

    BELB writes `train.bioc.json`, `dev.bioc.json` and `test.bioc.json` for each corpus, with ids in
    the infon `identifier`, joined by `;`. Its option `--markers` inserts marks into the texts,
    which are kept. Everything else is as in `read_bioc`, but an infon may be a list of ids, the
    file is held in memory, and "lines" in messages count documents.

    report: counts `bad_records`: documents of another form, and lines after the first that are not
        JSON.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K204 (no document), K244 (truncated,
    or no such object).
    """
    with open_binary(path, "a BioC JSON file") as file_:
        raw = file_.read_all()
    n_documents = 0
    for number, document in enumerate(_documents(raw, path), 1):
        try:
            if isinstance(document, ValueError):
                raise document
            annotated = _document(document, str(path), number, report)
        except (ValueError, RecursionError) as error:
            report.record_issue("bad_records", str(path), number, str(error))
        else:
            n_documents += 1
            yield annotated
    if not n_documents:
        raise KrisselError(
            Errors.K204.format(path=path, what="document", line=1, expected="a BioC JSON file")
        )


def _documents(raw: bytes, path: str | Path) -> Iterator[Any]:
    """Yield the documents of all JSON values of a file; for a damaged one, a description of the
    problem.

    Raises KrisselError K244 if the first value is damaged, the last one is truncated, or one holds
    no documents.
    """
    end = 0
    try:
        text = raw.decode("utf-8-sig")
        while (start := _BLANK.match(text, end).end()) < len(text):  # type: ignore[union-attr]
            try:
                value, end = _DECODER.raw_decode(text, start)
            except (ValueError, RecursionError) as error:
                following = _NEXT_VALUE.search(text, start + 1)
                if start == 0 or (following is None and not text.endswith("\n")):
                    raise
                end = following.start() if following else len(text)
                yield ValueError(f"not JSON: {error}"[:80])
                continue
            yield from _held(value)
    except (ValueError, RecursionError) as error:
        raise KrisselError(Errors.K244.format(path=path, problem=str(error)[:80])) from None


def _held(value: Any) -> list[Any]:
    """Return the documents of a JSON value. Raises ValueError if it holds none."""
    if isinstance(value, list):
        found = [each for item in value for each in (_collected(item) or [item])]
    elif (collected := _collected(value)) is not None:
        # All its content is meant to be documents.
        return collected
    else:
        found = [value]
    if not any(isinstance(each, dict) and "passages" in each for each in found):
        raise ValueError(
            "it is neither an object with a list of documents, nor a list of documents"
        )
    return found


def _collected(value: Any) -> list[Any] | None:
    lists = [value.get(key) for key in COLLECTIONS] if isinstance(value, dict) else []
    return next((each for each in lists if isinstance(each, list)), None)


@reporting
def read_belb(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield the rows of a split from BELB's second version, as written by its `to_json`: one JSON
    object per line.

    A row is `{"id", "text", "annotations": [{"type", "text", "start", "end", "ids"},
    …]}` with a list of ids, `["NIL"]` for no concept. "metadata" is not read. An annotation of the
    whole document, from -1 to -1, is counted and skipped.

    report: counts `document_annotations` and `bad_records`, rows of another form.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (not UTF-8), K204 (no row), K245
    (the first line is not a row).
    """

    def row(line: str, number: int) -> AnnotatedText:
        record = json_object(line)
        _check_text(record)
        text, annotations = record.get("text"), record.get("annotations")
        if not isinstance(text, str) or not isinstance(annotations, list):
            raise ValueError('no "text" with "annotations"')
        mentions = [_mention(each, number) for each in annotations]
        report.count("document_annotations", mentions.count(None))
        id_ = str(record.get("id") or f"{Path(path).name}:{number}")
        return AnnotatedText(id_, text, [each for each in mentions if each], str(path), number)

    checks: dict[str, Any] = {"first_error": Errors.K245, "closing": JSON_CLOSING}
    return read_records(path, row, report, expected=EXPECTED, what="row", **checks)


def _mention(record: Any, line: int) -> Mention | None:
    """Parse a mention; None for the whole document. Raises ValueError for another form."""
    if not isinstance(record, dict):
        raise ValueError("an annotation is not an object")
    start, end, ids = (record.get(key) for key in ("start", "end", "ids"))
    text, label = (record.get(key) or "" for key in ("text", "type"))
    if type(start) is not int or type(end) is not int or not isinstance(ids, list):
        raise ValueError('an annotation without whole numbers "start" and "end", or a list "ids"')
    if (
        not isinstance(text, str)
        or not isinstance(label, str)
        or not all(type(id_) in (str, int) for id_ in ids)
    ):
        raise ValueError("an annotation whose text, type or id is of another kind")
    return (
        None
        if start == end == -1
        else Mention(((start, end),), text, label, "|".join(map(str, ids)), line)
    )


def _document(record: Any, path: str, number: int, report: CorpusReport) -> AnnotatedText:
    """Parse a document. Raises ValueError for another form."""
    if not isinstance(record, dict):
        raise ValueError("no object")
    _check_text(record)
    found = BioCDocument(path, number, report)
    found.annotated.id = str(record.get("id") or "").strip()
    for passage in _objects(record, "passages"):
        for unit in (passage, *_objects(passage, "sentences")):
            offset = unit.get("offset")
            if isinstance(text := unit.get("text"), str):
                found.units.append((offset if type(offset) is int and offset >= 0 else 0, text))
            for each in _objects(unit, "annotations"):
                _annotate(found, each, number)
        report.count("relations", len(_objects(passage, "relations")))
    report.count("relations", len(_objects(record, "relations")))
    return found.finished()


def _annotate(found: BioCDocument, record: Json, number: int) -> None:
    infons = record.get("infons")
    named = infons.items() if isinstance(infons, dict) else ()
    locations = [
        (str(each.get("offset")), str(each.get("length"))) for each in _objects(record, "locations")
    ]
    found.annotate(
        {name.lower(): text for name, value in named if (text := _infon(value))},
        locations,
        str(record.get("text") or ""),
        number,
    )


def _infon(value: Any) -> str:
    """Return the text of an infon, with several ids joined; "" for other values."""
    if isinstance(value, list):
        return "|".join(
            filter(
                None, (read_ids(str(each).strip()) for each in value if isinstance(each, str | int))
            )
        )
    return str(value).strip() if isinstance(value, str | int) else ""


def _objects(record: Json, key: str) -> list[Json]:
    value = record.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _check_text(record: Json) -> None:
    if has_surrogate(json.dumps(record, ensure_ascii=False)):
        raise ValueError("a lone surrogate")
