"""JSON lines in scispaCy's format, with additional keys."""

import json
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...errors import KrisselWarning, Warnings
from ...util.inputs import JSON_CLOSING
from ..entity import Entity
from .records import BadRecord, FileHead, RecordFile, open_records, require_storable, unique

# Key of the file -> field of the entity.
TEXTS = {
    "concept_id": "id",
    "canonical_name": "name",
    "definition": "definition",
    "species": "species",
    "source": "source",
}
LISTS = ("aliases", "types", "tree_numbers", "xrefs", "alt_ids", "parents")
KNOWN = (*TEXTS, *LISTS)
# OBO stanzas begin with a bracket, too.
_LIST = re.compile(r"\s*\[\s*\{")
JSON_LD = re.compile(r'"@(?:context|id|graph)"\s*:')
# Escapes of lone surrogates, which cannot be stored, and of control characters.
_ESCAPED = re.compile(r"\\(?:b|u(?:[dD][89a-fA-F]|00[01]|007[fF]))")


def read_jsonl(path: str | Path) -> Iterator[Entity]:
    """Read objects, one per line or in one list: `concept_id` and `canonical_name`, and optionally
    `aliases`, `types`, `definition` (scispaCy's keys), `tree_numbers`, `xrefs`, `species`,
    `source`, `alt_ids`, `parents`.

    Warns KW104 about values under unknown keys.
    """
    expected = "JSON objects with `concept_id` and `canonical_name`, one per line, or in one list"
    with open_records(path, "jsonl", expected, closing=JSON_CLOSING) as records:
        unknown: Counter[str] = Counter()
        yield from records.parsed(_objects(records), lambda found: _to_entity(found, unknown))
        if unknown:
            keys = ", ".join(f"{key!r} ({n})" for key, n in unknown.most_common(5))
            message = Warnings.KW104.format(
                count=unknown.total(), path=path, keys=keys, known=", ".join(KNOWN)
            )
            warnings.warn(message, KrisselWarning, stacklevel=2)


def is_jsonl(start: FileHead) -> bool:
    return bool(start.first.startswith("{") or _LIST.match(start.text)) and not JSON_LD.search(
        start.text
    )


def _objects(records: RecordFile) -> Iterator[Any]:
    """Yield the lines, or the values of one list."""
    is_list = (
        _LIST.match(records.file.read(1 << 10).decode("utf-8-sig", errors="replace")) is not None
    )
    records.file.rewind()
    if not is_list:
        yield from records.lines()
        return
    found = records.json()
    # Value numbers replace line numbers.
    for records.line, value in enumerate(found if isinstance(found, list) else [found], 1):
        yield value


def _to_entity(found: Any, unknown: Counter[str]) -> Entity:
    """Convert a record to an entity. found: a line, or a value of a list."""
    record = json_object(found) if isinstance(found, str) else found
    if not isinstance(record, dict):
        raise BadRecord(f"holds a {type(record).__name__} instead of an object")
    fields: dict[str, Any] = {field: text_value(record, key) for key, field in TEXTS.items()}
    for key in LISTS:
        value = record.get(key)
        # A single text is a sequence of texts, too, and would become a list of letters.
        if value is not None and not (
            isinstance(value, list) and all(isinstance(item, str) for item in value)
        ):
            raise BadRecord(f"has no list of texts under '{key}'")
        fields[key] = unique(value or (), without=fields["name"] if key == "aliases" else "")
    for key in ("concept_id", "canonical_name"):
        if not fields[TEXTS[key]]:
            raise BadRecord(f"has no '{key}'")
    entity = Entity(**fields)
    if found is record or _ESCAPED.search(found):
        require_storable(entity)
    unknown.update(key for key in record if key not in KNOWN)
    return entity


def json_object(line: str) -> dict[str, Any]:
    """Parse a JSON object. Raises `BadRecord` for another line."""
    try:
        record = json.loads(line)
    except RecursionError:
        raise BadRecord("is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise BadRecord(f"is not JSON ({error.msg}, column {error.colno})") from None
    except ValueError as error:
        raise BadRecord(f"is not JSON ({error})") from None
    if not isinstance(record, dict):
        raise BadRecord(f"holds a {type(record).__name__} instead of an object")
    return record


def text_value(record: dict[str, Any], key: str) -> str:
    """Return the stripped text; "" for none. Raises `BadRecord` for another value."""
    value = record.get(key)
    if value is not None and not isinstance(value, str):
        raise BadRecord(f"has a {type(value).__name__} instead of a text under '{key}'")
    return (value or "").strip()
