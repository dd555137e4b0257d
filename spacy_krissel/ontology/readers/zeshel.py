"""ZESHEL's documents, the entities of one world a file: `{"document_id", "title", "text"}` a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...util.inputs import JSON_CLOSING
from ..entity import Entity
from .records import Start, open_records, unstorable

KEYS = ("document_id", "title", "text")
# What stands behind the name of a world.
SUFFIXES = (".gz", ".json", ".jsonl")


def read_zeshel(path: str | Path) -> Iterator[Entity]:
    """Read the documents of a world of ZESHEL (Logeswaran et al., 2019): each is an entity of the type of its world.

    The name is the title, the definition the whole text; the world is the name of the file without its suffix.

    Raises KrisselError K101, K102, K103; a line that cannot be used is counted (KW101).
    """
    expected = f"one JSON object a line with {', '.join(f'`{key}`' for key in KEYS)}"
    with open_records(path, "zeshel", expected, closing=JSON_CLOSING) as records:
        world = world_of(path)
        for line in records.lines():
            if not line.strip():
                continue
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                records.reject("is not JSON")
                continue
            problem = _problem(record)
            if problem:
                records.reject(problem)
                continue
            records.accept()
            yield Entity(
                id=record["document_id"].strip(),
                name=record["title"].strip(),
                types=(world,),
                definition=record["text"].strip(),
                source="ZESHEL",
            )


def is_zeshel(start: Start) -> bool:
    first = start.first
    return first.startswith("{") and '"document_id"' in first and '"concept_id"' not in first


def world_of(path: str | Path) -> str:
    """`american_football` for `american_football.json`, whether compressed or not."""
    name = Path(path).name
    for suffix in SUFFIXES:
        name = name.removesuffix(suffix)
    return name


def _problem(record: Any) -> str:
    if not isinstance(record, dict):
        return f"holds a {type(record).__name__} instead of an object"
    for key in KEYS:
        value = record.get(key, "")
        if not isinstance(value, str):
            return f"has a {type(value).__name__} instead of a text under '{key}'"
        if key != "text" and not value.strip():
            return f"has no '{key}'"
    if problem := unstorable((record["document_id"], record["title"]), [record.get("text", "")]):
        return problem
    return "" if "text" in record else "has no 'text'"
