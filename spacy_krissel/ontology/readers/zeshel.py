"""ZESHEL's documents, the entities of one world per file: `{"document_id", "title", "text"}` per
line.
"""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ...util.inputs import JSON_CLOSING
from ..entity import Entity
from .jsonl import json_object, text_value
from .records import BadRecord, FileHead, open_records, require_storable

KEYS = ("document_id", "title", "text")


def read_zeshel(path: str | Path) -> Iterator[Entity]:
    """Read the documents of a world of ZESHEL (Logeswaran et al., 2019): each is an entity with its
    world as type.

    The name is the title, the definition the whole text; the world is the name of the file without
    its suffix.
    """
    expected = f"one JSON object per line with {', '.join(f'`{key}`' for key in KEYS)}"
    with open_records(path, "zeshel", expected, closing=JSON_CLOSING) as records:
        yield from records.parsed(records.lines(), partial(_to_entity, world=_world_of(path)))


def is_zeshel(start: FileHead) -> bool:
    first = start.first
    return first.startswith("{") and '"document_id"' in first and '"concept_id"' not in first


def _world_of(path: str | Path) -> str:
    """Return the world of a file, compressed or not: `american_football` for
    `american_football.json`.
    """
    return re.sub(r"(\.jsonl?)?(\.gz)?$", "", Path(path).name)


def _to_entity(line: str, world: str) -> Entity:
    record = json_object(line)
    id_, title, text = (text_value(record, key) for key in KEYS)
    for key, value in zip(KEYS, (id_, title, record.get("text") is not None), strict=True):
        if not value:
            raise BadRecord(f"has no '{key}'")
    return require_storable(
        Entity(id=id_, name=title, types=(world,), definition=text, source="ZESHEL")
    )
