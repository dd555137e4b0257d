"""Texts with document-level entity labels, with or without offsets of mentions, in JSON lines."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ...util.inputs import JSON_CLOSING
from ..annotation import AnnotatedText, Fragments, Mention
from ..files import has_surrogate, json_object, read_records
from ..report import CorpusReport, reporting

EXPECTED = (
    'JSON lines: {"id": …, "text": …, "entities": [{"id": …, "spans": [[start, end], …]}, …]}'
)


@reporting
def read_text_labels(path: str | Path, *, report: CorpusReport) -> Iterator[AnnotatedText]:
    """Yield the texts of a file of JSON lines, `{"id", "text", "entities": [{"id", "spans":
    [[start, end], …]}, …]}`.

    "spans" are the fragments of one mention, in characters; without them, the entity only labels
    the text. An entity mentioned twice is listed twice. A text's "id" and an entity's "label" are
    optional. The file may be compressed with gzip.

    report: counts `bad_records`, lines of another form.

    Raises KrisselError K201 (no file), K202 (truncated gzip), K203 (UTF-16), K204 (no text).
    """
    parse = partial(_annotated_text, Path(path))
    return read_records(
        path,
        parse,
        report,
        expected=EXPECTED,
        what="text",
        closing=JSON_CLOSING,
        skip_undecoded=True,
    )


def _annotated_text(path: Path, line: str, number: int) -> AnnotatedText:
    record = json_object(line)
    if has_surrogate(json.dumps(record, ensure_ascii=False)):
        raise ValueError("a lone surrogate")
    if not isinstance(record.get("text"), str) or not record["text"].strip():
        raise ValueError('no object with a "text"')
    entities = record.get("entities") or []
    if not isinstance(entities, list) or not all(map(_is_entity, entities)):
        raise ValueError('"entities" is not a list of {"id": …, "spans": [[start, end], …]}')
    id_ = record.get("id")
    mentions = [
        Mention(_fragments(each), "", each.get("label") or "", each["id"].strip(), number)
        for each in entities
    ]
    id_ = f"{path.name}:{number}" if id_ in (None, "") else str(id_)
    return AnnotatedText(id_, record["text"], mentions, str(path), number, weak=True)


def _fragments(entity: Any) -> Fragments:
    return tuple((start, end) for start, end in sorted(entity.get("spans") or ()))


def _is_entity(each: Any) -> bool:
    if not isinstance(each, dict) or not isinstance(each.get("id"), str) or not each["id"].strip():
        return False
    spans = each.get("spans") or []
    return (
        isinstance(each.get("label") or "", str)
        and isinstance(spans, list)
        and all(
            isinstance(span, list) and len(span) == 2 and all(type(i) is int for i in span)
            for span in spans
        )
    )
