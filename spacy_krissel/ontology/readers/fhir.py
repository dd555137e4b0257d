"""FHIR: a CodeSystem (R4 or R5) as JSON."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from ..entity import Entity
from .jsonl import text_value
from .languages import Languages
from .obographs import objects
from .records import BadRecord, FileHead, RecordFile, open_records, require_storable, unique

_RESOURCE = re.compile(r'"resourceType"\s*:\s*"CodeSystem"')
# Values of the property "status" of a concept that must not be used; a deprecated one may be.
RETIRED = ("retired", "inactive", "withdrawn")


def read_fhir(path: str | Path, *, language: str = "en") -> Iterator[Entity]:
    """Read the concepts of a CodeSystem that are not marked as inactive or retired.

    The file is one JSON object, which is held in memory. The name is the display, else the first
    designation; other designations are aliases. Parents are the enclosing concept and the property
    `parent`. Ids are codes, without the URI of the code system.

    language: displays and designations in other languages are left out, unless a concept has none
        in it (`Languages`); those without a language are read.

    KW101 counts concepts, not lines. Warns KW109 about concepts without a name in the language.
    """
    expected = '{"resourceType": "CodeSystem", "concept": [{"code": …, "display": …}]}'
    with open_records(path, "fhir", expected) as records:
        data = records.json()
        if not isinstance(data, dict) or not objects(data.get("concept")):
            raise records.wrong_format("has no list of concepts", 1)
        source = next(
            (data[key] for key in ("title", "name", "url") if isinstance(data.get(key), str)), ""
        )
        languages = Languages(records.path, language)
        stated = str(data.get("language") or "")
        parse = partial(_to_entity, stated=stated, languages=languages, source=source)
        yield from records.parsed(_concepts(records, data), parse)
        languages.finish()


def is_fhir(start: FileHead) -> bool:
    return start.first.startswith("{") and _RESOURCE.search(start.text) is not None


def _concepts(records: RecordFile, data: dict[str, Any]) -> Iterator[tuple[Any, str]]:
    """Yield each concept, and the code of the enclosing one."""
    # Iterative, since the file determines the nesting depth.
    stack: list[tuple[Any, str]] = [(concept, "") for concept in reversed(data["concept"])]
    while stack:
        concept, above = stack.pop()
        records.line += 1
        yield concept, above
        if isinstance(concept, dict):
            stack += [
                (each, str(concept.get("code") or ""))
                for each in reversed(objects(concept.get("concept")))
            ]


def _to_entity(
    found: tuple[Any, str], stated: str, languages: Languages, source: str
) -> Entity | None:
    """Convert a concept to an entity. stated: the language of displays."""
    concept, above = found
    if not isinstance(concept, dict):
        raise BadRecord(f"is a {type(concept).__name__} instead of an object")
    id_, display = text_value(concept, "code"), text_value(concept, "display")
    # The key of a property's value includes its type: `valueBoolean`, `valueCode`.
    properties = [
        (each.get("code"), value)
        for each in objects(concept.get("property"))
        for key, value in each.items()
        if key.startswith("value")
    ]
    if ("inactive", True) in properties or any(
        ("status", value) in properties for value in RETIRED
    ):
        return None
    by_language: dict[str, list[str]] = {}
    designations = [
        (text_value(each, "language"), text_value(each, "value"))
        for each in objects(concept.get("designation"))
    ]
    for language, text in ((stated, display), *designations):
        if text := " ".join(text.split()):
            by_language.setdefault(languages.key(language), []).append(text)
    if not id_ or not by_language:
        raise BadRecord(f"has no {'display' if id_ else 'code'}")
    order = languages.order(id_, by_language)
    names = unique(text for language in order for text in by_language.get(language, ()))
    parents = [
        above,
        *(value for code, value in properties if code == "parent" and isinstance(value, str)),
    ]
    return require_storable(
        Entity(
            id=id_,
            name=names[0],
            aliases=names[1:],
            definition=" ".join(text_value(concept, "definition").split()),
            source=source,
            parents=unique(parents, without=id_),
        )
    )
